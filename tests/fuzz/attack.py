"""Fuzz the reading of files, and kill commands; print a table of the results.

    PYTHONPATH=tests python -m fuzz.attack                                   # as in CI, about a minute
    PYTHONPATH=tests python -m fuzz.attack --models 20000 --data 20000 --kills 100
    PYTHONPATH=tests python -m fuzz.attack --models 0 --data 5000 --kills 0 --kinds Zarr .mat --seed 7

Mutants are read in separate processes, so that one that crashes the process, hangs or exhausts memory is counted like
any other. A mishandled mutant is kept in tests/fuzz/cases, from where the tests read it.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pickle
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# One thread, since processes are forked from this one.
os.environ["OMP_NUM_THREADS"] = "1"

import adaam
from fuzz.kills import COMMANDS, kill_cases
from fuzz.untrusted_files import KINDS, mishandled, models, mutant, outputs, put, unsealed_bytes

CASES = Path(__file__).parent / "cases"
KEPT = 5  # mishandled mutants kept per kind and run; the others mostly fail in the same way
HANG_S = 120.0  # wall time, on a machine that may be busy
MAX_CPU_S = 10.0
MAX_GROWTH_BYTES = 2 << 30
ADDRESS_SPACE_BYTES = 16 << 30  # so that a mutant cannot take the machine down


@dataclass
class Tally:
    """Results of the mutants of one kind."""

    kind: str
    tried: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)
    worst_seconds: float = 0.0
    peak_bytes: int = 0

    def row(self):
        """Return the row of the table."""
        memory = f"{self.peak_bytes / 2**20:,.0f} MiB" if self.peak_bytes else "–"
        return f"| {self.kind} | {self.tried:,} | {len(self.problems)} | {self.worst_seconds:.3f} s | {memory} |"


def attack(kind, n, first=0):
    """Read n mutants of a kind in forked processes (so no model may have been fitted in this one)."""
    tally = Tally(kind)
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder) / "sound"
        make_sound(kind, sound)
        seed = first
        while seed < first + n:
            for number, cpu_seconds, peak_bytes, problem in results(kind, seed, first + n, sound):
                tally.tried += 1
                tally.worst_seconds = max(tally.worst_seconds, cpu_seconds)
                tally.peak_bytes = max(tally.peak_bytes, peak_bytes)
                if problem is not None:
                    tally.problems.append((number, problem))
                seed = number + 1
    return tally


def make_sound(kind, path):
    """Make the valid files of a kind, and the outputs of models, in another process, since fits start threads."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                contents = KINDS[kind].sound(Path(folder))
                expected = [None] * len(contents)
                if KINDS[kind].sound is models:
                    for place, content in enumerate(contents):
                        put(content, Path(folder))
                        expected[place] = outputs(adaam.load(Path(folder) / "model.adaam"))
                path.write_bytes(pickle.dumps((contents, expected)))
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"no sound files of kind {kind}"


def results(kind, first, last, sound) -> Iterator[tuple[int, float, int, str | None]]:
    """Yield (seed, CPU seconds, peak bytes, problem) until all are done, or a mutant has ended the process."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(ours)
            with os.fdopen(theirs, "w") as stream:
                work(kind, first, last, sound, stream)
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(theirs)
    seed = first
    try:
        with os.fdopen(ours) as stream:
            while seed < last:
                if not select.select([stream], [], [], HANG_S)[0]:
                    yield seed, HANG_S, 0, f"it hung for more than {HANG_S:g} s"
                    return
                line = stream.readline()
                if not line:
                    yield seed, 0.0, 0, "it ended the process"
                    return
                yield seed, *json.loads(line)
                seed += 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def peak_memory():
    """Return the peak memory of this process, on Linux since the last call of `forget_peak`."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def forget_peak():
    """Reset the peak memory."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def work(kind, first, last, sound, stream):
    """Read mutants in this process and write one line of results for each."""
    contents, expected = pickle.loads(Path(sound).read_bytes())  # made by our own parent
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    with tempfile.TemporaryDirectory() as place:
        # A first read, so that imports are not counted for a mutant.
        folder = Path(place) / "sound"
        put(contents[0], folder)
        problem = mishandled(kind, folder, contents[0], expected[0])
        assert problem is None, f"the sound file: {problem}"
        forget_peak()
        base = peak_memory()
        for seed in range(first, last):
            content, number, sealed = mutant(contents, kind, seed)
            folder = Path(place) / "mutant"
            put(content, folder)
            start = time.process_time()
            problem = mishandled(kind, folder, content, None if sealed else expected[number])
            seconds = time.process_time() - start
            peak = peak_memory()
            forget_peak()
            if problem is None and peak - base > MAX_GROWTH_BYTES:
                problem = f"it took {(peak - base) / 2**30:.1f} GiB"
            if problem is None and seconds > MAX_CPU_S:
                problem = f"it took {seconds:.0f} s"
            stream.write(json.dumps([seconds, peak, problem]) + "\n")
            stream.flush()
            for name in content:
                (folder / name).unlink()


def keep(kind, seed, problem):
    """Keep a mishandled mutant as a case for the tests."""
    with tempfile.TemporaryDirectory() as folder:
        make_sound(kind, Path(folder) / "sound")
        contents, _ = pickle.loads((Path(folder) / "sound").read_bytes())
    content, _, sealed = mutant(contents, kind, seed)
    name = hashlib.sha256(unsealed_bytes(content)).hexdigest()[:12]
    case = CASES / name
    if case.exists():
        return
    put(content, case)
    (case / "case.json").write_text(json.dumps({"kind": kind, "sealed": sealed, "was": problem[:200]}) + "\n")


def main(argv=None):
    """Run the attack; return 1 if anything was mishandled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=600, help="mutants of model files")
    parser.add_argument("--data", type=int, default=1400, help="mutants of data files, all kinds together")
    parser.add_argument("--kills", type=int, default=20, help="commands that are killed, all together")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), help="only these kinds of files")
    parser.add_argument("--seed", type=int, default=0, help="the first mutant of each kind")
    arguments = parser.parse_args(argv)
    start = time.monotonic()
    tallies = []
    print("| kind | tried | mishandled | worst time | peak memory |\n|---|---:|---:|---:|---:|", flush=True)
    data_kinds = [kind for kind in arguments.kinds if KINDS[kind].group == "data files"]
    for kind in arguments.kinds:
        n = arguments.models if KINDS[kind].group == "models" else -(-arguments.data // len(data_kinds))
        if n:
            tallies.append(attack(kind, n, arguments.seed))
            print(tallies[-1].row(), flush=True)
            for seed, problem in tallies[-1].problems[:KEPT]:
                keep(kind, seed, problem)
    for number, name in enumerate(COMMANDS):
        n = arguments.kills * (number + 1) // len(COMMANDS) - arguments.kills * number // len(COMMANDS)
        if n:
            tally = Tally(f"`adaam {name}` killed")
            for problem, seconds in kill_cases(name, n, arguments.seed):
                tally.tried += 1
                tally.worst_seconds = max(tally.worst_seconds, seconds)
                if problem is not None:
                    tally.problems.append((tally.tried, problem))
            tallies.append(tally)
            print(tally.row(), flush=True)
    n_bad = sum(len(tally.problems) for tally in tallies)
    print(f"\n{sum(tally.tried for tally in tallies):,} tried, {n_bad} mishandled, {time.monotonic() - start:.0f} s")
    for tally in tallies:
        for seed, problem in tally.problems:
            print(f"{tally.kind}, {seed}: {problem[:300]}", file=sys.stderr)
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
