"""Shared fixtures, and one cluster for all tests that request it: three worker processes with little memory."""

import logging
import os
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path

# Test workers with several BLAS threads each would slow one another down; set before NumPy is loaded.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

# CI uses the same examples each time; local runs keep looking for new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Fail if a test file cannot be imported: the collection of doctests would skip it silently with all its tests."""
    report = yield
    is_test = collector.path.name.startswith("test_")
    if is_test and report.skipped and "unable to import module" in str(report.longrepr):
        report.outcome = "failed"
    return report


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Use an empty cache, so that data sets fetched on this machine do not affect tests."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("ADAAM_CACHE", str(folder))
    return folder


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def paper_data():
    """Loader of the paper's data sets; skips the test if they are not available."""
    folder = os.environ.get("ADAAM_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("ADAAM_DATA names no folder with the paper's data sets")

    def load_set(name, rows=None):
        with np.load(Path(folder) / f"{name}.npz") as archive:
            X, y = archive["X"][:rows].astype(np.float64), archive["y"][:rows]
        return X, y, len(np.unique(y))

    return load_set


@pytest.fixture(scope="session")
def new_cluster():
    """Start a cluster of worker processes; its client becomes the default unless `current` is False."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)

    @contextmanager
    def start(n_workers, threads_per_worker=1, memory_limit="1.5GB", current=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            local = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=threads_per_worker,
                processes=True,
                memory_limit=memory_limit,
                dashboard_address="127.0.0.1:0",
                host="127.0.0.1",
            )
            client = Client(local, set_as_default=current)
        try:
            yield client
        finally:
            client.close()
            local.close()

    return start


@pytest.fixture(scope="session")
def clusters(new_cluster):
    """List of clusters, the last of them in use, and a function that starts another if killed workers stay away."""
    with ExitStack() as stack:
        yield [stack.enter_context(new_cluster(3))], lambda: stack.enter_context(new_cluster(3))


@pytest.fixture
def client(clusters):
    """The default client, which engines find by themselves."""
    used, another = clusters
    try:
        used[-1].wait_for_workers(3, timeout=30)
    except TimeoutError:
        used.append(another())
    return used[-1]
