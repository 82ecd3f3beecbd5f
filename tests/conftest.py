"""Shared data makers, and one cluster for all tests that ask for it: three worker processes of little memory."""

import logging
import os
import warnings
from contextlib import ExitStack, contextmanager
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


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Fail where a file of tests cannot be imported: looking for doctests passes over it, and leaves no test behind."""
    report = yield
    is_test = collector.path.name.startswith("test_")
    if is_test and report.skipped and "unable to import module" in str(report.longrepr):
        report.outcome = "failed"
    return report


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


@pytest.fixture(scope="session")
def new_cluster():
    """Start a cluster of worker processes; its client is the current one unless told otherwise."""
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
    """The cluster in use, last in a list: another one takes over where killed workers did not come back."""
    with ExitStack() as stack:
        yield [stack.enter_context(new_cluster(3))], lambda: stack.enter_context(new_cluster(3))


@pytest.fixture
def client(clusters):
    """The client that engines find by themselves."""
    used, another = clusters
    try:
        used[-1].wait_for_workers(3, timeout=30)
    except TimeoutError:
        used.append(another())
    return used[-1]
