"""The rows a fit sees: a multiset of distinct rows, each with the number of rows it stands for."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, Tall
from adaam.engines import Engine
from adaam.engines.columns import spread, total


@dataclass(frozen=True, slots=True)
class Sample:
    """Prepared rows where the engine works, and how many coincident rows each stands for."""

    X: Tall
    engine_weights: Column
    engine: Engine
    # Sums of squares of the columns, where they are principal components of these very rows.
    spreads: FloatVector | None = None
    _made: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return int(self.X.shape[0])

    @property
    def weights(self) -> FloatVector:
        """Weights as a vector on the host, for learners that work there."""
        return spread(self.engine.to_host(self.engine_weights), self.n_rows)

    @property
    def size(self) -> float:
        """Number of rows, copies counted; a sum on a device is waited for once."""
        if "size" not in self._made:
            self._made["size"] = total(self.engine_weights, self.n_rows)
        return float(self._made["size"])

    def gram(self) -> FloatMatrix:
        """X'X with copies counted, made once."""
        if "gram" not in self._made:
            # Rows in float32 are less their components than those in float64.
            if self.spreads is not None and self.X.dtype == np.float64:
                self._made["gram"] = np.diag(self.spreads)
            else:
                self._made["gram"] = self.engine.cross(self.X, self.X, self.engine_weights)
        return np.asarray(self._made["gram"])

    def moments(self) -> FloatMatrix:
        """X'X over the number of rows, copies counted."""
        return self.gram() / self.size
