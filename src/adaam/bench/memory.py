"""Peak memory of a piece of work, where the system tells it."""

import ctypes
import gc
from contextlib import suppress
from pathlib import Path
from typing import Self

STATUS = Path("/proc/self/status")
HIGH_WATER_RESET = Path("/proc/self/clear_refs")


class PeakMemory:
    """Bytes by which the process grew at most while the block ran; None where the system does not say.

    Memory that was set free before the block and not yet given back to the system does not count when it is used
    again inside it. It is given back first where the system knows how; elsewhere the figure is a lower bound.
    """

    peak_bytes: int | None = None

    def __enter__(self) -> Self:
        _give_back()
        try:
            HIGH_WATER_RESET.write_text("5")
            self._before = _resident("VmRSS:")
        except OSError:
            self._before = None
        return self

    def __exit__(self, *_: object) -> None:
        peak = None if self._before is None else _resident("VmHWM:")
        self.peak_bytes = None if peak is None or self._before is None else max(0, peak - self._before)


def _give_back() -> None:
    gc.collect()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _resident(field: str) -> int | None:
    for line in STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return None
