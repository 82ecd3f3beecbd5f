"""The command line as a user sees it: files, streams and exit codes; signals are tested in separate processes."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs

import adaam
from child_processes import heed_interrupts, run, start

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")

X, Y = make_blobs(90, n_features=5, centers=3, random_state=0)


@pytest.fixture
def rows(tmp_path):
    """The same rows in every format."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    np.save(tmp_path / "rows.npy", X)
    np.savez(tmp_path / "rows.npz", X=X, y=Y)
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", fmt="%.17g", header="a,b,c,d,e", comments="")
    np.savetxt(tmp_path / "bare.csv", X, delimiter=",", fmt="%.17g")
    pq.write_table(pa.table({name: X[:, j] for j, name in enumerate("abcde")}), tmp_path / "rows.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["rows.npy", "rows.npz", "rows.csv", "bare.csv", "rows.parquet"])
def test_every_format_gives_the_same_labels(rows, name):
    result = run("cluster", rows / name, "--clusters", 3, "--preparation", "linear", "-o", rows / "labels.csv")
    assert result.returncode == 0, result.stderr
    labels = np.genfromtxt(rows / "labels.csv", delimiter=",", names=True)["cluster"].astype(int)
    expected = adaam.AdaAMClustering(3, learner=adaam.AdaAM(3, preparation="linear")).fit_predict(X)
    np.testing.assert_array_equal(labels, expected)
    assert ("accuracy" in result.stderr) == (name == "rows.npz"), "only that file holds classes"


@pytest.mark.parametrize("name", ["out.npy", "out.npz", "out.csv", "out.parquet"])
def test_fit_and_transform_through_every_output_format(rows, name):
    assert run("fit", rows / "rows.csv", "--clusters", 3, "-o", rows / "model.adaam").returncode == 0
    result = run("transform", rows / "model.adaam", rows / "rows.csv", "-o", rows / name)
    assert result.returncode == 0, result.stderr
    model = adaam.load(rows / "model.adaam")
    assert list(model.feature_names_in_) == list("abcde")
    expected = adaam.AdaAM(3).fit_transform(X)
    if name == "out.csv":
        found = np.loadtxt(rows / name, delimiter=",", skiprows=1)
    elif name == "out.parquet":
        import pyarrow.parquet as pq

        found = np.column_stack([column.to_numpy() for column in pq.read_table(rows / name).columns])
    else:
        found = np.load(rows / name) if name.endswith("npy") else np.load(rows / name)["X"]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_results_go_to_standard_output_and_talk_to_standard_error(rows):
    run("fit", rows / "rows.npy", "--clusters", 3, "-o", rows / "m.adaam")
    mapped = run("transform", rows / "m.adaam", rows / "rows.npy")
    assert mapped.stdout.splitlines()[0] == "adaam0,adaam1,adaam2"
    assert len(mapped.stdout.splitlines()) == 91
    labels = run("cluster", rows / "rows.npy", "--clusters", 3)
    assert labels.stdout.splitlines()[0].startswith("row,cluster")
    assert len(labels.stdout.splitlines()) == 91
    assert "90 rows in 3 clusters" in labels.stderr


def test_the_main_job_draws_a_picture_and_says_how_good_it_is(tmp_path):
    result = run("cluster", "digits", "--clusters", 10, "--plot", tmp_path / "digits.png")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
    accuracy = float(result.stderr.split("accuracy ")[1].split("%")[0])
    assert accuracy > 75  # 80.7 measured


def test_verbose_tells_phases_on_standard_error(rows):
    result = run("cluster", rows / "rows.npy", "--clusters", "3", "--verbose", "-o", "-")
    assert result.returncode == 0, result.stderr
    assert "AdaAMClustering candidate unit: rows as they are (" in result.stderr
    assert "AdaAM" not in result.stdout


def test_classes_from_a_file_score_the_clusters(rows):
    np.savetxt(rows / "classes.csv", Y, fmt="%d")
    result = run("cluster", rows / "rows.csv", "--clusters", 3, "--truth", rows / "classes.csv")
    assert "accuracy 100.0%" in result.stderr
    np.savetxt(rows / "short.csv", Y[:5], fmt="%d")
    result = run("cluster", rows / "rows.csv", "--clusters", 3, "--truth", rows / "short.csv")
    assert result.returncode == 1
    assert "5 classes for 90 rows" in result.stderr


def damaged(folder):
    (folder / "text.csv").write_text("a,b\n1,2\n3,oops\n")
    (folder / "empty.csv").write_text("")
    (folder / "rows.doc").write_text("1,2\n")
    (folder / "broken.npy").write_bytes(b"\x93NUMPY garbage")
    (folder / "broken.npz").write_bytes(b"PK garbage")
    (folder / "broken.parquet").write_bytes(b"PAR1 garbage")
    np.save(folder / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    np.save(folder / "words.npy", np.array([["a", "b"], ["c", "d"]]))
    np.save(folder / "cube.npy", np.zeros((2, 2, 2)))
    np.save(folder / "nan.npy", np.full((9, 2), np.nan))
    np.savez(folder / "two.npz", A=X, B=X)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.csv", "no such file"),
        ("rows.doc", "ending '.doc' is not known"),
        ("text.csv", "column 'b' is numeric, but row 2 (line 3) holds 'oops'"),
        ("empty.csv", "is empty"),
        ("broken.npy", "cannot be read as .npy"),
        ("broken.npz", "cannot be read as .npz"),
        ("broken.parquet", "cannot be read as .parquet"),
        ("objects.npy", "not a table of rows"),
        ("words.npy", "not numbers"),
        ("cube.npy", "not a table"),
        ("nan.npy", "nan.npy: row 0 holds nan in column 0. Rows must be finite"),
        ("two.npz", "the rows must be named X"),
    ],
)
def test_a_bad_file_gives_one_line_and_exit_code_1(tmp_path, name, message):
    damaged(tmp_path)
    result = run("cluster", tmp_path / name, "--clusters", 2, "-o", tmp_path / "labels.csv")
    assert result.returncode == 1
    assert message in result.stderr
    assert result.stderr.startswith("adaam: error: ")
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "labels.csv").exists()


@pytest.mark.parametrize(
    "arguments", [[], ["cluster"], ["fit", "digits"], ["cluster", "digits", "--clusters", "many"], ["dance"]]
)
def test_bad_usage_exits_with_2(arguments):
    result = run(*arguments)
    assert result.returncode == 2
    assert "usage: adaam" in result.stderr
    if "many" in arguments:
        assert "argument --clusters: 'many' is neither a whole number nor auto" in result.stderr


def test_errors_of_estimators_name_the_option_and_not_the_parameter(rows):
    result = run("fit", rows / "rows.npy", "--clusters", 3, "--components", 9, "-o", rows / "m.adaam")
    assert result.returncode == 1
    assert "--components 9 exceeds the rank" in result.stderr
    assert "Use --components <= " in result.stderr


def test_targets_are_refused_before_the_work(tmp_path):
    for option, target, message in (
        ("-o", tmp_path / "labels.txt", "is not known"),
        ("-o", tmp_path / "no" / "labels.csv", "folder does not exist"),
        ("--plot", tmp_path / "picture.bmp", "pictures are .png"),
    ):
        result = run("cluster", "digits", "--clusters", 10, option, target)
        assert result.returncode == 1
        assert message in result.stderr
        assert "rows in" not in result.stderr


def test_transform_refuses_a_foreign_model_and_the_wrong_columns(rows):
    foreign = run("transform", rows / "rows.npz", rows / "rows.npy")
    assert foreign.returncode == 1
    assert "it is a zip archive, but not of a model" in foreign.stderr
    run("fit", rows / "rows.npy", "--clusters", 3, "-o", rows / "m.adaam")
    np.save(rows / "narrow.npy", X[:, :2])
    narrow = run("transform", rows / "m.adaam", rows / "narrow.npy")
    assert narrow.returncode == 1
    assert "5 features" in narrow.stderr


def test_named_columns_are_matched_by_name(rows):
    run("fit", rows / "rows.csv", "--clusters", 3, "-o", rows / "m.adaam")
    straight = run("transform", rows / "m.adaam", rows / "rows.csv")
    assert straight.stderr == ""
    header, shuffled = "c,a,e,b,d", X[:, [2, 0, 4, 1, 3]]
    np.savetxt(rows / "shuffled.csv", shuffled, delimiter=",", fmt="%.17g", header=header, comments="")
    again = run("transform", rows / "m.adaam", rows / "shuffled.csv")
    tables = [np.loadtxt(out.stdout.splitlines()[1:], delimiter=",") for out in (straight, again)]
    np.testing.assert_allclose(*tables, atol=1e-12)
    np.savetxt(rows / "other.csv", X, delimiter=",", fmt="%.17g", header="a,b,c,d,z", comments="")
    other = run("transform", rows / "m.adaam", rows / "other.csv")
    assert other.returncode == 1
    assert "'e' is missing" in other.stderr


def test_warnings_are_one_line_each(tmp_path):
    np.save(tmp_path / "iris.npy", load_iris().data)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = start("cluster", tmp_path / "iris.npy", "--clusters", 3, "--preparation", "linear", **pipes)
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 0
    assert "adaam: warning: The neighbour graph falls into" in errors
    assert ".py:" not in errors


def test_an_interrupt_exits_with_130_and_leaves_no_file(tmp_path):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((20_000, 60)))
    arguments = ["cluster", str(tmp_path / "rows.npy"), "--clusters", "10", "-o", str(tmp_path / "l.csv")]
    program = f"import sys; from adaam.cli import main; print('ready', flush=True); sys.exit(main({arguments!r}))"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.0)  # the fit, which takes longer than this, is under way
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.npy"]


def test_version_and_help():
    assert run("--version").stdout == f"adaam {adaam.__version__}\n"
    assert "examples:" in run("--help").stdout


def test_a_reader_that_goes_away_is_no_error(rows):
    command = f"{sys.executable} -m adaam cluster {rows / 'rows.npy'} --clusters 3 -o - | head -1"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    assert "Traceback" not in result.stderr
