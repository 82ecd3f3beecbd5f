"""Run commands in separate processes, or in this one if that tests the same, which takes a tenth of the time."""

import io
import os
import signal
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout

from adaam.cli import main

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _heed_interrupts():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


# For `preexec_fn`: a shell may start background commands with Ctrl-C ignored, which child processes inherit.
heed_interrupts = None if sys.platform == "win32" else _heed_interrupts


def run(*arguments):
    """Run an adaam command in this process; return its exit code, and what it wrote to stdout and stderr."""
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(output), redirect_stderr(errors), warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # bad usage, --help and --version
            code = end.code
    written = (stream.buffer.getvalue().decode() for stream in (output, errors))
    return subprocess.CompletedProcess(arguments, code or 0, *written)


def start(*arguments, **options):
    """Start an adaam command in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "adaam", *map(str, arguments)],
        env=os.environ | ENVIRONMENT,
        start_new_session=True,
        preexec_fn=heed_interrupts,
        **options,
    )


def shell(command, **options):
    """Run a line of shell in which `adaam` is the command of this environment."""
    adaam = f"{sys.executable} -m adaam"
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; adaam() {{ {adaam} "$@"; }}; {command}'],
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )
