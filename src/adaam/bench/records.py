"""Records of finished work: an append-only file of JSON lines, each with a checksum.

A crash, a kill or a full disk can truncate the last line and do no other harm: the torn line is detected when the file
is read, reported, and moved aside before the next line is written. A file with anything else in it is not changed.
"""

import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self

from adaam.bench.plan import PlanCase
from adaam.files import lock
from adaam.untrusted import UnreadableFileError

Record = dict[str, Any]

# Fields that identify a round; two records that agree in these hold the same result.
IDENTITY = ("kind", "dataset", "method", "preparation", "n_neighbors", "n_rows", "n_iter", "n_starts", "seed")
MAX_BYTES = 1 << 28  # uncompressed; the paper's whole plan writes a fiftieth of it
MAX_LINE = 1 << 20
LONGEST_NAME = 1000
LARGEST_COUNT = (1 << 53) - 1

# Beginning of a record line, truncated at any place.
OWN_START = re.compile(rb'\{(?:"(?:[a-z_]+(?:"(?::(?:[^ ].*)?)?)?)?)?', re.DOTALL)


class RecordsError(UnreadableFileError):
    """A file of records cannot be trusted."""


class Reading(NamedTuple):
    """Verified records, and the sizes of the verified part and of the torn end of the file."""

    records: list[Record]
    sound_bytes: int
    torn_bytes: int


class Task(NamedTuple):
    """A case and the rounds of it that are not yet recorded."""

    case: PlanCase
    rounds: tuple[int, ...]


def identity(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the fields that identify a record's round."""
    return tuple(map(record.get, IDENTITY))


def missing(cases: Iterable[PlanCase], records: Iterable[Mapping[str, Any]]) -> list[Task]:
    """Return what remains to be done, in the order of the cases."""
    done = set(map(identity, records))
    tasks = []
    for case in cases:
        told = asdict(case)
        rounds = [i for i in range(case.rounds) if identity(told | {"seed": case.seed + i}) not in done]
        tasks += [Task(case, tuple(rounds))] if rounds else []
    return tasks


def skip_record(case: PlanCase, reason: str) -> Record:
    """Return the record of a case that cannot be run here."""
    return {name: getattr(case, name) for name in IDENTITY} | {"kind": "skip", "reason": reason}


def line_of(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line; numbers are read back to the same bits."""
    body = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f'{body[:-1]},"checksum":"{zlib.crc32(body.encode()):08x}"}}\n'.encode()


def read_records(path: str | os.PathLike[str]) -> Reading:
    """Read and verify a file of records; a file whose name ends in .gz is decompressed."""
    source = Path(path)
    try:
        with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as stream:
            return parse(stream, str(source))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RecordsError(f"{source}: cannot be unpacked: {error}.") from error


def parse(stream: Any, name: str = "records") -> Reading:
    """Verify lines and return their records; the last one may be cut short, as an interrupted write leaves it."""
    records: list[Record] = []
    sound = number = 0
    while line := stream.readline(MAX_LINE):
        number += 1
        record = _verified(line)
        if record is None:
            if _is_torn(line) and not stream.read(1):
                return Reading(records, sound, len(line))
            raise RecordsError(
                f"{name}: line {number} does not match its checksum, so it is not a record as adaam wrote it; nothing "
                "was changed. If the file is from elsewhere, choose another folder. If it was edited or damaged, "
                "remove that line and run again; only its round will be run anew."
            )
        if reason := refused(record):
            raise RecordsError(f"{name}: line {number} is no record that can be shown: {reason}.")
        records.append(record)
        sound += len(line)
        if sound > MAX_BYTES:
            raise RecordsError(f"{name}: unpacks to more than {MAX_BYTES} bytes, more than any plan writes.")
    return Reading(records, sound, 0)


def refused(record: Mapping[str, Any]) -> str | None:
    """Return what makes a record invalid, or None. Records of unknown kinds are accepted."""
    for name, value in zip(IDENTITY, identity(record), strict=True):
        if isinstance(value, list | dict):
            return f"{name} is a {type(value).__name__}"
    return unfit(record, FIELDS.get(record.get("kind"), {}))


def unfit(held: Mapping[str, Any], fields: Mapping[str, str]) -> str | None:
    """Return what is wrong with a table of values, or None; `fields` gives the rule of each."""
    for name, wanted in fields.items():
        value = held.get(name)
        if name not in held and name not in OPTIONAL:
            return f"{name} is missing"
        if not RULES[wanted](value) and not (value is None and name in NULLABLE):
            return f"{name}={repr(value)[:60]} must be {wanted}"
    return None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_COUNT


RULES: dict[str, Callable[[Any], bool]] = {
    "a word": _is_word,
    "a whole number": _is_count,
    "a number from -1 to 1": lambda value: type(value) in (int, float) and abs(value) <= 1,
    "a finite number": lambda value: type(value) in (int, float) and abs(value) <= LARGEST_COUNT,
    "true or false": lambda value: isinstance(value, bool),
    "a table": lambda value: isinstance(value, dict),
    "a table of versions": lambda value: isinstance(value, dict) and all(map(_is_word, value.values())),
    "counts, not all zero": lambda value: isinstance(value, list) and all(map(_is_count, value)) and any(value),
}
NULLABLE = ("n_neighbors", "n_rows", "peak_bytes", "versions")
OPTIONAL = ("peak_bytes", "versions")
SCORES = dict.fromkeys(("acc", "nmi", "ari"), "a number from -1 to 1")
SESSION = {"versions": "a table of versions"}
_CASE = {
    **dict.fromkeys(("dataset", "method", "preparation"), "a word"),
    **dict.fromkeys(("n_iter", "n", "d", "c", "k", "seed", "n_neighbors", "n_rows", "peak_bytes"), "a whole number"),
    **SESSION,
}
# Fields that the tables, figures and the page rely on, for each kind of record.
FIELDS: dict[Any, dict[str, str]] = {
    "score": {**_CASE, **SCORES, "fit_seconds": "a finite number"},
    "histogram": {**_CASE, "counts": "counts, not all zero", "top": "a finite number", "cut": "a finite number"},
    "skip": dict.fromkeys(("dataset", "method", "reason"), "a word"),
    "session": SESSION,
}


class RecordsFile:
    """A file of records open for appending, by one process at a time; `records` are all it holds.

    A torn line at its end has been set aside in `torn_path`; `torn_bytes` is its length.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.torn_path = self.path.with_name(f"{self.path.name}.torn")

    def __enter__(self) -> Self:
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            if not lock(self._handle):
                raise RecordsError(f"{self.path}: another run is writing to it. Wait for it, or choose another --out.")
            reading = read_records(self.path)
            self.records, self.torn_bytes = reading.records, reading.torn_bytes
            if reading.torn_bytes:
                with self.torn_path.open("ab") as aside:
                    aside.write(self.path.read_bytes()[reading.sound_bytes :] + b"\n")
                    aside.flush()
                    os.fsync(aside.fileno())
                os.ftruncate(self._handle, reading.sound_bytes)
                os.fsync(self._handle)
        except BaseException:
            os.close(self._handle)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def append(self, batch: Sequence[Record]) -> None:
        """Write records in one call and sync them to disk; on failure the file is restored."""
        if not batch:
            return
        content = b"".join(map(line_of, batch))
        before = os.fstat(self._handle).st_size
        try:
            written = os.write(self._handle, content)
            if written < len(content):
                raise OSError(f"{self.path}: only {written} of {len(content)} bytes could be written; the disk is full")
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, before)
            if error.errno is not None:
                error.filename = str(self.path)
            raise
        self.records.extend(batch)


def _verified(line: bytes) -> Record | None:
    """Return the record of a line, or None if the line is not exactly what would be written for it."""
    try:
        record = json.loads(line)
        del record["checksum"]
        return record if line_of(record) == line else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _is_torn(line: bytes) -> bool:
    """Whether a line is the beginning of a record line, or the zeros that a power cut leaves in its place."""
    if line.endswith(b"\n"):
        return False
    if not line.strip(b"\0"):
        return True
    if OWN_START.fullmatch(line) is None:
        return False
    try:
        json.JSONDecoder().raw_decode(line.decode("ascii", errors="replace"))
    except (ValueError, RecursionError):
        return True
    return _verified(line + b"\n") is not None  # complete JSON is only accepted with a valid checksum
