"""Whole fits on a cluster: equal to the CPU engine's for any blocks, and lazy for Dask arrays."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score

import adaam
from adaam import (
    LPP,
    AdaAM,
    AdaAMClustering,
    ConsensusAffinity,
    DominantAffinity,
    ForestAffinity,
    HeatKernel,
    KNNAffinity,
    RowBlocks,
)
from adaam.engines import DaskEngine
from adaam.engines.cluster.workers import Workers
from adaam.rows import BlockRows

da = pytest.importorskip("dask.array", reason="Dask is not installed")
pytest.importorskip("distributed", reason="Dask's distributed is not installed")

SETS = {"umist": None, "coil20": None, "exyaleb": None, "usps": None, "mnist": 10_000}


def angle(found, expected):
    return subspace_angles(found.components_.T.astype(float), expected.components_.T.astype(float)).max()


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0]


def paper_method(c, engine="auto"):
    return AdaAMClustering(c, learner=AdaAM(c, engine=engine), head="k-means")


@pytest.mark.paper
@pytest.mark.parametrize("name", SETS)
@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_the_papers_sets_give_the_map_and_the_clusters_of_the_cpu_engine(paper_data, name):
    X, _, c = paper_data(name, SETS[name])
    found, expected = paper_method(c, "dask").fit(X), paper_method(c).fit(X)
    assert angle(found, expected) < 1e-4
    assert adjusted_rand_score(found.labels_, expected.labels_) >= 0.99
    assert found.engine_ == "dask"


def test_dask_arrays_go_in_and_lazy_dask_arrays_come_out(digits, chunked):
    rows = chunked(digits)
    model, expected = AdaAM(10, engine="dask").fit(rows), AdaAM(10).fit(digits)
    Z = model.transform(rows)
    assert isinstance(Z, da.Array)
    assert Z.chunks[0] == rows.chunks[0], "each chunk is mapped where it is"
    np.testing.assert_allclose(Z.compute(), expected.transform(digits), atol=1e-12)
    np.testing.assert_allclose(
        model.inverse_transform(Z).compute(), expected.inverse_transform(expected.transform(digits)), atol=1e-9
    )
    pairs = np.stack([digits[:50], digits[50:100]], axis=1)
    np.testing.assert_allclose(
        model.pair_distance(da.from_array(pairs, chunks=(20, 2, 64))), expected.pair_distance(pairs)
    )
    assert isinstance(model.transform(digits), np.ndarray)
    clusters = paper_method(10, "dask").fit(rows)
    assert isinstance(clusters.labels_, da.Array)
    assert isinstance(clusters.predict(rows), da.Array)
    np.testing.assert_array_equal(clusters.labels_, clusters.predict(rows))
    np.testing.assert_array_equal(clusters.labels_, paper_method(10).fit(digits).labels_)
    assert isinstance(paper_method(10, "dask").fit_predict(digits), np.ndarray)


def test_a_dask_dataframe_gives_its_names(digits):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(digits, columns=[f"pixel {i}" for i in range(64)])
    rows = dd.from_pandas(frame, npartitions=5)
    model = AdaAM(10, engine="dask").fit(rows)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert angle(model, AdaAM(10).fit(digits)) < 1e-9
    np.testing.assert_allclose(model.transform(rows).compute(), model.transform(frame), atol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(rows[list(frame.columns[::-1])])


def test_a_folder_of_parquet_files_is_read_by_the_workers(digits, tmp_path):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(digits, columns=[f"pixel {i}" for i in range(64)])
    (tmp_path / "rows").mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(frame)), 4)):
        frame.iloc[part].to_parquet(tmp_path / "rows" / f"part.{i}.parquet", index=False)
    rows = dd.read_parquet(tmp_path / "rows")
    model = AdaAM(10, engine="dask").fit(rows)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert angle(model, AdaAM(10).fit(digits)) < 1e-9
    np.testing.assert_allclose(model.transform(rows).compute(), model.transform(frame), atol=1e-12)


@pytest.mark.parametrize("block_rows", [100, 601, 5000])
@pytest.mark.parametrize("task_bytes", [1 << 16, None])
def test_neither_blocks_nor_their_order_change_the_map(digits, block_rows, task_bytes):
    order = np.random.default_rng(block_rows).permutation(len(digits))
    engine = DaskEngine(block_rows=block_rows, task_bytes=task_bytes, in_flight=3)
    found, expected = AdaAM(10, engine=engine).fit(digits[order]), AdaAM(10).fit(digits)
    assert angle(found, expected) < 1e-9
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)
    np.testing.assert_allclose(found.cuts_, expected.cuts_, rtol=1e-12)


def test_the_same_fit_gives_the_same_map(digits):
    first, second = (AdaAM(10, engine="dask").fit(digits) for _ in range(2))
    np.testing.assert_allclose(first.components_, second.components_, atol=1e-11)


@pytest.mark.parametrize(("n_workers", "n_threads"), [(1, 2), (5, 1)])
def test_the_number_of_workers_does_not_change_the_map(digits, new_cluster, n_workers, n_threads):
    expected = AdaAM(10, engine=DaskEngine(block_rows=300)).fit(digits)
    with new_cluster(n_workers, threads_per_worker=n_threads, memory_limit="1GB", current=False) as other:
        assert adaam.plan(70_000, 784, 10, engine=DaskEngine(client=other)).cluster.n_workers == n_workers
        found = AdaAM(10, engine=DaskEngine(client=other, block_rows=300)).fit(digits)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("preparation", ["unit", "linear", "center", "standard"])
def test_every_preparation_is_learned_where_the_rows_are(chunked, dtype, preparation):
    blobs, _ = make_blobs(700, 12, centers=5, cluster_std=6.0, random_state=0)
    X = np.concatenate([blobs, blobs[:40]]).astype(dtype)
    found = AdaAM(5, engine="dask", preparation=preparation).fit(chunked(X))
    expected = AdaAM(5, preparation=preparation).fit(X)
    assert angle(found, expected) < (1e-3 if dtype == np.float32 else 1e-9)
    assert found.components_.dtype == dtype


@pytest.mark.parametrize("shape", [(30, 80), (3, 2), (50, 200)])
@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_few_rows_of_many_features(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    engine = DaskEngine(block_rows=11)
    assert angle(AdaAM(2, engine=engine).fit(X), AdaAM(2).fit(X)) < 1e-9


LEARNERS = {
    "knn": KNNAffinity(4),
    "self-tuning": KNNAffinity(4, heat=HeatKernel(1.0, "self-tuning", 2)),
    "consensus": ConsensusAffinity(5),
    "dominant": DominantAffinity(5),
    "forest": ForestAffinity(5, n_trees=20, random_state=0),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_learner_finds_the_same_map(name):
    X = np.random.default_rng(0).standard_normal((90, 7))
    weights = np.random.default_rng(1).integers(1, 4, 90).astype(float)
    model = LPP(3, affinity=LEARNERS[name])
    found = clone(model).set_params(engine=DaskEngine(block_rows=25)).fit(X, sample_weight=weights)
    assert angle(found, clone(model).fit(X, sample_weight=weights)) < 1e-8


@pytest.mark.parametrize("weighted", [False, True])
def test_row_blocks_are_dealt_and_pooled_as_on_one_machine(digits, chunked, weighted):
    weights = np.random.default_rng(0).integers(0, 3, len(digits)).astype(float) if weighted else None
    pairs = RowBlocks(n_rows=300, random_state=3)
    given = None if weights is None else da.from_array(weights, chunks=500)
    found = AdaAM(10, engine=DaskEngine(block_rows=400), pairs=pairs).fit(chunked(digits), sample_weight=given)
    expected = AdaAM(10, pairs=pairs).fit(digits, sample_weight=weights)
    assert angle(found, expected) < 1e-9
    assert found.pairs_.get_params() == expected.pairs_.get_params()
    np.testing.assert_allclose(found.stability_.angles, expected.stability_.angles, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_part_of_the_rows_in_few_blocks(digits, chunked, weighted):
    weights = np.random.default_rng(0).integers(0, 3, len(digits)).astype(float) if weighted else None
    given = None if weights is None else da.from_array(weights, chunks=500)
    pairs = RowBlocks(n_rows=200, n_blocks=3)
    found = AdaAM(10, engine="dask", pairs=pairs).fit(chunked(digits), sample_weight=given)
    expected = AdaAM(10, pairs=pairs).fit(digits, sample_weight=weights)
    assert angle(found, expected) < 1e-9
    np.testing.assert_allclose(found.mean_, expected.mean_, atol=1e-12)


def test_rows_that_this_process_reads_are_learned_from_here(digits, monkeypatch):
    monkeypatch.setattr(Workers, "call", None)
    pairs = RowBlocks(n_rows=300)
    found, expected = (
        AdaAM(10, engine=engine, pairs=pairs).fit(BlockRows(lambda: np.array_split(digits, 7)))
        for engine in ("dask", "cpu")
    )
    np.testing.assert_array_equal(found.components_, expected.components_)
    assert found.engine_ == "dask"


def test_clusters_chosen_without_labels_are_those_of_the_cpu_engine(digits, chunked):
    found, expected = AdaAMClustering(10, engine="dask").fit(chunked(digits)), AdaAMClustering(10).fit(digits)
    assert found.head_ == expected.head_
    assert adjusted_rand_score(found.labels_, expected.labels_) >= 0.99
    assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-6)
    np.testing.assert_array_equal(found.predict(chunked(digits)), found.labels_)


@pytest.mark.parametrize("head", ["k-means", "graph"])
def test_more_rows_than_are_searched_vote_with_a_sample(monkeypatch, chunked, head):
    from adaam.estimators import choosing, spread_clustering

    for module in (choosing, spread_clustering):
        monkeypatch.setattr(module, "SEARCH_ROWS", 300)
    X, y = make_blobs(900, 6, centers=4, cluster_std=1.0, random_state=0)
    X = np.concatenate([X, X[:30]])
    y = np.concatenate([y, y[:30]])
    found = AdaAMClustering(4, head=head, engine="dask").fit(chunked(X))
    assert adjusted_rand_score(found.labels_, y) > 0.98
    assert found.embedding_ is None or len(found.embedding_) == 300


def test_the_number_of_clusters_can_be_estimated(chunked):
    X, _ = make_blobs(400, 5, centers=3, random_state=2)
    assert AdaAMClustering("auto", engine="dask").fit(chunked(X)).n_clusters_ == 3


def test_a_plan_tells_the_cluster_beforehand():
    planned = adaam.plan(70_000, 784, 10, engine="dask", workers=3, memory=1.5e9)
    assert planned.exact
    assert planned.cluster.n_tasks < 10_000
    assert planned.cluster.worker_bytes < 1.5e9
    assert "tasks" in str(planned)
    assert "of this process" in str(planned)
    huge = adaam.plan(100_000_000, 100, 50, engine="dask", workers=256, memory=8e9, itemsize=4)
    assert not huge.exact
    assert huge.cluster.worker_bytes < 8e9
    assert "of this process" not in str(huge)


def test_all_pairs_are_planned_as_for_the_cpu_engine_and_row_blocks_by_the_threads_of_the_cluster():
    for n in (20_000, 200_000):
        here = adaam.plan(n, 100, 10)
        few, many = (adaam.plan(n, 100, 10, engine="dask", workers=w, memory=4e9) for w in (2, 64))
        assert few.exact == many.exact == here.exact
        assert few.seconds == pytest.approx(here.seconds)
        assert few.seconds == pytest.approx(many.seconds * (1 if here.exact else 32))


@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_bad_input_is_refused_with_a_reason(digits, chunked):
    with pytest.raises(ValueError, match="NaN or infinity"):
        AdaAM(3, engine="dask").fit(chunked(np.where(np.arange(64) == 3, np.nan, digits)))
    with pytest.raises(ValueError, match="1 dimension"):
        AdaAM(3, engine="dask").fit(da.ones(5))
    with pytest.raises(ValueError, match="at least 2 row"):
        AdaAM(1, engine="dask").fit(da.ones((1, 3)))
    with pytest.raises(ValueError, match="not real numbers"):
        AdaAM(1, engine="dask").fit(da.ones((9, 3), dtype=complex))
    with pytest.raises(ValueError, match="64 features"):
        AdaAM(3, engine="dask").fit(chunked(digits[:300])).transform(chunked(digits[:, :5]))
    with pytest.raises(ValueError, match="NaN or infinity"):
        AdaAM(3, engine="dask").fit(digits[:300]).transform(chunked(np.full((9, 64), np.nan))).compute()


def test_a_model_is_saved_without_its_connection(digits, client, tmp_path):
    model = AdaAM(10, engine=DaskEngine(client=client, block_rows=500)).fit(digits)
    adaam.save(model, tmp_path / "model.adaam")
    again = adaam.load(tmp_path / "model.adaam")
    assert again.engine == DaskEngine(block_rows=500)
    assert again.plan_ == model.plan_
    np.testing.assert_array_equal(again.transform(digits), model.transform(digits))


def test_progress_is_shown_where_asked_for(digits, capsys):
    AdaAM(10, engine=DaskEngine(block_rows=500, progress=True), pairs=RowBlocks(n_rows=450)).fit(digits)
    shown = capsys.readouterr().err
    assert "row-blocks" in shown
    assert "4 of 4 tasks" in shown
