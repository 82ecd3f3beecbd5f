"""Nothing is destroyed: outputs that are inputs, exist already or cannot be written are refused before work starts."""

import os
import stat

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from adaam.cli import main
from adaam.cli.outputs import check_folder

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")

X, _ = make_blobs(60, n_features=4, centers=3, random_state=0)
CLUSTER = ["--clusters", "3", "--preparation", "linear"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt(tmp_path / "mine.csv", X, delimiter=",", header="a,b,c,d", comments="")
    return tmp_path / "mine.csv"


def adaam(*arguments):
    return main([str(argument) for argument in arguments])


def test_an_output_that_is_the_input_is_refused_even_with_force(mine, capsys):
    """`adaam cluster mine.csv --clusters 3 -o mine.csv` once replaced the data by its labels."""
    before = mine.read_bytes()
    for options in ([], ["--force"]):
        for option in ("-o", "--model", "--plot"):
            assert adaam("cluster", "mine.csv", *CLUSTER, option, "mine.csv", *options) == 1
            assert "is also an input" in capsys.readouterr().err
    assert mine.read_bytes() == before


@pytest.mark.parametrize("link", ["symbolic", "hard", "dotted", "folder"])
def test_the_input_under_another_name_is_recognised(mine, capsys, link):
    before, other = mine.read_bytes(), "other.csv"
    if link == "symbolic":
        (mine.parent / other).symlink_to(mine)
    elif link == "hard":
        os.link(mine, mine.parent / other)
    elif link == "dotted":
        other = f"../{mine.parent.name}/./mine.csv"
    else:
        (mine.parent / "linked").symlink_to(mine.parent)
        other = "linked/mine.csv"
    assert adaam("cluster", "mine.csv", *CLUSTER, "--force", "-o", other) == 1
    assert "is also an input" in capsys.readouterr().err
    assert mine.read_bytes() == before


def test_every_input_is_protected(mine, capsys):
    assert adaam("fit", "mine.csv", "--clusters", "3", "-o", "m.adaam") == 0
    np.savetxt(mine.parent / "truth.csv", np.zeros(60), fmt="%d")
    for arguments in (
        ["fit", "mine.csv", "--clusters", "3", "-o", "mine.csv"],
        ["transform", "m.adaam", "mine.csv", "-o", "mine.csv"],
        ["transform", "m.adaam", "mine.csv", "-o", "m.adaam"],
        ["predict", "m.adaam", "mine.csv", "-o", "mine.csv"],
        ["predict", "m.adaam", "mine.csv", "-o", "m.adaam"],
        ["cluster", "mine.csv", *CLUSTER, "--truth", "truth.csv", "-o", "truth.csv"],
    ):
        before = {path.name: path.read_bytes() for path in mine.parent.iterdir()}
        capsys.readouterr()
        assert adaam(*arguments, "--force") == 1
        assert "is also an input" in capsys.readouterr().err
        assert {path.name: path.read_bytes() for path in mine.parent.iterdir()} == before


def test_an_existing_output_needs_force(mine, capsys):
    target = mine.parent / "labels.csv"
    target.write_text("a day of someone's work\n")
    assert adaam("cluster", "mine.csv", *CLUSTER, "-o", target) == 1
    told = capsys.readouterr().err
    assert "exists already" in told
    assert "--force" in told
    assert "rows in" not in told, "refused before the work"
    assert target.read_text() == "a day of someone's work\n"
    assert adaam("cluster", "mine.csv", *CLUSTER, "-o", target, "--force") == 0
    assert len(target.read_text().splitlines()) == 61


def test_two_outputs_of_one_name_are_refused(mine, capsys):
    assert adaam("cluster", "mine.csv", *CLUSTER, "-o", "same.csv", "--model", "./same.csv") == 1
    assert "two outputs" in capsys.readouterr().err


def test_an_output_inside_an_input_folder_is_refused(mine, capsys):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parts = mine.parent / "parts"
    parts.mkdir()
    pq.write_table(pa.table(dict(zip("abcd", X.T, strict=True))), parts / "0.parquet")
    assert adaam("cluster", "parts", *CLUSTER, "-o", "parts/labels.parquet") == 1
    assert "lies in the folder" in capsys.readouterr().err


def test_kinds_of_files_are_refused_before_the_model_is_read(mine, capsys):
    for command in ("transform", "predict"):
        assert adaam(command, "no.adaam", "mine.csv", "-o", "out.doc") == 1
        assert "out.doc: ending '.doc' is not known; use one of " in capsys.readouterr().err


def test_what_cannot_be_written_is_told_before_the_work(mine, capsys):
    (mine.parent / "folder.csv").mkdir()
    for target, message in (("no/labels.csv", "mkdir -p"), ("folder.csv", "is a folder")):
        assert adaam("cluster", "mine.csv", *CLUSTER, "-o", target) == 1
        told = capsys.readouterr().err
        assert message in told
        assert "rows in" not in told


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_told_before_the_work(mine, capsys):
    closed = mine.parent / "closed"
    closed.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    assert adaam("cluster", "mine.csv", *CLUSTER, "-o", "closed/labels.csv") == 1
    assert "no permission to write in its folder" in capsys.readouterr().err


def test_devices_are_no_files_to_protect(mine, capsys):
    assert adaam("fit", "mine.csv", "--clusters", "3", "--dry-run", "-o", "/dev/null") == 0


def test_results_go_to_a_folder_of_their_own(mine, capsys):
    """A folder that the command has made is written to again; any other needs --force."""
    plan = mine.parent / "plan.toml"
    plan.write_text("rounds = 1\n[experiments.accuracy]\ndatasets = ['digits']\nmethods = ['pca']\n")
    foreign = mine.parent / "thesis"
    foreign.mkdir()
    (foreign / "table1.csv").write_text("a day of someone's work\n")
    assert adaam("reproduce", "--plan", plan, "--out", foreign) == 1
    assert "holds files that this command did not make" in capsys.readouterr().err
    assert sorted(path.name for path in foreign.iterdir()) == ["table1.csv"]
    (mine.parent / "own").mkdir()
    (mine.parent / "own" / "records.jsonl").touch()
    (mine.parent / "file").touch()
    assert adaam("reproduce", "--plan", plan, "--out", "file") == 1
    assert "is a file" in capsys.readouterr().err
    check_folder(mine.parent / "own", ("records.jsonl",), force=False)
    check_folder(mine.parent / "new", ("records.jsonl",), force=False)
    check_folder(foreign, ("records.jsonl",), force=True)
