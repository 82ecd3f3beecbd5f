"""Compiled kernels on the workers: the same answers, and a word where a worker has none."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score

from adaam import AdaAM, AdaAMClustering, RowBlocks
from adaam.engines import ClusterError, CPUEngine, DaskEngine
from adaam.engines.pruned.cut import Bracket
from contracts import test_engines as contract

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


def test_the_cut_of_many_rows_is_that_of_the_cpu_engine(monkeypatch):
    from adaam.engines.cluster import pairs

    P = contract.factor(1500, 4)
    weights = contract.multiset(1500)
    for n_guessed in (1 << 16, 600):
        monkeypatch.setattr(pairs, "GUESS_ROWS", n_guessed)
        engine = DaskEngine(block_rows=400, kernels="numba")
        for held in (1.0, weights):
            for share in (1e-3, 0.2):
                t = np.floor(share * np.broadcast_to(held, 1500).sum() ** 2)
                expected = contract.cut_of(CPUEngine(), P, t, held, held**2)
                found = contract.cut_of(engine, engine.asarray(P), t, held, held**2)
                assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bracket", [None, (1e-9, 2e-9), (0.0, 1e3)])
@pytest.mark.parametrize("block_rows", [400, 1500])
def test_a_guess_that_missed_costs_another_pass_and_changes_nothing(monkeypatch, bracket, block_rows):
    from adaam.engines.cluster import pairs

    if bracket is not None:
        monkeypatch.setattr(pairs, "guess_bracket", lambda *_: Bracket(*bracket))
    P, X, weights = contract.factor(1500, 4), contract.cloud(1500, 6), contract.multiset(1500)
    engine = DaskEngine(block_rows=block_rows, kernels="numba")
    for held, diagonal in ((1.0, 1.0), (1.0, 0.0), (weights, weights**2)):
        t = np.floor(0.05 * np.broadcast_to(held, 1500).sum() ** 2)
        cut, laplacian, degrees = engine.cut_laplacian(engine.asarray(P), t, engine.asarray(X), held, diagonal)
        expected = CPUEngine(kernels="numpy").cut_laplacian(P, t, X, held, diagonal)
        assert cut == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(laplacian, expected[1], atol=1e-9 * np.abs(expected[1]).max())
        np.testing.assert_allclose(degrees, expected[2], atol=1e-9 * np.abs(expected[2]).max())


@pytest.fixture
def one_without(client):
    """A worker that does not find numba, for as long as a test runs."""

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
def test_a_worker_without_numba_takes_part_by_numpy():
    X = many_rows()
    engine = DaskEngine(block_rows=700)
    assert engine.task_kernels(len(X)).choice == "auto"
    found, expected = AdaAM(5, engine=engine).fit(X), AdaAM(5, engine=CPUEngine(kernels="numpy")).fit(X)
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-4


@pytest.mark.usefixtures("one_without")
@pytest.mark.parametrize("pairs", ["all", RowBlocks(n_rows=300)])
def test_numba_asked_for_is_an_error_on_a_worker_without_it(pairs):
    with pytest.raises(ClusterError, match=r'needs numba on every worker.*kernels="auto"'):
        AdaAM(5, engine=DaskEngine(block_rows=100, kernels="numba"), pairs=pairs).fit(many_rows()[:1500])


def test_row_blocks_take_the_kernels_that_were_asked_for():
    X, pairs = many_rows(), RowBlocks(n_rows=900)
    found, expected = (
        AdaAM(5, engine=engine, pairs=pairs).fit(X)
        for engine in (DaskEngine(kernels="numba"), CPUEngine(kernels="numpy"))
    )
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-4
