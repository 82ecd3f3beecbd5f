"""Matrices of numbers in MATLAB 5 files, read here: SciPy's reader ends the process where their parts are damaged."""

import math
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
SPARSE_CLASS, NUMBER_CLASSES, COMPLEX_FLAG = 5, range(6, 16), 0x0800
# Types of elements by their number in the format.
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}

Element = tuple[int, memoryview]


def is_mat5(path: Path) -> bool:
    """Whether a file is of MATLAB 5 to 7; files of MATLAB 4 have a zero among their first four bytes."""
    with path.open("rb") as stream:
        return 0 not in stream.read(4)


def read_matrices(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Read the matrices of some names; to be used within `reading`, which names the file.

    Returns
    -------
    dict
        For each name that is there a dense array; other names in the file have None.
    """
    if path.stat().st_size > MAX_BYTES:
        raise UnreadableFileError(f"it has {path.stat().st_size} bytes")
    content = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:128]))
    if order is None:
        raise UnreadableFileError("it does not say in which order its bytes are")
    found: dict[str, Any] = {}
    for kind, whole in _elements(content[HEADER_BYTES:], order):
        inside = whole
        if kind == COMPRESSED:
            inside = memoryview(zlib.decompressobj().decompress(whole, MAX_BYTES))
            kind, inside = next(_elements(inside, order), (0, inside))
        parts = _elements(inside, order)
        if kind != MATRIX or len(head := list(islice(parts, 3))) < 3:
            continue
        name = bytes(head[2][1]).decode("latin-1")
        found[name] = _matrix(name, head, parts, order) if name in names and name not in found else None
    return found


def _matrix(name: str, head: list[Element], parts: Iterator[Element], order: str) -> Any:
    flags = int(np.frombuffer(head[0][1], f"{order}u4")[0])
    shape = tuple(map(int, np.frombuffer(head[1][1], f"{order}i4")))
    kind = flags & 0xFF
    if flags & COMPLEX_FLAG or (kind != SPARSE_CLASS and kind not in NUMBER_CLASSES):
        raise UnreadableFileError(f"{name} is of class {kind}, not a matrix of real numbers")
    if min(shape, default=-1) < 0 or 8 * math.prod(shape) > MAX_BYTES:
        raise UnreadableFileError(f"{name} has shape {shape}")
    if kind == SPARSE_CLASS:
        return _sparse(name, shape, [_numbers(part, order) for part in islice(parts, 3)])
    values = _numbers(next(parts, (0, memoryview(b""))), order)
    if values.size != math.prod(shape):
        raise UnreadableFileError(f"{name} holds {values.size} numbers for shape {shape}")
    return values.astype(values.dtype.newbyteorder("=")).reshape(shape, order="F")


def _sparse(name: str, shape: tuple[int, ...], held: list[Any]) -> Any:
    if len(shape) != 2 or len(held) != 3:
        raise UnreadableFileError(f"{name} lacks parts of a sparse matrix")
    indices, starts, data = held
    starts = starts[: shape[1] + 1]
    if len(starts) != shape[1] + 1 or not 0 <= starts[-1] <= min(len(indices), len(data)):
        raise UnreadableFileError(f"{name} does not hold what a sparse matrix of shape {shape} takes")
    n_entries = int(starts[-1])
    values = data[:n_entries].astype(np.float64)
    matrix = csc_array((values, indices[:n_entries].astype(np.int64), starts.astype(np.int64)), shape=shape)
    matrix.check_format(full_check=True)
    return matrix.toarray()


def _numbers(element: Element, order: str) -> Any:
    kind, content = element
    if kind not in TYPES:
        raise UnreadableFileError(f"a matrix holds a part of type {kind}, which is none of numbers")
    return np.frombuffer(content, f"{order}{TYPES[kind]}")


def _elements(content: memoryview, order: str) -> Iterator[Element]:
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
