"""Fits from pairs within row blocks: against a dense oracle, against the fit on all pairs, and on awkward rows."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, subspace_angles
from scipy.sparse import csr_array

import adaam
import oracles
from adaam import AdaAM, AdaptiveAffinity, CPUEngine, Preparation, RowBlocks
from adaam.affinity.adaptive import AdaptiveAffinity as Settings
from adaam.affinity.adaptive import MethodSettings, learn
from adaam.graph import neighbor_graph
from adaam.large.blocked import BlockedRows, engine_of_blocks
from adaam.large.row_blocks import Deal, shuffled
from adaam.large.stability import stability
from adaam.prepare import LinearMap
from adaam.rows import BlockRows

pytestmark = [
    pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning"),
    pytest.mark.filterwarnings("ignore::adaam.UnlikeUnitsWarning"),
]

ENGINE = CPUEngine()


def cloud(n=120, d=6, c=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((c, d))[rng.integers(c, size=n)] * 3 + rng.standard_normal((n, d)) + 4.0


def blocked(X, n_blocks, weights=None, seed=0):
    """Return prepared rows in blocks."""
    n, d = X.shape
    weights = np.ones(n) if weights is None else weights
    same = LinearMap(np.eye(d), np.zeros(d), "none")
    return BlockedRows(X, weights, None, Deal(n, n, n_blocks, seed), same, ENGINE)


def pooled(rows, c, k, m=None, n_iter=1, affinity=None):
    settings = MethodSettings(c, m or c, n_iter, affinity or Settings())
    return learn(rows, settings, partial(neighbor_graph, n_neighbors=k))


# The oracle: n x n matrices with zeros between blocks.


def dense_pruned(X, onto, blocks, scale, alpha_c, diagonal):
    """Return Δ within blocks, pruned block by block: entries of PP', times `scale` off the diagonal."""
    P = X @ onto
    out = np.zeros((len(X), len(X)))
    for block in blocks:
        S = P[block] @ P[block].T
        value, count = S * scale, np.ones_like(S)
        np.fill_diagonal(count, 1.0 / scale if diagonal == "keep" else 0.0)
        order = np.argsort(-np.abs(value).ravel())
        reached = np.cumsum(count.ravel()[order])
        t = max(1.0, np.floor(len(S) ** 2 / alpha_c))
        cut = np.abs(value).ravel()[order[np.searchsorted(reached, t - 1e-9)]]
        out[block, block] = np.where(np.abs(value) >= cut * (1 - 1e-12), value * count, 0.0)
    return out


def dense_pooled(X, sizes, c, k, m, *, n_iter=1, rank=1.0, diagonal="keep", constraint="gram"):
    edges = np.concatenate([[0], np.cumsum(sizes)])
    blocks = [slice(a, b) for a, b in itertools.pairwise(edges)]
    scale = len(X) ** 2 / sum(size**2 for size in sizes)
    W = block_diag(*(oracles.heat_weights(X[block], k) for block in blocks))
    D = np.diag(W.sum(axis=1))
    values, vectors = np.linalg.eigh(X.T @ X)
    onto = (vectors / np.sqrt(values))[:, ::-1][:, : round(rank * c)]
    first = dense_pruned(X, onto, blocks, scale, 2.5 * c, diagonal)
    total = oracles.laplacian(W) + oracles.laplacian(first)
    bound = X.T @ X if constraint == "gram" else X.T @ D @ X
    for _ in range(n_iter):
        _, A = oracles.smallest(X.T @ total @ X, bound, c)
        values, vectors = np.linalg.eigh(A.T @ X.T @ X @ A)
        delta = dense_pruned(X, A @ vectors / np.sqrt(values), blocks, scale, 5.0 * c, diagonal)
        total = oracles.laplacian(W) + oracles.laplacian(first) + oracles.laplacian(delta)
    return oracles.lpp(X, delta + D, m)


@pytest.mark.parametrize(
    "options",
    [{}, {"n_iter": 3}, {"rank": 2.0, "diagonal": "drop", "constraint": "degrees"}],
    ids=["reference", "iterated", "linear"],
)
@pytest.mark.parametrize("n_blocks", [1, 2, 3, 4])
def test_pooled_blocks_are_the_dense_matrix_with_zeros_between_blocks(n_blocks, options):
    X = cloud(121)
    X -= X.mean(axis=0)
    rows = blocked(X, n_blocks)
    sizes = [rows.deal.block(i).stop - rows.deal.block(i).start for i in range(n_blocks)]
    values, vectors = dense_pooled(X, sizes, 3, 4, 2, **options)
    named = {key: value for key, value in options.items() if key != "n_iter"}
    found = pooled(rows, 3, 4, m=2, n_iter=options.get("n_iter", 1), affinity=AdaptiveAffinity(**named))
    np.testing.assert_allclose(found.projection.eigenvalues, values, atol=1e-9)
    assert np.degrees(subspace_angles(found.projection.components.T, vectors)).max() < 1e-4
    np.testing.assert_allclose(found.moments, X.T @ X / len(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("preparation", ["unit", "linear", "standard"])
def test_one_block_of_all_rows_is_the_fit_on_all_pairs(preparation):
    X = cloud(150)
    X[40:50] = X[:10]  # merged and counted in both
    exact = AdaAM(3, preparation=preparation).fit(X)
    streamed = AdaAM(3, preparation=preparation).fit(BlockRows(lambda: np.array_split(X, 7)))
    np.testing.assert_allclose(streamed.components_, exact.components_, atol=1e-7)
    np.testing.assert_allclose(streamed.covariance_, exact.covariance_, atol=1e-7)
    np.testing.assert_allclose(streamed.cuts_, exact.cuts_, rtol=1e-9)
    assert streamed.stability_ is None
    assert streamed.pairs_ == "all"
    assert streamed.n_neighbors_ == exact.n_neighbors_


def test_blocks_that_cover_all_rows_ask_for_the_fit_on_all_pairs():
    X = cloud()
    model = AdaAM(3, pairs=RowBlocks(n_rows=len(X))).fit(X)
    assert model.pairs_ == "all"
    np.testing.assert_array_equal(model.components_, AdaAM(3, pairs="all").fit(X).components_)


def test_weights_are_copies_within_the_block():
    X = cloud(80)
    X -= X.mean(axis=0)
    weights = np.tile([1.0, 2.0, 1.0, 4.0], 20)
    repeated = np.repeat(np.arange(80), weights.astype(int))
    once, again = pooled(blocked(X, 2, weights), 3, 5), pooled(blocked(X[repeated], 2), 3, 5)
    assert once.cuts == pytest.approx(again.cuts, rel=1e-9)
    np.testing.assert_allclose(once.projection.eigenvalues, again.projection.eigenvalues, atol=1e-8)
    angles = subspace_angles(once.projection.components.T, again.projection.components.T)
    assert np.degrees(angles).max() < 1e-3


def test_rows_of_weight_zero_are_left_out():
    X = cloud(200)
    weights = np.ones(200)
    weights[::3] = 0.0
    model = AdaAM(3, pairs=RowBlocks(n_rows=50))
    with_zeros = model.fit(X, sample_weight=weights).components_
    np.testing.assert_allclose(with_zeros, model.fit(X[weights > 0]).components_, atol=1e-8)
    streamed = model.fit(BlockRows(lambda: np.array_split(X, 9)), sample_weight=weights).components_
    np.testing.assert_allclose(with_zeros, streamed, atol=1e-7)


@given(n=st.integers(1, 3000), seed=st.integers(0, 2**40))
@settings(deadline=None, max_examples=50)
def test_the_shuffle_is_a_permutation_that_can_be_asked_for_in_parts(n, seed):
    whole = shuffled(np.arange(n), n, seed)
    np.testing.assert_array_equal(np.sort(whole), np.arange(n))
    np.testing.assert_array_equal(shuffled(np.arange(n // 3, n), n, seed), whole[n // 3 :])


def test_the_shuffle_leaves_no_trace_of_the_order():
    n = 20_000
    places = shuffled(np.arange(n), n, 0)
    assert abs(np.corrcoef(np.arange(n), places)[0, 1]) < 4 / np.sqrt(n)
    # Neighbouring rows share one of 20 blocks as often as by chance, within five standard errors.
    block = places * 20 // n
    together = (block[1:] == block[:-1]).mean()
    assert abs(together - 1 / 20) < 5 * np.sqrt(0.05 * 0.95 / n)
    assert (places != shuffled(np.arange(n), n, 1)).mean() > 0.99


@given(n_used=st.integers(1, 500), n_blocks=st.integers(1, 20))
def test_blocks_are_of_equal_size_and_cover_all_places(n_used, n_blocks):
    deal = Deal(1000, n_used, n_blocks, 0)
    slices = [deal.block(i) for i in range(n_blocks)]
    sizes = [part.stop - part.start for part in slices]
    assert slices[0].start == 0
    assert slices[-1].stop == n_used
    assert max(sizes) - min(sizes) <= 1
    assert [part.stop for part in slices[:-1]] == [part.start for part in slices[1:]]


def test_a_fit_has_the_same_bits_again_and_depends_on_the_seed():
    X = cloud(200)
    fits = [AdaAM(3, pairs=RowBlocks(n_rows=50, random_state=seed)).fit(X).components_ for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.allclose(fits[0], fits[2])


def test_sparse_rows_are_like_dense_ones():
    X = cloud(200)
    X[np.abs(X) < 3] = 0.0
    model = AdaAM(3, pairs=RowBlocks(n_rows=50), preparation="linear")
    np.testing.assert_allclose(model.fit(csr_array(X)).components_, model.fit(X).components_, atol=1e-7)


def test_the_gpu_engine_pools_alike():
    pytest.importorskip("torch")
    X = cloud(200)
    fits = [AdaAM(3, pairs=RowBlocks(50), engine=e).fit(X) for e in ("cpu", adaam.GPUEngine(device="cpu"))]
    np.testing.assert_allclose(fits[0].components_, fits[1].components_, atol=1e-6)
    np.testing.assert_allclose(fits[0].stability_.angles, fits[1].stability_.angles, atol=1e-3)


@pytest.mark.parametrize("read", [lambda X: X, lambda X: BlockRows(lambda: [X])])
def test_short_blocks_of_many_rows_run_compiled_loops_and_learn_the_same_map(monkeypatch, read):
    pytest.importorskip("numba")
    from adaam.engines.pruned import screened

    X, passes = cloud(n=5000), []
    numpy = AdaAM(3, pairs=RowBlocks(1000), engine=CPUEngine(kernels="numpy")).fit(read(X))
    run = screened.cut_laplacian
    monkeypatch.setattr(screened, "cut_laplacian", lambda P, *rest: passes.append(len(P)) or run(P, *rest))
    auto = AdaAM(3, pairs=RowBlocks(1000)).fit(read(X))
    assert set(passes) == {1000}
    assert subspace_angles(auto.components_.T, numpy.components_.T).max() < 1e-6


def test_few_rows_in_blocks_run_numpy():
    deal = Deal(n_rows=4000, n_used=4000, n_blocks=4, seed=0)
    assert engine_of_blocks(CPUEngine(), deal) == CPUEngine(kernels="numpy")


def test_blocks_smaller_than_a_neighbourhood_are_refused_by_name():
    with pytest.raises(ValueError, match=r"n_neighbors=20 needs row blocks of more than 20 rows.*has 12.*RowBlocks"):
        AdaAM(3, n_neighbors=20, pairs=RowBlocks(n_rows=12)).fit(cloud(120))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("some", "pairs='some' is not known"),
        (RowBlocks(n_rows=1), "n_rows=1 is too small"),
        (RowBlocks(n_blocks=0), "n_blocks=0 is too small"),
        (RowBlocks(random_state=-1), "random_state=-1 is too small"),
    ],
)
def test_settings_out_of_range_are_refused(pairs, message):
    with pytest.raises(ValueError, match=message):
        AdaAM(3, pairs=pairs).fit(cloud())


def test_a_graph_of_all_rows_does_not_go_with_row_blocks():
    X = cloud(60)
    graph = oracles.neighbors(X, 4)
    with pytest.raises(ValueError, match=r'neighbors is a graph of all rows.*pairs="all"'):
        AdaAM(3, pairs=RowBlocks(20)).fit(X, neighbors=graph)
    assert AdaAM(3).fit(X, neighbors=graph).pairs_ == "all"


@given(
    seed=st.integers(0, 1000),
    n=st.integers(24, 60),
    kind=st.sampled_from(["duplicates", "mostly one row", "constant features", "whole numbers", "wide"]),
    n_blocks=st.integers(2, 4),
)
@settings(deadline=None, max_examples=40)
@pytest.mark.filterwarnings("ignore::adaam.ZeroRowWarning")
def test_awkward_rows_give_finite_maps(seed, n, kind, n_blocks):
    rng = np.random.default_rng(seed)
    X = cloud(n, 5, 3, seed)
    if kind == "duplicates":
        X = X[rng.integers(n // 4, size=n)]
    elif kind == "mostly one row":  # whole blocks may hold that row alone
        X[rng.permutation(n)[4:]] = X[0]
    elif kind == "constant features":
        X[:, 2:] = 1.0
    elif kind == "whole numbers":
        X = np.round(X / 4)
    elif kind == "wide":
        X = np.hstack([X, rng.standard_normal((n, 2 * n))])
    model = AdaAM(3, n_components=1, n_neighbors=2, pairs=RowBlocks(n_rows=n, n_blocks=n_blocks)).fit(X)
    assert np.isfinite(model.components_).all()
    assert model.pairs_.n_blocks == n_blocks
    assert np.isfinite(model.transform(X)).all()
    assert ((model.stability_.angles >= 0) & (model.stability_.angles <= 90)).all()


def test_stability_is_the_angles_between_mapped_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8)) * np.geomspace(1, 0.1, 8)
    fit, first, second = (rng.standard_normal((3, 8)) for _ in range(3))
    second[0] = 2.0 * first[0]
    found = stability(fit, [first, second], X.T @ X, 150)
    expected = np.sort(np.degrees(subspace_angles(X @ first.T, X @ second.T)))
    np.testing.assert_allclose(found.angles, expected, atol=1e-5)
    assert found.angles[0] < 1e-5
    to_halves = [[np.degrees(subspace_angles(X @ a[:, None], X @ half.T))[0] for a in fit] for half in (first, second)]
    np.testing.assert_allclose(found.directions, np.max(to_halves, axis=0), atol=1e-5)
    assert "directions are firm: two halves of 150 rows" in str(found)


def test_stability_tells_firm_directions_from_noise():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 12))
    X[:, :2] += 12 * rng.standard_normal((3, 2))[rng.integers(3, size=1200)]
    model = AdaAM(3, n_components=6, pairs=RowBlocks(n_rows=150), preparation=Preparation("none", 1.0)).fit(X)
    assert (np.diff(model.stability_.angles) >= 0).all()
    assert model.stability_.angles[1] < 15
    assert model.stability_.angles[-1] > 30
    assert model.stability_.n_firm < 6
    assert model.stability_.n_rows == 600


def test_one_random_sample_is_one_block_and_tells_no_stability():
    model = AdaAM(3, pairs=RowBlocks(n_rows=60, n_blocks=1)).fit(cloud(200))
    assert model.stability_ is None
    assert model.plan_.n_used == 60
    assert "one random sample of 60 rows (30.0% of all rows)" in str(model.plan_)


@pytest.mark.parametrize("form", ["array", "source"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_no_block_take_no_part(form, weighted):
    X, pairs = cloud(200), RowBlocks(n_rows=40, n_blocks=2)
    weights = np.tile([1.0, 2.0, 0.0, 1.0], 50) if weighted else np.ones(200)
    present = np.flatnonzero(weights)
    taken = present[Deal(len(present), 80, 2, 0).places(np.arange(len(present))) < 80]
    other = X * 7.0
    other[taken] = X[taken]
    models = []
    for rows in (X, other):
        given = rows if form == "array" else BlockRows(lambda rows=rows: np.array_split(rows, 7))
        models.append(AdaAM(3, preparation="linear", pairs=pairs).fit(given, sample_weight=weights))
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    np.testing.assert_allclose(models[0].mean_, np.average(X[taken], axis=0, weights=weights[taken]))
    assert models[0].plan_.n_used == 80


def test_a_pooled_model_comes_back_from_its_file_whole(tmp_path):
    model = AdaAM(3, pairs=RowBlocks(n_rows=50)).fit(cloud(200))
    adaam.save(model, tmp_path / "model.adaam")
    again = adaam.load(tmp_path / "model.adaam")
    assert repr(again) == repr(model)
    assert again.plan_ == model.plan_
    assert str(again.stability_) == str(model.stability_)
    assert set(vars(again)) == set(vars(model))
    again.fit(cloud(200))


def test_clusterers_learn_from_row_blocks_too():
    X = cloud(300)
    model = adaam.AdaAMClustering(3, learner=AdaAM(3, pairs=RowBlocks(n_rows=100))).fit(X)
    assert model.metric_.pairs_.n_blocks == 3
    assert len(np.unique(model.labels_)) == 3
