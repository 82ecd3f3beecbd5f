"""Signals that ask a process to end: raised as one exception, so that files are cleaned up, and held back in writes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Ctrl-C, a polite kill, a terminal that was closed. Windows knows the first alone to be sent.
STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(KeyboardInterrupt):
    """The process was asked to end by a signal."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` for every signal that asks to end; those that are ignored, as by nohup, stay ignored."""

    def interrupt(number: int, _: Any) -> None:
        raise Interrupted(number)

    with _handled(interrupt):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold signals that ask to end back until the block is done."""
    came: list[int] = []
    with _handled(lambda number, _: came.append(number)):
        yield
    if came:
        raise Interrupted(came[0])


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only it can set handlers, and only it runs them
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
