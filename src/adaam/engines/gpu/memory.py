"""The memory of a fit on a device, planned before anything is copied there."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where the rows of a fit live and what they take there, in bytes."""

    rows_bytes: int
    prepared_bytes: int
    work_bytes: int
    available_bytes: float

    @property
    def rows_on_device(self) -> bool:
        """Whether X is copied to the device; otherwise its blocks stream from the host."""
        return self.rows_bytes + self.prepared_bytes + self.work_bytes <= self.available_bytes

    def __str__(self) -> str:
        where = "on the device" if self.rows_on_device else "streamed from the host in blocks"
        return (
            f"rows {where} ({_mib(self.rows_bytes)}), prepared rows at most {_mib(self.prepared_bytes)}, "
            f"temporaries about {_mib(self.work_bytes)}, of {_mib(self.available_bytes)} available"
        )


def _mib(n_bytes: float) -> str:
    return "unlimited" if n_bytes == np.inf else f"{n_bytes / 2**20:.0f} MiB"
