"""Shared data makers."""

import os
from pathlib import Path

# Several workers with several BLAS threads each would wait for one another; set before NumPy is loaded.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

# A change is judged by the same examples each time; anyone's own runs go on looking for new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Sets that someone has fetched on this machine are not part of the tests."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("ADAAM_CACHE", str(folder))
    return folder


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def paper_data():
    """Loader of the paper's data sets; skips where they are not at hand."""
    folder = os.environ.get("ADAAM_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("ADAAM_DATA names no folder with the paper's data sets")

    def load_set(name, rows=None):
        with np.load(Path(folder) / f"{name}.npz") as archive:
            X, y = archive["X"][:rows].astype(np.float64), archive["y"][:rows]
        return X, y, len(np.unique(y))

    return load_set
