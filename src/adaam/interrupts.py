"""Termination signals: raised as one exception, so that files are cleaned up, and deferred during writes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Ctrl-C, kill, a closed terminal. On Windows only the first is ever sent.
STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """The process was asked to end by a signal."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` for termination signals; those that are ignored, as under nohup, stay ignored."""

    def interrupt(number: int, _: Any) -> None:
        raise Interrupted(number)

    with _handled(interrupt):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer termination signals to the end of the block."""
    came: list[int] = []
    with _handled(lambda number, _: came.append(number)):
        yield
    if came:
        raise Interrupted(came[0])


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only that one can set and run handlers
        yield
        return
    taken = {number: old for number in STOPS if (old := signal.getsignal(number)) not in (signal.SIG_IGN, None)}
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in taken.items():
            signal.signal(number, old)
