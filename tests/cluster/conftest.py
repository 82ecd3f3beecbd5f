"""One cluster for all tests: three worker processes of one thread each on this machine, of little memory."""

import logging
import warnings
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest


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


@pytest.fixture(autouse=True)
def client(clusters):
    """The client that engines find by themselves."""
    used, another = clusters
    try:
        used[-1].wait_for_workers(3, timeout=30)
    except TimeoutError:
        used.append(another())
    return used[-1]


@pytest.fixture
def chunked():
    """Rows as a Dask array in uneven chunks."""
    import dask.array as da

    def chunk(X, n_chunks=4):
        edges = np.linspace(0, len(X), n_chunks + 1).astype(int)
        edges[1:-1] += np.arange(n_chunks - 1) % 3
        return da.from_array(X, chunks=(tuple(np.diff(edges).tolist()), *[(size,) for size in X.shape[1:]]))

    return chunk
