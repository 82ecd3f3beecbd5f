"""Rows that are read block by block: every source gives the same rows, the same fit and the same mapped rows."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import adaam
from adaam import AdaAM, RowBlocks
from adaam.estimators import adaam as fits
from adaam.estimators import stored_rows
from adaam.rows import ArrayRows, BlockRows, NpyRows, RowsError, as_rows, map_to_file, open_rows, read_all, sources

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")

rng = np.random.default_rng(0)
X = rng.standard_normal((3, 6))[rng.integers(3, size=240)] * 3 + rng.standard_normal((240, 6)) + 4.0
NAMES = list("abcdef")
PAIRS = RowBlocks(n_rows=60)


def npy(folder):
    np.save(folder / "rows.npy", X)
    return open_rows(folder / "rows.npy")


def npy_by_columns(folder):
    np.save(folder / "rows.npy", np.asfortranarray(X))
    return open_rows(folder / "rows.npy")


def memory_map(folder):
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


def zarr_folder(folder):
    zarr = pytest.importorskip("zarr")
    zarr.save(str(folder / "rows.zarr"), X)
    return open_rows(folder / "rows.zarr")


def zarr_group(folder):
    zarr = pytest.importorskip("zarr")
    zarr.save(str(folder / "rows.zarr"), X=X)
    return open_rows(folder / "rows.zarr")


def zarr_array(folder):
    zarr = pytest.importorskip("zarr")
    array = zarr.open(str(folder / "rows.zarr"), mode="w", shape=X.shape, chunks=(7, 3), dtype="float64")
    array[:] = X
    return array


def parquet(folder, rows=X, name="rows.parquet"):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(dict(zip(NAMES, rows.T, strict=True))), folder / name)
    return open_rows(folder / name)


def parquet_folder(folder):
    (folder / "many").mkdir()
    for i, part in enumerate(np.array_split(X, 3)):
        parquet(folder / "many", part, f"part-{i}.parquet")
    return open_rows(folder / "many")


def row_blocks(folder):
    return BlockRows(lambda: np.array_split(X, 11))


SOURCES = [
    npy,
    npy_by_columns,
    memory_map,
    zarr_folder,
    zarr_group,
    zarr_array,
    parquet,
    parquet_folder,
    row_blocks,
]


@pytest.fixture
def small_blocks(monkeypatch):
    """Let sources yield 14 rows at a time, and none be small enough to be loaded."""
    monkeypatch.setattr(sources, "BLOCK_BYTES", 14 * 6 * 8)
    monkeypatch.setattr(stored_rows, "LOADED_BYTES", 0)


def without_loading(monkeypatch):
    def refuse(source):
        pytest.fail("the source was loaded whole")

    monkeypatch.setattr(fits, "read_all", refuse)


@pytest.mark.parametrize("make", SOURCES)
def test_every_source_gives_the_rows_in_order_and_again(make, tmp_path, small_blocks):
    source = as_rows(make(tmp_path))
    for _ in range(2):
        blocks = list(source.blocks())
        # A chunk of a Zarr array is read whole; a chunk of the default size holds all these rows.
        assert max(len(block) for block in blocks) <= (240 if "zarr" in make.__name__ else 22)
        np.testing.assert_array_equal(np.vstack(blocks), X)
    assert source.n_features == 6
    assert source.n_rows in (240, None)
    assert source.names == (NAMES if "parquet" in make.__name__ else None)


@pytest.mark.parametrize("make", SOURCES)
def test_a_fit_from_any_source_is_the_fit_from_memory(make, tmp_path, small_blocks, monkeypatch):
    without_loading(monkeypatch)
    expected = AdaAM(3, pairs=PAIRS).fit(X)
    found = AdaAM(3, pairs=PAIRS).fit(make(tmp_path))
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7)
    np.testing.assert_allclose(found.stability_.angles, expected.stability_.angles, atol=1e-4)
    assert found.n_features_in_ == 6
    assert repr(found.pairs_) == repr(expected.pairs_)
    if "parquet" in make.__name__:
        assert list(found.feature_names_in_) == NAMES


@pytest.mark.parametrize("make", SOURCES[:-1])
def test_small_sources_are_read_into_memory_and_fitted_on_all_pairs(make, tmp_path):
    model = AdaAM(3).fit(make(tmp_path))
    assert model.pairs_ == "all"
    np.testing.assert_allclose(model.components_, AdaAM(3).fit(X).components_, atol=1e-12)


@pytest.mark.parametrize("make", SOURCES)
def test_any_source_is_mapped_like_an_array(make, tmp_path, small_blocks):
    model = AdaAM(3, pairs="all").fit(X)
    np.testing.assert_allclose(model.transform(make(tmp_path)), model.transform(X), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8, np.int64, bool])
def test_other_types_are_read_as_the_array_is(dtype, tmp_path, small_blocks):
    rows = (X * 8).clip(0, 255).astype(dtype) if dtype is not bool else X > 4
    np.save(tmp_path / "rows.npy", rows)
    model = AdaAM(3, preparation="linear", pairs=PAIRS)
    streamed = clone(model).fit(open_rows(tmp_path / "rows.npy"))
    held = clone(model).fit(rows)
    assert streamed.components_.dtype == held.components_.dtype
    np.testing.assert_allclose(streamed.components_, held.components_, atol=1e-5 if dtype == np.float32 else 1e-7)
    assert streamed.transform(open_rows(tmp_path / "rows.npy")).dtype == held.transform(rows).dtype


def test_weights_go_with_a_source():
    weights = np.random.default_rng(1).integers(0, 4, size=240).astype(float)
    expected = AdaAM(3, pairs=PAIRS).fit(X, sample_weight=weights)
    found = AdaAM(3, pairs=PAIRS).fit(row_blocks(None), sample_weight=weights)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7)
    with pytest.raises(ValueError, match="sample_weight holds 239 weights, but row blocks has 240 rows"):
        AdaAM(3).fit(row_blocks(None), sample_weight=weights[:-1])


@given(cuts=st.lists(st.integers(0, 240), max_size=12).map(sorted))
@settings(deadline=None, max_examples=15)
def test_how_rows_are_cut_into_blocks_does_not_matter(cuts):
    found = AdaAM(3, pairs=PAIRS).fit(BlockRows(lambda: np.split(X, cuts)))
    np.testing.assert_allclose(found.components_, AdaAM(3, pairs=PAIRS).fit(X).components_, atol=1e-7)


def test_a_large_offset_loses_nothing():
    far = X + 1e6
    streamed = AdaAM(3, preparation="center", pairs=PAIRS).fit(BlockRows(lambda: np.array_split(far, 17)))
    held = AdaAM(3, preparation="center", pairs=PAIRS).fit(far)
    np.testing.assert_allclose(streamed.components_, held.components_, atol=1e-5)


def test_a_fit_reads_a_source_twice_and_a_map_once():
    runs = []

    def make():
        runs.append(1)
        return np.array_split(X, 5)

    source = BlockRows(make)
    assert len(runs) == 1, "a look at the first block"
    model = AdaAM(3, n_iter=3, pairs=PAIRS).fit(source)
    assert len(runs) == 3
    model.transform(source)
    assert len(runs) == 4


@given(row=st.integers(0, 239), column=st.integers(0, 5), value=st.sampled_from([np.nan, np.inf, -np.inf]))
@settings(deadline=None, max_examples=25)
def test_what_is_not_finite_is_named_by_row_and_column(row, column, value):
    broken = X.copy()
    broken[row, column] = value
    source = BlockRows(lambda: np.array_split(broken, 7))
    message = f"row blocks: row {row} holds {value} in column {column}"
    with pytest.raises(RowsError, match=message):
        AdaAM(3).fit(source)
    with pytest.raises(RowsError, match=message):
        AdaAM(3).fit(X).transform(source)


def test_missing_values_of_a_parquet_file_are_named_by_column(tmp_path, small_blocks):
    broken = X.copy()
    broken[33, 2] = np.nan
    with pytest.raises(RowsError, match="row 33 holds nan in column 'c'"):
        AdaAM(3, pairs=PAIRS).fit(parquet(tmp_path, broken))


def test_numbers_whose_sum_overflows_are_finite():
    huge = ArrayRows(np.full((4, 2), 1e308))
    assert len(list(sources.checked_blocks(huge))) == 1


def test_an_iterator_that_runs_once_is_refused():
    with pytest.raises(TypeError, match="pass a function that"):
        BlockRows(iter([X]))
    once = [X[:5], *np.array_split(X, 3)]
    runs = iter([[X[:5]], once, []])
    with pytest.raises(RowsError, match="another number of rows at the second pass"):
        AdaAM(3).fit(BlockRows(lambda: next(runs)))
    with pytest.raises(RowsError, match="the first block is None"):
        BlockRows(list)


def test_files_that_are_no_rows_are_refused(tmp_path):
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "words.npy", np.array([["a"], ["b"]]))
    np.save(tmp_path / "cut.npy", X)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-8])
    (tmp_path / "rows.txt").write_text("1 2")
    (tmp_path / "none").mkdir()
    for name, message in {
        "cube.npy": "not a table of rows",
        "words.npy": "not numbers",
        "cut.npy": "cannot be read as .npy",
        "rows.txt": "ending '.txt' is not known",
        "none": "holds no .parquet file",
    }.items():
        with pytest.raises(RowsError, match=message):
            open_rows(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no such file"):
        open_rows(tmp_path / "missing.npy")


def test_a_file_that_shrinks_while_it_is_read_is_noticed(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    source = NpyRows(tmp_path / "rows.npy")
    with (tmp_path / "rows.npy").open("r+b") as stream:
        stream.truncate(1000)
    with pytest.raises(RowsError, match="truncated"):
        read_all(source)


def test_parquet_columns_must_be_numbers_and_agree(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": [1.0], "b": ["word"]}), tmp_path / "words.parquet")
    with pytest.raises(RowsError, match="column 'b'.*not numbers"):
        open_rows(tmp_path / "words.parquet")
    pq.write_table(pa.table({"z": [1.0]}), tmp_path / "other.parquet")
    with pytest.raises(RowsError, match="its columns are not those of"):
        open_rows(tmp_path)


def test_a_map_refuses_other_columns(tmp_path):
    model = AdaAM(3, pairs="all").fit(parquet(tmp_path))
    assert list(model.feature_names_in_) == NAMES
    with pytest.raises(ValueError, match="X has 5 features, but AdaAM is expecting 6"):
        model.transform(ArrayRows(X[:, :5]))
    with pytest.raises(ValueError, match="its columns are not those the map was learned from"):
        model.transform(ArrayRows(X, names=NAMES[::-1]))


@pytest.mark.parametrize("name", ["out.npy", "out.csv", "out.parquet"])
@pytest.mark.parametrize("make", [npy, row_blocks])
def test_mapped_rows_are_written_block_by_block(make, name, tmp_path, small_blocks):
    model = AdaAM(3, pairs="all").fit(X)
    assert map_to_file(model, make(tmp_path), tmp_path / name) == 240
    if name == "out.csv":
        found = np.loadtxt(tmp_path / name, delimiter=",", skiprows=1)
    elif name == "out.npy":
        found = np.load(tmp_path / name)
    else:
        found = read_all(open_rows(tmp_path / name))
    np.testing.assert_allclose(found, model.transform(X), atol=1e-12)


def test_mapping_refuses_what_it_cannot_write_or_read(tmp_path):
    model = AdaAM(3).fit(X)
    with pytest.raises(RowsError, match="cannot be written in blocks"):
        map_to_file(model, ArrayRows(X), tmp_path / "out.npz")
    with pytest.raises(RowsError, match="folder does not exist"):
        map_to_file(model, ArrayRows(X), tmp_path / "no" / "out.npy")
    with pytest.raises(TypeError, match="is no row source"):
        map_to_file(model, X, tmp_path / "out.npy")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk")])
@pytest.mark.parametrize("name", ["out.npy", "out.csv", "out.parquet"])
def test_a_map_that_breaks_off_leaves_what_was_there(name, error, tmp_path):
    def make():
        yield X[:100]
        if len(runs) > 1:
            raise error
        runs.append(1)
        yield X[100:]

    model = AdaAM(3).fit(X)
    (tmp_path / name).write_text("before")
    runs = []
    source = BlockRows(make)
    runs = [1, 1]
    with pytest.raises(type(error) if isinstance(error, Exception) else error):
        map_to_file(model, source, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "before"


SLOW_MAP = """
import sys, time
import numpy as np
import adaam
from adaam.rows import BlockRows, map_to_file

def make():
    for i in range(1000):
        yield np.ones((10, 6)) * i
        if i > 2:
            print("under way", flush=True)
            time.sleep(0.5)

map_to_file(adaam.load(sys.argv[1]), BlockRows(make), sys.argv[2])
"""


def test_a_killed_process_leaves_no_half_file(tmp_path):
    adaam.save(AdaAM(3).fit(X), tmp_path / "model.adaam")
    command = [sys.executable, "-c", SLOW_MAP, tmp_path / "model.adaam", tmp_path / "out.npy"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout.readline() == "under way\n"
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    process.stdout.close()
    assert not (tmp_path / "out.npy").exists()


def test_an_interrupted_fit_leaves_the_model_as_it_was():
    model = AdaAM(3, pairs=PAIRS).fit(X)
    before = model.components_.copy()

    def make():
        runs.append(1)
        yield X[:100]
        if len(runs) > 2:
            raise KeyboardInterrupt
        yield X[100:]

    runs = []
    source = BlockRows(make)
    with pytest.raises(KeyboardInterrupt):
        model.fit(source)
    np.testing.assert_array_equal(model.components_, before)
    assert len(runs) == 3, "the second pass was under way"


def test_progress_is_told_to_who_asks(capsys, monkeypatch):
    monkeypatch.setattr(fits, "PAUSE_SECONDS", 0.0)
    AdaAM(3, pairs=RowBlocks(n_rows=60)).fit(row_blocks(None))
    assert capsys.readouterr().err == ""
    AdaAM(3, pairs=RowBlocks(n_rows=60), verbose=1).fit(row_blocks(None))
    told = capsys.readouterr().err
    for text in ("mean and scatter of 240 rows", "rows taken from 240", "block 4 of 4: neighbours", "final affinity"):
        assert text in told


def test_zero_rows_of_a_source_are_told_once():
    rows = X.copy()
    rows[[3, 200]] = 0.0
    with pytest.warns(adaam.ZeroRowWarning, match=r"2 distinct row\(s\) of X are all zero") as told:
        AdaAM(3, pairs=PAIRS).fit(BlockRows(lambda: np.array_split(rows, 5)))
    assert len(told) == 1


def test_equal_rows_of_a_source_have_nothing_to_teach():
    with pytest.raises(ValueError, match="are equal after preparation"):
        AdaAM(2).fit(BlockRows(lambda: [np.ones((50, 3))] * 3))
    with pytest.raises(RowsError, match=r"holds 1 row\(s\)"):
        AdaAM(1).fit(BlockRows(lambda: [np.ones((1, 3))]))


def test_a_source_of_fewer_rows_than_clusters_is_refused():
    with pytest.raises(ValueError, match="n_clusters=300 exceeds n_samples=240"):
        AdaAM(300).fit(row_blocks(None))


def test_reading_takes_bounded_time_to_open(tmp_path):
    """A sparse file of 2 GB: opening and planning read only its header."""
    np.lib.format.open_memmap(tmp_path / "sparse.npy", "w+", np.float64, (2_500_000, 100)).flush()
    start = time.process_time()
    source = open_rows(tmp_path / "sparse.npy")
    assert not adaam.plan(source.n_rows, source.n_features, 10, stored=True).exact
    assert time.process_time() - start < 1.0
