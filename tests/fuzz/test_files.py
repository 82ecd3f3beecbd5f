"""A minute of fuzzing files: mutants that have failed before, others from fixed seeds, and kills."""

import json
import os
import re
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

from fuzz.untrusted_files import KINDS, X, mishandled, outputs

CASES = Path(__file__).parent / "cases"
KEPT = sorted(path.parent for path in CASES.glob("*/case.json"))
CAN_FORK = hasattr(os, "fork") and all(map(find_spec, ("h5py", "zarr", "pyarrow", "matplotlib", "plotly")))
needs_everything = pytest.mark.skipif(not CAN_FORK, reason="needs fork, and every format's package")


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.name)
def test_a_mutant_that_was_once_mishandled_is_not_again(case):
    told = json.loads((case / "case.json").read_text())
    content = {
        str(path.relative_to(case)): path for path in case.rglob("*") if path.name != "case.json" and path.is_file()
    }
    assert mishandled(told["kind"], case, content) is None, told["was"]


def attacked(*options):
    """Run the attack as a command: it forks, which a process with threads must not do."""
    command = [sys.executable, "-m", "fuzz.attack", *map(str, options)]
    paths = [str(CASES.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@needs_everything
def test_mutants_are_refused_or_read_but_never_mishandled():
    result = attacked("--models", 600, "--data", 1400, "--kills", 0)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("\n| ") == len(KINDS)
    n_tried = int(re.search(r"([\d,]+) tried, 0 mishandled", result.stdout)[1].replace(",", ""))
    assert n_tried >= 2000


@needs_everything
def test_killed_commands_leave_whole_files_and_the_next_run_puts_all_right():
    result = attacked("--models", 0, "--data", 0, "--kills", 24)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "24 tried, 0 mishandled" in result.stdout


def test_a_mutant_that_differs_is_told(tmp_path):
    """The fuzzer must be able to fail: a valid model is reported if it differs from the expected one."""
    import adaam

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = adaam.LPP(2).fit(X), adaam.LPP(1).fit(X)
    adaam.save(second, tmp_path / "model.adaam")
    content = {"model.adaam": b""}
    assert mishandled("model", tmp_path, content, outputs(second)) is None
    assert mishandled("model", tmp_path, content, outputs(first)) == "another model was read"


def test_a_process_that_ends_and_one_that_raises_are_told(tmp_path, monkeypatch):
    def broken(path: Path):
        raise KeyError(path)

    monkeypatch.setitem(KINDS, "broken", type(KINDS[".npy"])("data files", KINDS[".npy"].sound, None, broken))
    assert mishandled("broken", tmp_path, {"rows.npy": b""}).startswith("KeyError")
