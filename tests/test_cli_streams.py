"""Closed streams, signals and control characters in names neither end a command silently nor garble its output."""

import os
import pty
import re
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from adaam.cli.streams import printable
from child_processes import ENVIRONMENT, shell, start

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX shells and signals")


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", np.vstack([rng.normal(size=(30, 4)), 8 + rng.normal(size=(30, 4))]))
    return tmp_path


FIT = "cluster rows.npy --clusters 2 --head k-means --preparation unit"


@pytest.mark.parametrize("ending", ["2>&1 | true", "2>&-", ">&-", ">&- 2>&-", "2>/dev/full", "<&- | true"])
def test_streams_that_are_closed_do_not_end_the_work(rows, ending):
    """Regression: `2>&1 | true` ended with code 0 and no file."""
    result = shell(f"adaam {FIT} -o labels.csv --model model.adaam {ending}", cwd=rows)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert len((rows / "labels.csv").read_text().splitlines()) == 61
    assert (rows / "model.adaam").exists()


@pytest.mark.parametrize(
    ("ending", "message"), [(">&-", "standard output"), (">/dev/full", "No space left on device.*standard output")]
)
def test_a_result_that_standard_output_cannot_take_is_an_error(rows, ending, message):
    result = shell(f"adaam {FIT} -o - {ending}", cwd=rows)
    assert result.returncode == 1
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.stderr


def test_a_model_goes_to_the_null_device_and_the_device_stays(rows):
    before = os.lstat(os.devnull)
    result = shell("adaam fit rows.npy --clusters 2 -o /dev/null", cwd=rows)
    assert result.returncode == 0, result.stderr
    assert os.lstat(os.devnull).st_ino == before.st_ino
    assert stat.S_ISCHR(os.lstat(os.devnull).st_mode)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_that_ask_to_end_are_met_alike(tmp_path, name, code):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((20_000, 60)))
    arguments = ("fit", "rows.npy", "--clusters", "10", "--verbose", "-o", "model.adaam")
    process = start(*arguments, cwd=tmp_path, stderr=-1, text=True)
    assert process.stderr.readline()  # a phase is done, and the next under way
    process.send_signal(getattr(signal, name))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "interrupted; nothing was written half-way" in errors
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


def test_what_nohup_has_ignored_stays_ignored(tmp_path):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((10_000, 60)))
    command = f"trap '' HUP; exec {sys.executable} -m adaam fit rows.npy --clusters 10 --verbose -o model.adaam"
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=tmp_path, env=os.environ | ENVIRONMENT, stderr=-1, text=True
    )
    assert process.stderr.readline()  # a phase is done, and the next under way
    assert process.poll() is None
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "wrote model.adaam" in errors
    assert (tmp_path / "model.adaam").exists()


@pytest.mark.parametrize("text", ["\x1b[2J", "\x1b]0;title\x07", "a\rb", "\x9b31m", "\u202egnp.exe", "\x08\x08"])
def test_what_would_command_a_terminal_is_written_out(text):
    shown = printable(f"name {text} end")
    assert shown.isprintable()
    assert shown.startswith("name ")
    assert printable("plain text, Δ\tand\nlines") == "plain text, Δ\tand\nlines"
    assert printable("\r\x1b[K3/4 cases") == "\r\x1b[K3/4 cases", "a line that is drawn anew is ours"


def test_no_name_reaches_the_terminal_as_a_command(rows):
    (rows / "evil\x1b[2J.npy").write_bytes(b"not rows")
    ours, theirs = pty.openpty()
    arguments = ("cluster", "evil\x1b[2J.npy", "--clusters", "2")
    process = start(*arguments, cwd=rows, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait(timeout=60) == 1
    assert b"\\x1b[2J" in shown
    assert b"\x1b[2J" not in shown
