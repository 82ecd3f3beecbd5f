"""Commands run in processes of their own."""

import os
import signal
import subprocess
import sys

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _heed_interrupts():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


# For `preexec_fn`: a shell that starts a command in the background may have it ignore Ctrl-C, and so its children.
heed_interrupts = None if sys.platform == "win32" else _heed_interrupts


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
