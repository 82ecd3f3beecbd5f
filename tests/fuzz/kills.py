"""Kill commands at any point: old files are kept or replaced as a whole, and the next run completes the work.

A command runs in a process that is forked from one in which everything is imported and nothing was fitted, so that the
kill hits its work. The kill comes the n-th time that the process is about to change a file or open one for writing, or
after a random time.
"""

import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import adaam
from adaam.bench.data_files import read_npz
from adaam.bench.records import read_records
from adaam.cli import main
from adaam.files import PART
from file_server import USPS, offer, running_server

SIGNALS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
PLAN = """
title = "tiny"
starts = 1
rounds = 3
[experiments.accuracy]
datasets = ["tiny"]
methods = ["adaam", "kmeans"]
preparations = ["reference", "raw"]
"""
OLD = b"what was there before\n"
ERRORS = "errors.txt"
LONGEST_S = 120.0  # time limit of a command, on a machine that may be busy


def furnish(folder):
    """Put rows, two models, a data set and a plan into a folder."""
    digits = load_digits()
    np.save(folder / "rows.npy", digits.data[:200])
    np.savez(folder / "tiny.npz", X=digits.data[:120], y=digits.target[:120], image_shape=(8, 8))
    (folder / "plan.toml").write_text(PLAN)
    clusters = ["--clusters", "5", "--components", "5", "--head", "k-means", "--model", "clusters.adaam", "-o", "l.csv"]
    for made in (["fit", "rows.npy", "--clusters", "5", "-o", "metric.adaam"], ["cluster", "rows.npy", *clusters]):
        code, _ = forked(folder, made)
        assert code == 0, _last_words(folder)


def is_model(path):
    adaam.load(path)


def is_csv(path):
    text = path.read_text()
    assert text.endswith("\n")
    assert text.count("\n") == 201


def is_npy(path):
    assert len(np.load(path)) == 200


def is_parquet(path):
    import pyarrow.parquet as pq

    assert pq.read_table(path).num_rows == 200


def is_png(path):
    assert path.read_bytes().endswith(b"IEND\xaeB`\x82")


def is_records(path):
    read_records(path)


def is_npz(path):
    read_npz(path)


def is_text(path):
    assert path.stat().st_size > 0


TRANSFORM = ["transform", "metric.adaam", "rows.npy", "--force"]
REPRODUCE = ["reproduce", "--data", ".", "--plan", "plan.toml", "--out", "out"]
# Arguments, a check for each output file, and options.
COMMANDS = {
    "cluster": (
        ["cluster", "rows.npy", "--clusters", "5", "--components", "5", "--head", "k-means"],
        {"labels.csv": is_csv, "model.adaam": is_model, "plot.png": is_png},
        ["-o", "labels.csv", "--model", "model.adaam", "--plot", "plot.png", "--force"],
    ),
    "fit": (["fit", "rows.npy", "--clusters", "5"], {"new.adaam": is_model}, ["-o", "new.adaam", "--force"]),
    "transform .npy": (TRANSFORM, {"z.npy": is_npy}, ["-o", "z.npy"]),
    "transform .csv": (TRANSFORM, {"z.csv": is_csv}, ["-o", "z.csv"]),
    "transform .parquet": (TRANSFORM, {"z.parquet": is_parquet}, ["-o", "z.parquet"]),
    "predict": (["predict", "clusters.adaam", "rows.npy"], {"p.csv": is_csv}, ["-o", "p.csv", "--force"]),
    "reproduce": (REPRODUCE, {"out/records.jsonl": is_records, "out/table1.csv": is_text}, []),
    "datasets --fetch": (
        ["datasets", "--data", ".", "--server", "{server}", "--fetch", "usps"],
        {"usps.npz": is_npz, "usps.source.json": is_text},
        [],
    ),
    "report": (["report", "out"], {"out/table1.csv": is_text, "out/table1.md": is_text}, []),
}


def forked(folder, arguments, n_events=None, after_s=None, number=signal.SIGKILL):
    """Run a command in a forked process; kill it at an event or after a time. Return its exit code and its seconds."""
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.chdir(folder)
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False))
            sys.stderr = (folder / ERRORS).open("a")
            if n_events is not None:
                _kill_at_event(n_events, number)
            code = main(arguments)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 70
        except KeyboardInterrupt:  # before the command has begun
            code = 128 + signal.SIGINT
        finally:
            os._exit(code)
    if after_s is not None:
        time.sleep(after_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)
    while time.monotonic() - start < LONGEST_S:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), time.monotonic() - start
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 71, time.monotonic() - start


def _kill_at_event(n_events, number):
    """Send this process a signal the n-th time it is about to change or open a file for writing."""
    left = [n_events]
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def heard(event, given):
        if event in ("os.rename", "os.remove", "os.truncate", "os.mkdir", "os.chmod") or (
            event == "open" and isinstance(given[2], int) and given[2] & writing
        ):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), number)

    sys.addaudithook(heard)


def kill_cases(name, n, seed):
    """Kill a command n times; yield what went wrong, or None, and the seconds of the run that followed."""
    arguments, wanted, options = COMMANDS[name]
    arguments = [*arguments, *options]
    rng = np.random.default_rng([sum(name.encode()), seed])
    with tempfile.TemporaryDirectory() as place, running_server() as server:
        offer(server, USPS, 41082, "int0")
        arguments = [word.replace("{server}", server.url) for word in arguments]
        folder = Path(place)
        furnish(folder)
        if name == "report":
            forked(folder, REPRODUCE)
        code, whole_seconds = forked(folder, arguments)
        assert code == 0, f"adaam {name} failed with code {code} before anything was killed"
        for _ in range(n):
            olds = _prepared(folder, name, wanted, rng)
            n_records = _n_records(folder)
            number = getattr(signal, str(rng.choice(SIGNALS)))
            if rng.random() < 0.5:
                code, _ = forked(folder, arguments, n_events=int(rng.integers(1, 12)), number=number)
            else:
                code, _ = forked(folder, arguments, after_s=float(rng.uniform(0, whole_seconds)), number=number)
            problem = _after_kill(folder, wanted, olds, code, number)
            if problem is None and _n_records(folder) < n_records:
                problem = f"records were lost after {number.name}"
            again, seconds = forked(folder, arguments)
            yield problem or _after_rerun(folder, wanted, again), seconds


def _prepared(folder, name, wanted, rng):
    """Remove the outputs; half of the time put old content in their place. Return that content."""
    if name == "reproduce" and rng.random() < 0.6:
        shutil.rmtree(folder / "out")
        return {}
    olds = {}
    for output in wanted:
        path = folder / output
        if path.suffix == ".jsonl":
            continue
        path.unlink(missing_ok=True)
        if name != "datasets --fetch" and rng.random() < 0.5:
            path.write_bytes(OLD)
            olds[output] = OLD
    return olds


def _n_records(folder):
    path = folder / "out" / "records.jsonl"
    return len(read_records(path).records) if path.exists() else 0


def _after_kill(folder, wanted, olds, code, number):
    """Return the fault that a kill has left: outputs must be complete, old or absent; only SIGKILL may leave parts."""
    if code not in (0, -number, 128 + number):
        return f"it ended with code {code} after {number.name}: {_last_words(folder)}"
    for output, check in wanted.items():
        path = folder / output
        if not path.exists() or (output in olds and path.read_bytes() == olds[output]):
            continue
        try:
            check(path)
        except Exception as error:
            return f"{output} is {type(error).__name__} after {number.name}"
    parts = [path.name for path in folder.rglob(".*") if PART.fullmatch(path.name)]
    if parts and code != -signal.SIGKILL:
        return f"{parts[0]} is left after {number.name}"
    return None


def _last_words(folder):
    return (folder / ERRORS).read_text()[-300:]


def _after_rerun(folder, wanted, code):
    """Return the fault after the same command has run again: outputs must be complete, and parts removed."""
    if code != 0:
        return f"run again, it ended with code {code}: {_last_words(folder)}"
    for output, check in wanted.items():
        try:
            check(folder / output)
        except Exception as error:
            return f"run again, {output} is {type(error).__name__}: {error}"
    parts = [path.name for path in folder.rglob(".*") if PART.fullmatch(path.name)]
    return f"run again, {parts[0]} is still there" if parts else None
