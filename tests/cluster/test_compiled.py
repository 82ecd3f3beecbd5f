"""Compiled kernels on the workers: the same results, also if a worker lacks numba, or an error if it is required."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score

from adaam import AdaAM, AdaAMClustering, RowBlocks
from adaam.engines import ClusterError, CPUEngine, DaskEngine

pytest.importorskip("distributed", reason="Dask's distributed is not installed")
pytest.importorskip("numba", reason="numba is not installed")


def many_rows():
    X, _ = make_blobs(4500, 20, centers=5, cluster_std=7.0, random_state=0)
    return np.concatenate([X, X[:50]])


@pytest.mark.parametrize("rows", [lambda: load_digits(return_X_y=True)[0], many_rows], ids=["few", "many"])
def test_fits_are_those_of_the_cpu_engine(rows):
    X = rows()
    c = 10 if X.shape[1] == 64 else 5
    found, expected = (
        AdaAMClustering(c, learner=AdaAM(c, engine=engine), head="k-means").fit(X)
        for engine in (DaskEngine(kernels="numba", block_rows=700), CPUEngine(kernels="numpy"))
    )
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-4
    assert adjusted_rand_score(found.labels_, expected.labels_) >= 0.99


@pytest.fixture
def one_without(client):
    """A worker that does not find numba for the duration of a test."""

    def find(found):
        import importlib.util

        from adaam.engines import compiled

        compiled._installed.cache_clear()
        compiled.find_spec = importlib.util.find_spec if found else lambda name: None

    worker = next(iter(client.nthreads()))
    client.run(find, False, workers=[worker])
    yield worker
    client.run(find, True, workers=[worker])


@pytest.mark.usefixtures("one_without")
@pytest.mark.parametrize("pairs", ["all", RowBlocks(n_rows=4200)])
def test_a_worker_without_numba_takes_part_by_numpy(pairs):
    X = np.concatenate([many_rows()] * 2) + np.arange(9100)[:, None] * 1e-9
    found, expected = (
        AdaAM(5, engine=engine, pairs=pairs).fit(X)
        for engine in (DaskEngine(block_rows=700), CPUEngine(kernels="numpy"))
    )
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-4


@pytest.mark.usefixtures("one_without")
def test_numba_asked_for_is_an_error_on_a_worker_without_it():
    with pytest.raises(ClusterError, match=r'needs numba on every worker.*kernels="auto"'):
        AdaAM(5, engine=DaskEngine(block_rows=100, kernels="numba"), pairs=RowBlocks(n_rows=300)).fit(many_rows())


def test_row_blocks_take_the_kernels_that_were_asked_for():
    X, pairs = many_rows(), RowBlocks(n_rows=900)
    found, expected = (
        AdaAM(5, engine=engine, pairs=pairs).fit(X)
        for engine in (DaskEngine(kernels="numba"), CPUEngine(kernels="numpy"))
    )
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-4
