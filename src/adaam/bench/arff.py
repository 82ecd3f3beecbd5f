"""Rows and classes from ARFF, the text form in which OpenML keeps its data sets.

Only what image sets need: dense rows of numbers and one column of classes. Everything else is refused.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from adaam._typing import FloatMatrix
from adaam.bench.data_files import Arrays, DataFileError
from adaam.untrusted import reading

BLOCK_LINES = 1000
MAX_LINE = 1 << 20
MAX_COLUMNS = 1 << 16
NUMERIC = ("numeric", "real", "integer")
ATTRIBUTE = re.compile(r"@attribute\s+(?:'([^']*)'|\"([^\"]*)\"|([^\s'\"]\S*))\s+(.+)", re.IGNORECASE)


def read_arff(path: Path, target: str, max_rows: int) -> Arrays:
    """Read a dense ARFF file; more rows than `max_rows` are an error, before they fill the memory.

    All columns but the target must be numbers: uint8 where all are whole and in 0..255, float32 otherwise. Classes are
    numbers where all of them are whole numbers, words otherwise.
    """
    with reading(path, "ARFF", DataFileError), path.open(encoding="utf-8", newline=None) as stream:
        lines = _numbered(path, stream)
        names = _columns(path, lines, target)
        if target not in names:
            raise DataFileError(f"{path}: has no column {target!r}; it has {', '.join(names[:5]) or 'none'}, ...")
        X, classes = _rows(path, lines, names.index(target), len(names), max_rows)
        try:
            numbers = classes.astype(np.float64)
        except ValueError:
            return Arrays(X, classes)
        whole = numbers.astype(np.int64)
        return Arrays(X, whole if np.array_equal(whole, numbers) else classes)


def _numbered(path: Path, stream: TextIO) -> Iterator[tuple[int, str]]:
    """Lines that say something, with their numbers."""
    number = 0
    while line := stream.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise DataFileError(f"{path}: line {number} has {MAX_LINE} characters or more; no row is that long.")
        line = line.strip()
        if line and not line.startswith("%"):
            yield number, line


def _columns(path: Path, lines: Iterator[tuple[int, str]], target: str) -> list[str]:
    """Return the names of the columns; leave `lines` at the first row."""
    names: list[str] = []
    for number, line in lines:
        word = line.split(None, 1)[0].lower()
        if word == "@data":
            return names
        if word == "@attribute" and len(names) < MAX_COLUMNS:
            found = ATTRIBUTE.fullmatch(line)
            if found is None:
                raise DataFileError(f"{path}: line {number} cannot be read as a column: {line[:40]!r}.")
            *spellings, kind = found.groups()
            names += [each for each in spellings if each is not None]
            if names[-1] != target and kind.strip().lower() not in NUMERIC:
                what = f"the column {names[-1]!r} is of type {kind.strip()[:40]!r}, not of numbers"
                raise DataFileError(f"{path}: line {number}: {what}.")
        elif word != "@relation":
            raise DataFileError(
                f"{path}: line {number} is {line[:40]!r}; before @data only @attribute lines may stand."
            )
    raise DataFileError(f"{path}: has no line @data; it is cut short, or no ARFF file.")


def _rows(
    path: Path, lines: Iterator[tuple[int, str]], column: int, n_columns: int, max_rows: int
) -> tuple[FloatMatrix, FloatMatrix]:
    """Return the numbers of all rows, and the words in the column of the classes."""
    numeric = [place for place in range(n_columns) if place != column]
    blocks: list[FloatMatrix] = []
    classes: list[str] = []
    while block := list(islice(lines, BLOCK_LINES)):
        if len(classes) + len(block) > max_rows:
            raise DataFileError(f"{path}: has more than {max_rows} rows, so it is another data set.")
        for number, line in block:
            n_values = line.count(",") + 1
            if n_values != n_columns:
                raise DataFileError(f"{path}: line {number} has {n_values} values for {n_columns} columns.")
            # From the end, where the classes mostly are: taking a line apart costs more than reading its numbers.
            classes.append(line.rsplit(",", n_columns - column)[column - n_columns].strip().strip("'\""))
        try:
            values = np.loadtxt([line for _, line in block], delimiter=",", comments=None, usecols=numeric, ndmin=2)
        except ValueError as error:
            raise DataFileError(f"{path}: among the rows from line {block[0][0]} on: {error}.") from error
        with np.errstate(invalid="ignore"):
            small = values.astype(np.uint8)
        blocks.append(small if np.array_equal(small, values) else values.astype(np.float32))
    if not blocks:
        raise DataFileError(f"{path}: has no rows.")
    return np.concatenate(blocks), np.array(classes)
