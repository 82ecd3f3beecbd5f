"""The command `reproduce` as a user runs it: long work that can be stopped, killed and resumed."""

import dataclasses
import gc
import io
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

from adaam.affinity.adaptive import magnitude_counts
from adaam.bench import run as bench_run
from adaam.bench import session
from adaam.bench.methods import METHODS
from adaam.bench.plan import read_plan
from adaam.bench.records import RecordsFile, missing, read_records
from adaam.bench.run import run_case
from adaam.bench.session import Progress, duration, run_tasks
from adaam.cli import main
from adaam.interrupts import uninterrupted
from child_processes import heed_interrupts

pytestmark = [
    pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

PLAN = """
title = "tiny"
starts = 2
rounds = 6
refits = 3
[experiments.accuracy]
datasets = ["tiny"]
methods = ["adaam", "knn", "lsc", "pcan", "kmeans"]
preparations = ["reference", "raw"]
[experiments.neighbors]
datasets = ["tiny"]
methods = ["knn"]
preparations = ["reference"]
n_neighbors = [3, 6]
[experiments.passes]
datasets = ["tiny"]
methods = ["adaam"]
n_iter = [1, 2]
[experiments.magnitudes]
kind = "histogram"
datasets = ["tiny"]
methods = ["adaam"]
[experiments.times]
datasets = ["tiny"]
methods = ["adaam", "pca"]
n_rows = [80, 150]
rounds = 1
"""
N_ROUNDS = 6 + 6 + 3 + 1 + 6 + 2 * 6 + 6 + 1 + 4  # experiment by experiment, what they share counted once


def furnish(folder):
    """Put a plan and a small data set into a folder."""
    digits = load_digits()
    np.savez(folder / "tiny.npz", X=digits.data[:200], y=digits.target[:200], image_shape=(8, 8))
    (folder / "plan.toml").write_text(PLAN)
    return folder


@pytest.fixture(autouse=True, scope="module")
def short_collections():
    """Leave what is loaded out of garbage collections: every case of a run begins with one, and tests load much."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("ADAAM_DATA", raising=False)
    return furnish(tmp_path)


@pytest.fixture
def no_figures(monkeypatch):
    """Draw no figures: these tests do not check them, and drawing takes longer than the work."""
    monkeypatch.setattr("adaam.cli.reproduce.all_charts", lambda records: [])
    monkeypatch.setattr("adaam.cli.reproduce.write_page", lambda records, exhibits, out: out)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Results of an uninterrupted run in a separate process."""
    folder = furnish(tmp_path_factory.mktemp("whole"))
    running = process(folder)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    return results(folder)


def command(home, *more, out="out"):
    options = ["reproduce", "--data", home, "--plan", home / "plan.toml", "--out", home / out, *more]
    return [str(option) for option in options]


def results(home, out="out"):
    """Return the records without fields that differ from run to run, sorted by content."""
    left_out = {"fit_seconds", "peak_bytes"}
    records = [record for record in read_records(home / out / "records.jsonl").records if record["kind"] != "session"]
    stripped = [{name: value for name, value in record.items() if name not in left_out} for record in records]
    return sorted(stripped, key=lambda record: repr(sorted(record.items(), key=str)))


def process(home, *more, out="out", **options):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    arguments = [sys.executable, "-m", "adaam", *command(home, *more, out=out)]
    return subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        **({"preexec_fn": heed_interrupts} | options),
    )


def test_one_command_writes_everything_a_second_runs_nothing_and_report_fits_nothing(home, monkeypatch, capsys):
    assert main(command(home)) == 0
    shown = capsys.readouterr()
    assert "Clustering accuracy" in shown.out
    assert "left" in shown.err
    found = results(home)
    assert len(found) == N_ROUNDS
    wanted = "dataset method preparation round acc nmi ari n d c k seed engine versions"
    assert set(wanted.split()) <= set(found[0])
    before = (home / "out" / "records.jsonl").read_bytes()
    written = {path.name: path.read_bytes() for path in (home / "out").iterdir() if path.suffix not in (".jsonl", "")}
    exhibit = home / "out" / "exhibits" / "tiny.npz"
    made = exhibit.stat().st_mtime_ns
    tables = {
        f"{name}.{form}" for name in ("table1", "scores", "table2", "times") for form in ("txt", "md", "csv", "tex")
    }
    figures = {f"{name}.{form}" for name in ("fig1a", "fig1b", "fig2", "fig3") for form in ("png", "pdf")}
    assert set(written) == tables | figures | {"report.html"}
    assert b"adaam reproduce --data FOLDER --plan plan.toml" in written["report.html"]
    assert str(home).encode() not in written["report.html"], "folders are nobody else's"

    def refuse(*_, **__):
        raise AssertionError("a fit was asked for")

    monkeypatch.setattr(bench_run, "measured", refuse)
    monkeypatch.setattr(session, "run_case", refuse)
    monkeypatch.setattr(session, "histogram_record", refuse)
    for estimator in ("AdaAM", "LPP", "PCAN", "LSC"):
        monkeypatch.setattr(f"adaam.{estimator}.fit", refuse)
    assert main(["report", str(home / "out"), "--out", str(home / "again")]) == 0
    assert {path.name: path.read_bytes() for path in (home / "again").iterdir()} == written
    monkeypatch.setattr("adaam.cli.reproduce.all_charts", lambda records: [])
    assert main(command(home)) == 0
    assert (home / "out" / "records.jsonl").read_bytes() == before
    assert exhibit.stat().st_mtime_ns == made
    assert "13 cases, 13 of them done before" in capsys.readouterr().err


def test_killed_at_random_points_then_finished_equals_a_run_in_one_piece(home, whole):
    rng = random.Random(0)
    path = home / "out" / "records.jsonl"

    def n_lines():
        return path.read_bytes().count(b"\n") if path.exists() else 0

    for _ in range(4):
        target = n_lines() + rng.randint(1, 9)
        running = process(home)
        while n_lines() < target and running.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.1))
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        assert running.returncode == -signal.SIGKILL, "the run was over before it could be killed"
    last = process(home)
    _, errors = last.communicate(timeout=120)
    assert last.returncode == 0, errors
    assert results(home) == whole


def test_killed_workers_leave_no_process_behind_and_no_harm(home, whole):
    running = process(home, "--jobs", "2")
    for line in running.stderr:
        if line.startswith("1/"):
            break
    running.kill()  # only the parent: workers must notice by themselves
    running.communicate(timeout=60)  # returns once every process that holds the pipe has ended
    assert 0 < len(results(home)) < N_ROUNDS
    again = process(home, "--jobs", "2")
    _, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors
    assert results(home) == whole


def test_a_full_disk_stops_the_run_and_the_next_goes_on(home, whole):
    """A limit on the size of files simulates a full disk."""
    resource = pytest.importorskip("resource")
    full = process(home, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000)))
    _, errors = full.communicate(timeout=120)
    assert full.returncode == 1
    assert "adaam: error: " in errors
    assert "Traceback" not in errors
    reading = read_records(home / "out" / "records.jsonl")
    assert reading.torn_bytes == 0
    assert 0 < len(results(home)) < N_ROUNDS
    again = process(home)
    _, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors
    assert results(home) == whole


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_exits_with_130_and_loses_nothing(home, jobs):
    (home / "plan.toml").write_text(PLAN.replace("rounds = 6", "rounds = 100000"))
    running = process(home, "--jobs", jobs)
    seen = []
    for line in running.stderr:
        seen.append(line)
        if (home / "out" / "records.jsonl").exists():
            break
    while sum(1 for record in read_records(home / "out" / "records.jsonl").records if record["kind"] == "score") < 3:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors
    reading = read_records(home / "out" / "records.jsonl")
    assert reading.torn_bytes == 0
    rounds = [record["round"] for record in reading.records if record.get("method") == "adaam"]
    assert rounds == list(range(len(rounds))), "every round up to the interrupt is there, once"


def test_a_torn_record_is_told_dropped_and_run_again(home, capsys, no_figures):
    assert main(command(home)) == 0
    expected = results(home)
    path = home / "out" / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    assert main(["report", str(path)]) == 0
    assert "cut short were left out" in capsys.readouterr().err
    assert main(command(home)) == 0
    assert "cut short were set aside in records.jsonl.torn" in capsys.readouterr().err
    assert results(home) == expected


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_case_is_reported_and_the_rest_goes_on(home, capsys, jobs, no_figures):
    impossible = PLAN.replace("n_neighbors = [3, 6]", "n_neighbors = [3, 500, 6]")
    (home / "plan.toml").write_text(impossible)
    assert main(command(home, "--jobs", jobs)) == 1
    errors = capsys.readouterr().err
    assert "1 case failed" in errors
    assert "tiny knn reference k=500: ValueError: n_neighbors=500 needs more than 500 samples" in errors
    assert len(results(home)) == N_ROUNDS
    assert (home / "out" / "table1.md").exists()
    (home / "plan.toml").write_text(PLAN)
    assert main(command(home)) == 0, "what failed is not among the records"


def test_a_method_that_raises_harms_no_other_and_is_tried_again(home, monkeypatch, capsys, no_figures):
    def explode(case):
        raise MemoryError("no room for\n n x n")

    sound = METHODS["knn"]
    monkeypatch.setitem(METHODS, "knn", dataclasses.replace(sound, make=explode))
    assert main(command(home)) == 1
    assert "tiny knn reference: MemoryError: no room for n x n" in capsys.readouterr().err
    assert {record["method"] for record in results(home)} == {"adaam", "lsc", "pcan", "kmeans", "pca"}
    monkeypatch.setitem(METHODS, "knn", sound)
    assert main(command(home)) == 0
    assert len(results(home)) == N_ROUNDS


def test_a_failed_exhibit_is_reported_and_the_rest_goes_on(home, monkeypatch, capsys, no_figures):
    def explode(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr("adaam.bench.exhibit.make_exhibit", explode)
    assert main(command(home)) == 1
    errors = capsys.readouterr().err
    assert "1 exhibit failed; the same command tries again:\n  exhibit of tiny: MemoryError: no room" in errors
    assert (home / "out" / "table1.md").exists()
    assert len(results(home)) == N_ROUNDS
    monkeypatch.undo()
    monkeypatch.setattr("adaam.cli.reproduce.write_report", lambda *_, **__: None)
    assert main(command(home)) == 0


def test_without_plotly_everything_else_is_there_and_one_line_says_how_to_get_the_page(home, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    monkeypatch.setattr("adaam.cli.reproduce.all_charts", lambda records: [])
    assert main(command(home)) == 0
    errors = capsys.readouterr().err
    assert "the page was left out. The page needs plotly. Install it with: pip install adaam[page]\n" in errors
    assert not (home / "out" / "report.html").exists()
    assert (home / "out" / "exhibits" / "tiny.npz").exists()


def test_a_damaged_exhibit_is_left_out_of_the_page_with_a_word(home, monkeypatch, capsys, no_figures):
    assert main(command(home)) == 0
    (home / "out" / "exhibits" / "tiny.npz").write_bytes(b"PK")
    shown = []
    monkeypatch.setattr("adaam.cli.reproduce.write_page", lambda records, exhibits, out: shown.append(exhibits))
    assert main(["report", str(home / "out")]) == 0
    assert shown == [[]]
    assert "left out: " in capsys.readouterr().err


def test_a_worker_that_dies_fails_its_case_alone(home):
    plan = read_plan(home / "plan.toml").narrowed(methods=("kmeans", "pca"))
    tasks = missing(plan.cases, [])
    seen = []
    events = session.parallel_events(tasks, home, 1)
    for event in events:
        if not seen:
            os.kill(events.gi_frame.f_locals["process"].pid, signal.SIGKILL)
        seen.append(event)
    failures = [event for event in seen if event.failure]
    assert [event.task for event in failures] == [tasks[0]]
    assert "was ended by SIGKILL, perhaps for want of memory" in failures[0].failure
    assert [event.task for event in seen if event.record is None] == tasks


def test_workers_share_the_cores(monkeypatch):
    for name in session.THREAD_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with session._thread_settings(2):
        assert {os.environ[name] for name in session.THREAD_SETTINGS} == {"2"}
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ
    with session._thread_settings(8):
        assert os.environ["OMP_NUM_THREADS"] == "3", "a smaller number of the user's own holds"


@pytest.mark.parametrize("name", ["knn", "clustrf-bi", "lsc", "pcan"])
def test_a_round_run_alone_gives_the_record_it_gives_among_all(name):
    digits = load_digits()
    X, y = digits.data[:150], digits.target[:150]
    method = METHODS[name]
    if name == "clustrf-bi":
        few = dataclasses.replace(method, make=lambda case: METHODS[name].make(case).set_params(affinity__n_trees=20))
        method = few
    options = {"dataset": "digits", "preparation": "reference", "n_rounds": 3, "n_starts": 1}
    whole = list(run_case(method, X, y, **options))
    assert [record["round"] for record in whole] == list(range(1 if name == "pcan" else 3))
    for record in whole:
        (alone,) = run_case(method, X, y, rounds=[record["round"]], **options)
        for measure in ("acc", "nmi", "ari", "seed"):
            assert alone[measure] == record[measure]


def test_settings_of_a_case_reach_the_fit_and_the_record():
    digits = load_digits()
    options = {"dataset": "digits", "preparation": "reference", "n_rounds": 1}
    (record,) = run_case(METHODS["adaam"], digits.data, digits.target, n_rows=150, n_neighbors=9, n_iter=2, **options)
    assert (record["n"], record["k"], record["n_iter"], record["n_rows"]) == (150, 9, 2, 150)
    with pytest.raises(ValueError, match="n_iter=2 is of no use to k-NN"):
        list(run_case(METHODS["knn"], digits.data, digits.target, n_iter=2, **options))


def test_magnitudes_are_counted_as_the_dense_matrix_has_them(rng):
    from adaam.affinity import PrunedAffinity
    from adaam.engines import CPUEngine

    P, weights = rng.standard_normal((1300, 3)), rng.integers(1, 4, 1300).astype(float)
    counts, top = magnitude_counts(PrunedAffinity(P, 0.5, weights, weights**2, CPUEngine()))
    dense, shares = np.abs(P @ P.T), np.outer(weights, weights)
    expected, edges = np.histogram(dense, bins=len(counts), range=(0, top), weights=shares)
    assert counts.sum() == pytest.approx(weights.sum() ** 2)
    # An entry on an edge may fall to either side of it.
    assert np.abs(counts - expected).sum() <= 1e-4 * counts.sum()
    assert top == pytest.approx(dense.max())


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_one_line_on_a_terminal_and_a_line_a_case_elsewhere(home):
    plan = read_plan(home / "plan.toml").narrowed(methods=("kmeans", "pca"))
    shown = {}
    for stream, name in ((Terminal(), "terminal"), (io.StringIO(), "file")):
        with RecordsFile(home / f"{name}.jsonl") as records:
            tasks = missing(plan.cases, records.records)
            assert run_tasks(tasks, records, home, stream=stream) == []
        shown[name] = stream.getvalue()
    assert shown["terminal"].count("\n") == 1
    assert shown["terminal"].endswith("\n")
    assert shown["file"].count("\n") == len(tasks)
    assert "rounds/s, about 0 s left" in shown["file"].splitlines()[-1]


def test_work_goes_on_when_nobody_reads_its_progress(home):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    tasks = missing(read_plan(home / "plan.toml").narrowed(methods=("kmeans",)).cases, [])
    Progress(tasks, Gone()).tell(session.Event(tasks[0]))
    shown = [duration(seconds) for seconds in (7, 59.7, 125, 7300)]
    assert shown == ["7 s", "1 min 0 s", "2 min 5 s", "2 h 1 min"]


def test_an_interrupt_waits_until_a_write_is_done():
    own = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    done, before = [], signal.getsignal(signal.SIGINT)

    def write():
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, own)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "--data", "nowhere"], "--data=nowhere: is not a folder"),
        (["reproduce", "--plan", "nowhere.toml"], "cannot be read as a plan"),
        (["reproduce", "--methods", "magic"], "--methods magic: is not known; use some of adaam"),
        (["reproduce", "--datasets", "usps"], "--datasets usps: is not in the plan; it has digits"),
        (["reproduce", "--methods", "mds"], "nothing of the plan is left"),
        (["reproduce", "--rounds", "0"], "--rounds 0 is too small"),
        (["reproduce", "--jobs", "0"], "--jobs 0 is too small"),
        (["reproduce", "--plan", "paper"], "none of the plan's data sets is at hand"),
        (["reproduce", "--plan", "paper", "--datasets", "usps"], "To obtain it: adaam datasets --fetch usps"),
        (["report", "nowhere"], "nowhere: no such file"),
        (["report", "."], "no such file. Give a records file"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_1(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADAAM_DATA", raising=False)
    assert main(arguments) == 1
    errors = capsys.readouterr().err
    assert message in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_sets_that_are_not_at_hand_are_left_out_with_a_word(home, capsys, no_figures):
    (home / "plan.toml").write_text("[experiments.a]\ndatasets = ['tiny', 'usps']\nmethods = ['pca']\nrounds = 1")
    assert main(command(home)) == 0
    assert "left out: usps: none of its files" in capsys.readouterr().err
    assert len(results(home)) == 1


def test_the_environment_names_the_folder_too(home, monkeypatch, capsys, no_figures):
    monkeypatch.setenv("ADAAM_DATA", str(home))
    assert main(["reproduce", "--plan", str(home / "plan.toml"), "--methods", "pca", "--out", str(home / "o")]) == 0
    assert len(results(home, "o")) == 2


def test_datasets_are_listed_with_where_they_are_found(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ADAAM_DATA", str(tmp_path))
    (tmp_path / "coil20.mat").touch()
    assert main(["datasets"]) == 0
    shown = capsys.readouterr().out
    for name in ("umist", "umist_32x32", "coil20", "usps", "mnist10k", "mnist", "exyaleb", "digits"):
        assert f"\n{name}: " in f"\n{shown}"
    assert "(not here)" in shown
    assert f"here: {tmp_path / 'coil20.mat'}" in shown
    assert "digits: 1797 images of 8x8, 10 classes (embedded)" in shown


def test_the_main_command_in_a_hurry_needs_no_data(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("ADAAM_DATA", raising=False)
    assert main(["reproduce", "--quick", "--rounds", "1", "--methods", "adaam", "pca", "--out", str(tmp_path)]) == 0
    assert "AdaAM" in capsys.readouterr().out
    assert (tmp_path / "fig1b.png").exists()


def test_what_can_be_written_is_written_when_another_output_cannot(home, capsys, no_figures):
    assert main(command(home)) == 0
    for name in ("table1.csv", "table2.md"):
        (home / "out" / name).unlink()
    (home / "out" / "table1.csv").mkdir()
    assert main(["report", str(home / "out")]) == 1
    assert "1 output could not be written" in capsys.readouterr().err
    assert (home / "out" / "table2.md").is_file()
