"""Which kernels the tasks of a pass run: one word of the client's for all workers, made good on each of them."""

import platform
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from adaam.engines.cluster.workers import ClusterError
from adaam.engines.cpu import CPUEngine
from adaam.engines.kernels import MANY_ROWS, are_compiled
from adaam.engines.kernels.rehearsal import rehearsed


@dataclass(frozen=True, slots=True)
class TaskKernels:
    """The choice of kernels, the rows of all blocks together, by which it is made, and the tile of NumPy's kernels."""

    choice: str
    n_rows: int
    tile_rows: int

    def here(self) -> ModuleType | None:
        """Return the compiled kernels for a task of this process, or None where NumPy does the work.

        "auto" is NumPy on a worker without numba, whatever others have: results agree to rounding.
        """
        return rehearsed(self.narrow) if self._are_compiled_for(self.n_rows) else None

    def engine(self, n_rows: int) -> CPUEngine:
        """Return the CPU engine for blocks of so many rows that a task has to itself."""
        if self._are_compiled_for(n_rows):
            self.here()
        return CPUEngine(kernels=self.choice)

    @property
    def narrow(self) -> type:
        """Precision in which rows are multiplied by what survives of the affinity: float32 where they are many."""
        return np.float32 if self.n_rows >= MANY_ROWS else np.float64

    def _are_compiled_for(self, n_rows: int) -> bool:
        try:
            return are_compiled(self.choice, n_rows)
        except ImportError as error:
            raise ClusterError(
                f'DaskEngine(kernels="numba") needs numba on every worker, and the one on {platform.node()} has none. '
                'Install it there with: pip install adaam[fast], or use kernels="auto", which is NumPy on such workers.'
            ) from error


def task_kernels(choice: str, n_rows: int, tile_rows: int) -> TaskKernels:
    """Decide, on the client, for all tasks."""
    return TaskKernels(choice if are_compiled(choice, n_rows) else "numpy", n_rows, tile_rows)
