"""Rows of a Zarr array on disk, whose description is looked at before zarr acts on it."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adaam._typing import FloatMatrix
from adaam.rows.array import MAX_BLOCK_BYTES, ArrayRows
from adaam.rows.protocol import RowsError
from adaam.untrusted import reading

MAX_DESCRIPTION_BYTES = 1 << 20
# Chunks that hold nothing but the fill value are not stored. Where all but one in so many are missing, none were made.
MOST_MISSING = 1000
DESCRIPTIONS = ("zarr.json", ".zarray")
# What only packs and orders bytes. Others, such as "pickle", run what is in a chunk, or unpack it without bounds.
CODECS = frozenset(
    {"blosc", "bytes", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset", "gzip", "lz4", "sharding_indexed"}
    | {"shuffle", "transpose", "zlib", "zstd"}
)


class ZarrRows(ArrayRows):
    """Rows of a Zarr array of two dimensions in a folder, or of the array "X" of a group; blocks are whole chunks.

    Parameters
    ----------
    path : path-like
        The folder; it must stay as it is while it is read.
    """

    def __init__(self, path: Any) -> None:
        try:
            import zarr
        except ImportError as error:
            raise ImportError("Zarr arrays need zarr. Install it with: pip install adaam[zarr]") from error
        with reading(path, "Zarr array", RowsError):
            folder = array_folder(Path(path))
            check_description(folder)
            # The array itself and not the group, whose summary could describe it otherwise.
            array = zarr.open_array(str(folder), mode="r")
            super().__init__(array, str(path))
            check_chunks(folder, array)

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the rows in order."""
        with reading(self.label, "Zarr array", RowsError):
            yield from super().blocks()


def is_zarr(array: Any) -> bool:
    """Whether an object is a Zarr array, told without importing zarr."""
    return type(array).__module__.partition(".")[0] == "zarr" and hasattr(array, "shape")


def array_folder(folder: Path) -> Path:
    """Return the folder of the array, or of the array "X" where it is a group."""
    description = _description(folder)
    if description is not None and description.get("node_type", "array") == "array":
        return folder
    if _description(folder / "X") is None:
        raise RowsError(f"{folder}: is a Zarr group without an array named X.")
    return folder / "X"


def check_description(folder: Path) -> None:
    """Refuse codecs that are more than a way to pack numbers."""
    told = _description(folder) or {}
    pending = [told.get("compressor"), *(told.get("filters") or ()), *(told.get("codecs") or ())]
    while pending:
        codec = pending.pop()
        if codec is None:
            continue
        name = str(codec.get("id", codec.get("name"))).removeprefix("numcodecs.")
        if name not in CODECS:
            raise RowsError(f"{folder}: its chunks are packed by {name!r}; use one of {', '.join(sorted(CODECS))}.")
        inner = codec.get("configuration") or {}
        pending += [*(inner.get("codecs") or ()), *(inner.get("index_codecs") or ())]


def check_chunks(folder: Path, array: Any) -> None:
    """Refuse chunks that no memory holds, and a shape of which next to nothing is stored."""
    if math.prod(array.chunks) * array.dtype.itemsize > MAX_BLOCK_BYTES:
        raise RowsError(f"{folder}: has chunks of shape {array.chunks}, more than {MAX_BLOCK_BYTES} bytes each.")
    outer = getattr(array, "shards", None) or array.chunks
    n_chunks = math.prod(-(-side // step) for side, step in zip(array.shape, outer, strict=True))
    needed = n_chunks // MOST_MISSING
    stored = sum(1 for _, path in zip(range(needed + 1), folder.rglob("*"), strict=False) if path.is_file())
    if stored < needed:
        raise RowsError(f"{folder}: claims shape {array.shape} in {n_chunks} chunks, but stores {stored} files.")


def _description(folder: Path) -> dict[str, Any] | None:
    for name in DESCRIPTIONS:
        path = folder / name
        if path.is_file():
            if path.stat().st_size > MAX_DESCRIPTION_BYTES:
                raise RowsError(f"{path}: has more than {MAX_DESCRIPTION_BYTES} bytes.")
            told = json.loads(path.read_bytes())
            if not isinstance(told, dict):
                raise RowsError(f"{path}: describes no array.")
            return told
    return None
