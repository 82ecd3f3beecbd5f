"""Cases that need a package: left out with the reason if it is missing, otherwise run."""

import dataclasses

import pytest

from adaam.bench.methods import METHODS
from adaam.bench.plan import read_plan
from adaam.bench.records import missing, read_records, skip_record
from adaam.cli import main
from adaam.report.tables import skip_notes

PLAN = "rounds = 1\n[experiments.a]\ndatasets = ['digits']\nmethods = ['kmeans', 'umap']\n"


@pytest.fixture
def without(monkeypatch):
    """Let UMAP require a package that does not exist."""
    monkeypatch.setitem(METHODS, "umap", dataclasses.replace(METHODS["umap"], package="no-such-package"))


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.delenv("ADAAM_DATA", raising=False)
    monkeypatch.setattr("adaam.cli.reproduce.all_charts", lambda records: [])
    (tmp_path / "plan.toml").write_text(PLAN)
    out = tmp_path / "out"

    def command(*options):
        code = main(["reproduce", "--plan", str(tmp_path / "plan.toml"), "--out", str(out), *options])
        return code, read_records(out / "records.jsonl").records

    return command


def test_the_rest_is_run_and_the_reason_is_told_and_recorded_once(run, without, capsys):
    code, records = run()
    assert code == 0
    errors = capsys.readouterr().err
    reason = "UMAP + k-means needs no-such-package, which is not installed. Install it with: pip install adaam[umap]"
    assert f"left out: {reason}" in errors
    assert [record["method"] for record in records if record["kind"] == "score"] == ["kmeans"]
    assert skip_notes(records) == [f"Left out (Digits): {reason}."]
    assert sum(record["kind"] == "skip" for record in run()[1]) == 1


def test_a_plan_of_nothing_else_is_an_error(run, without, capsys):
    assert run("--methods", "umap")[0] == 1
    errors = capsys.readouterr().err
    assert "left out: UMAP + k-means needs no-such-package" in errors
    assert "no case of the plan can be run here" in errors


def test_what_was_left_out_is_run_once_the_package_is_there(without):
    cases = read_plan("paper").narrowed(("umist", "coil20"), ("umap", "pca")).cases
    lacking = {case: METHODS[case.method].lacking for case in cases}
    records = [skip_record(case, reason) for case, reason in lacking.items() if reason]
    assert {record["method"] for record in records} == {"umap"}
    assert len(records) == 2
    assert [task.case for task in missing(cases, records)] == list(cases), "a record of a case left out is no result"
    score = records[0] | {"kind": "score", "seed": 3}
    (note,) = skip_notes([*records, score])
    assert note.startswith("Left out (COIL20): ")


def test_methods_of_the_library_itself_are_never_left_out():
    assert {method.lacking for method in METHODS.values() if not method.package} == {None}
