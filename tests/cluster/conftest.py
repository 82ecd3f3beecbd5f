"""One cluster for all tests: three worker processes of one thread each on this machine, of little memory."""

import logging
import warnings

import numpy as np
import pytest

pytest.importorskip("distributed", reason="dask and distributed are not installed")


@pytest.fixture(scope="session")
def cluster():
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        local = LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            processes=True,
            memory_limit="1.5GB",
            dashboard_address=None,
            host="127.0.0.1",
        )
        client = Client(local)
    yield client
    client.close()
    local.close()


@pytest.fixture(autouse=True)
def client(cluster):
    """The client that engines find by themselves."""
    cluster.wait_for_workers(3, timeout=60)
    return cluster


@pytest.fixture
def chunked():
    """Rows as a Dask array in uneven chunks."""
    import dask.array as da

    def chunk(X, n_chunks=4):
        edges = np.linspace(0, len(X), n_chunks + 1).astype(int)
        edges[1:-1] += np.arange(n_chunks - 1) % 3
        return da.from_array(X, chunks=(tuple(np.diff(edges).tolist()), *[(size,) for size in X.shape[1:]]))

    return chunk
