"""Every test here runs on the cluster of `tests/conftest.py`."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def on_cluster(client):
    """The default client, which engines find by themselves."""


@pytest.fixture
def chunked():
    """Rows as a Dask array in uneven chunks."""
    import dask.array as da

    def chunk(X, n_chunks=4):
        edges = np.linspace(0, len(X), n_chunks + 1).astype(int)
        edges[1:-1] += np.arange(n_chunks - 1) % 3
        return da.from_array(X, chunks=(tuple(np.diff(edges).tolist()), *[(size,) for size in X.shape[1:]]))

    return chunk
