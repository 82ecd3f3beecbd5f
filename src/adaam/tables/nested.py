"""Flattens records whose values are objects or lists into columns, with a name for each part."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_PARTS = 10_000  # of one list; a longer one is kept as text
MAX_DEPTH = 8


def record_columns(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return one list of values for each name in any record, None if a record lacks it.

    Objects become one column for each of their names, as `user.city`; lists of numbers, if all are equally long, one
    for each position, as `vector[0]`. Other nested values are kept as JSON text.
    """
    names = list(dict.fromkeys(name for record in records for name in record))
    found: dict[str, list[Any]] = {}
    for name in names:
        found |= spread_column(str(name), [record.get(name) for record in records])
    return found


def spread_column(name: str, values: list[Any], depth: int = 0) -> dict[str, list[Any]]:
    """Return the columns that one column of possibly nested values expands to."""
    present = [value for value in values if value is not None]
    if present and depth < MAX_DEPTH and all(isinstance(value, Mapping) for value in present):
        parts = list(dict.fromkeys(part for value in present for part in value))
        found: dict[str, list[Any]] = {}
        for part in parts:
            inner = [None if value is None else value.get(part) for value in values]
            found |= spread_column(f"{name}.{part}", inner, depth + 1)
        return found
    if present and all(isinstance(value, list) and _are_numbers(value) for value in present):
        lengths = {len(value) for value in present}
        if len(lengths) == 1 and 0 < (n := lengths.pop()) <= MAX_PARTS:
            return {f"{name}[{j}]": [None if value is None else value[j] for value in values] for j in range(n)}
    return {name: [json.dumps(value, default=str) if isinstance(value, Mapping | list) else value for value in values]}


def is_vector_part(name: str) -> bool:
    """Whether a column is one position of a list of numbers, such as `vector[0]`, which alone has no meaning."""
    return re.fullmatch(r".+\[\d+\]", name) is not None


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
