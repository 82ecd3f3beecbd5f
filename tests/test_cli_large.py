"""Commands on files that are read block by block."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import adaam
from child_processes import run

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")

X, _ = make_blobs(90, n_features=5, centers=3, random_state=0)


def test_a_dry_run_prints_the_plan_and_reads_no_row(tmp_path):
    np.lib.format.open_memmap(tmp_path / "large.npy", "w+", np.float32, (4_000_000, 100)).flush()
    result = run("fit", tmp_path / "large.npy", "--clusters", 10, "--dry-run")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{adaam.plan(4_000_000, 100, 10, itemsize=4, stored=True)}\n"
    assert "within 536 random blocks of 5000 rows (67.0% of all rows)" in result.stdout
    every = run("fit", tmp_path / "large.npy", "--clusters", 10, "--dry-run", "--pairs", "all")
    assert "pairs   all 1.6e+13" in every.stdout


def test_a_fit_without_a_model_file_is_refused_before_the_work():
    result = run("fit", "digits", "--clusters", 10)
    assert result.returncode == 1
    assert "add -o FILE, or --dry-run" in result.stderr


@pytest.mark.parametrize("name", ["rows.npy", "rows.zarr", "folder"])
def test_files_of_rows_are_fitted_and_mapped(tmp_path, name):
    if name == "rows.npy":
        np.save(tmp_path / name, X)
    elif name == "rows.zarr":
        pytest.importorskip("zarr").save(str(tmp_path / name), X)
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        (tmp_path / name).mkdir()
        for i, part in enumerate(np.array_split(X, 2)):
            columns = dict(zip("abcde", part.T, strict=True))
            pq.write_table(pa.table(columns), tmp_path / name / f"{i}.parquet")
    model, out = tmp_path / "m.adaam", tmp_path / "out.npy"
    fitted = run("fit", tmp_path / name, "--clusters", 3, "--preparation", "linear", "--pairs", "all", "-o", model)
    assert fitted.returncode == 0, fitted.stderr
    mapped = run("transform", model, tmp_path / name, "-o", out)
    assert mapped.returncode == 0, mapped.stderr
    assert "90 rows of 3 components" in mapped.stderr
    expected = adaam.AdaAM(3, preparation="linear").fit_transform(X)
    np.testing.assert_allclose(np.load(out), expected, atol=1e-9)


def test_a_row_that_is_not_finite_is_named_and_nothing_is_written(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    broken = X.copy()
    broken[71, 2] = np.nan
    np.save(tmp_path / "broken.npy", broken)
    run("fit", tmp_path / "rows.npy", "--clusters", 3, "-o", tmp_path / "m.adaam")
    result = run("transform", tmp_path / "m.adaam", tmp_path / "broken.npy", "-o", tmp_path / "out.npy")
    assert result.returncode == 1
    assert "broken.npy: row 71 holds nan in column 2" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.npy", "m.adaam", "rows.npy"]
