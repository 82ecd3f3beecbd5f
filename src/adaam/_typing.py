"""Type aliases of arrays, and of the strings that options take."""

from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, csr_matrix

# NumPy's stubs lose the precision of floats in promotion and type weighted counts as integers, so aliases of floats are
# for the reader only; mypy distinguishes integers and masks.
FloatVector: TypeAlias = npt.NDArray[Any]
FloatMatrix: TypeAlias = npt.NDArray[Any]
IntVector: TypeAlias = npt.NDArray[np.integer[Any]]
IntMatrix: TypeAlias = npt.NDArray[np.integer[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Sparse: TypeAlias = csr_array | csr_matrix

# Rows on the host: NumPy or CSR, for which SciPy has no type annotations.
HostRows: TypeAlias = Any


class Tall(Protocol):
    """A tall array, one row per sample, where the engine works: on the host, on a device, in blocks on a cluster."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        ...

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Precision, as NumPy names it."""
        ...

    def __getitem__(self, rows: Any, /) -> Any:
        """Some of the rows."""
        ...


# One float64 number per row where the engine works (NumPy on the host, a tensor on a device), or a plain float if all
# rows have the same one. It supports arithmetic and comparisons; only engines access single numbers.
Column: TypeAlias = Any

RowScaling = Literal["unit", "none"]
ColumnUnits = Literal["none", "standard"]
ColumnScaling = Literal["unit", "orthonormal"]
DiagonalRule = Literal["keep", "drop"]
Constraint = Literal["gram", "degrees"]
BandwidthRule = Literal["mean", "self-tuning", "fixed"]
