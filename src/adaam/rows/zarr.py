"""Rows of a Zarr array on disk."""

from typing import Any

from adaam.rows.array import ArrayRows
from adaam.rows.protocol import RowsError


def zarr_rows(path: Any) -> ArrayRows:
    """Open a Zarr array of two dimensions, or the array "X" of a group; blocks are whole chunks."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError("Zarr arrays need zarr. Install it with: pip install adaam[zarr]") from error
    found = zarr.open(str(path), mode="r")
    if not hasattr(found, "dtype"):
        if "X" not in found:
            raise RowsError(f"{path}: is a Zarr group without an array named X.")
        found = found["X"]
    return ArrayRows(found, str(path))


def is_zarr(array: Any) -> bool:
    """Whether an object is a Zarr array, told without importing zarr."""
    return type(array).__module__.partition(".")[0] == "zarr" and hasattr(array, "shape")
