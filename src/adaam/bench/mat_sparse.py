"""A sparse matrix of a MATLAB 5 file, read here: SciPy's reader ends the process where its parts are damaged."""

import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from adaam.untrusted import MAX_BYTES, UnreadableFileError

HEADER_BYTES = 128
MATRIX, COMPRESSED = 14, 15
SPARSE_CLASS, COMPLEX_FLAG = 5, 0x0800
# Types of elements by their number in the format.
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}


def read_sparse(path: Path, name: str) -> Any:
    """Return the matrix of a name if it is sparse; to be used within `reading`, which names the file.

    Returns
    -------
    csc_array or None
        Indices point into it. None for a matrix that is not sparse, and in files of MATLAB 4.
    """
    if path.stat().st_size > MAX_BYTES:
        raise UnreadableFileError(f"it has {path.stat().st_size} bytes")
    content = memoryview(path.read_bytes())
    if 0 in content[:4]:  # what tells the older format
        return None
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:128]))
    if order is None:
        raise UnreadableFileError("it does not say in which order its bytes are")
    for kind, whole in _elements(content[HEADER_BYTES:], order):
        inside = whole
        if kind == COMPRESSED:
            inside = memoryview(zlib.decompressobj().decompress(whole, MAX_BYTES))
            kind, inside = next(_elements(inside, order), (0, inside))
        parts = _elements(inside, order)
        if kind != MATRIX or len(head := list(islice(parts, 3))) < 3 or bytes(head[2][1]) != name.encode("latin-1"):
            continue
        flags = int(np.frombuffer(head[0][1], f"{order}u4")[0])
        shape = tuple(map(int, np.frombuffer(head[1][1], f"{order}i4")))
        return _matrix(flags, shape, parts, order) if flags & 0xFF == SPARSE_CLASS else None
    raise UnreadableFileError(f"it has no matrix {name!r}")


def _matrix(flags: int, shape: tuple[int, ...], parts: Iterator[tuple[int, memoryview]], order: str) -> Any:
    held = [_numbers(part, order) for part in islice(parts, 3)]
    if flags & COMPLEX_FLAG or len(shape) != 2 or len(held) != 3:
        raise UnreadableFileError("its sparse matrix is not one of real numbers")
    indices, starts, data = held
    starts = starts[: shape[1] + 1]
    if len(starts) != shape[1] + 1 or starts[-1] > min(len(indices), len(data)):
        raise UnreadableFileError(f"its sparse matrix does not hold what shape {shape} takes")
    n_entries = int(starts[-1])
    values = data[:n_entries].astype(np.float64)
    matrix = csc_array((values, indices[:n_entries].astype(np.int64), starts.astype(np.int64)), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def _numbers(element: tuple[int, memoryview], order: str) -> Any:
    kind, content = element
    if kind not in TYPES:
        raise UnreadableFileError(f"its sparse matrix holds a part of type {kind}")
    return np.frombuffer(content, f"{order}{TYPES[kind]}")


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield type and content of each element; four bytes or less stand within the tag, others end at eight bytes."""
    place = 0
    while place + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}2I", content, place)
        if kind >> 16:
            kind, size, start, end = kind & 0xFFFF, kind >> 16, place + 4, place + 8
        else:
            start = place + 8
            end = start + size + (-size % 8 if kind != COMPRESSED else 0)
        if start + size > len(content):
            raise UnreadableFileError("one of its parts is cut short")
        yield kind, content[start : start + size]
        place = end
