"""Records of finished work: JSON lines that are only ever appended to, each with a checksum.

A crash, a kill or a full disk can cut the last line short and do no other harm: the torn line is found when the file
is read, told of, and removed before the next line is written.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from adaam.bench.plan import PlanCase
from adaam.files import lock

Record = dict[str, Any]

# What tells a round from all others; two records that agree in these hold the same result.
IDENTITY = ("kind", "dataset", "method", "preparation", "n_neighbors", "n_rows", "n_iter", "n_starts", "seed")
MAX_BYTES = 1 << 31


class RecordsError(ValueError):
    """A file of records cannot be trusted."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Records that were verified, and what was not: the torn end of the file."""

    records: list[Record]
    sound_bytes: int
    torn_bytes: int


@dataclass(frozen=True, slots=True)
class Task:
    """A case and the rounds of it that are not yet recorded."""

    case: PlanCase
    rounds: tuple[int, ...]


def identity(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells a record's round from all others."""
    return tuple(record.get(name) for name in IDENTITY)


def round_identity(case: PlanCase, round_number: int) -> tuple[Any, ...]:
    """Return the identity that the record of a round will have."""
    known = {name: getattr(case, name) for name in IDENTITY if name != "seed"}
    return identity(known | {"seed": case.seed + round_number})


def missing(cases: Sequence[PlanCase], records: Iterable[Mapping[str, Any]]) -> list[Task]:
    """Return what remains to be done, in the order of the cases."""
    done = {identity(record) for record in records}
    tasks = []
    for case in cases:
        rounds = tuple(number for number in range(case.rounds) if round_identity(case, number) not in done)
        if rounds:
            tasks.append(Task(case, rounds))
    return tasks


def line_of(record: Mapping[str, Any]) -> bytes:
    """Return a record as its line; numbers read back to the same bits."""
    body = _body(record)
    return f'{body[:-1]},"checksum":"{_checksum(body)}"}}\n'.encode()


def parse(content: bytes, name: str = "records") -> Reading:
    """Verify lines and return their records.

    Bad lines at the very end are what an interrupted write leaves. A bad line with a good one after it is damage of
    another kind, and an error.
    """
    records: list[Record] = []
    sound, place, first_bad = 0, 0, 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        place += len(line)
        record = _verified(line)
        if record is None:
            first_bad = first_bad or number
        elif first_bad:
            raise RecordsError(
                f"{name}: line {first_bad} does not match its checksum, though lines after it do: the file was edited "
                "or damaged. Remove that line and run again; only its round will be run anew."
            )
        else:
            records.append(record)
            sound = place
    return Reading(records, sound, len(content) - sound)


def read_records(path: str | os.PathLike[str]) -> Reading:
    """Read and verify a file of records; a name that ends in .gz is unpacked."""
    source = Path(path)
    try:
        if source.stat().st_size > MAX_BYTES:
            raise RecordsError(f"{source}: holds {source.stat().st_size} bytes, more than any plan writes.")
        if source.suffix != ".gz":
            return parse(source.read_bytes(), str(source))
        with gzip.open(source) as stream:
            content = stream.read(MAX_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RecordsError(f"{source}: cannot be unpacked: {error}.") from error
    if len(content) > MAX_BYTES:
        raise RecordsError(f"{source}: unpacks to more than {MAX_BYTES} bytes, more than any plan writes.")
    return parse(content, str(source))


class RecordsFile:
    """A file of records open for appending, by one process at a time.

    Attributes
    ----------
    records : list of dict
        All records of the file, those appended since it was opened included.
    torn_bytes : int
        Length of the torn end that was removed when the file was opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __enter__(self) -> Self:
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            if not lock(self._handle):
                raise RecordsError(f"{self.path}: another run is writing to it. Wait for it, or choose another --out.")
            reading = read_records(self.path)
            if reading.torn_bytes:
                os.ftruncate(self._handle, reading.sound_bytes)
                os.fsync(self._handle)
        except BaseException:
            os.close(self._handle)
            raise
        self.records = reading.records
        self.torn_bytes = reading.torn_bytes
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def append(self, batch: Sequence[Record]) -> None:
        """Write records by one call and wait until they are on the disk; on failure the file is as before."""
        if not batch:
            return
        content = b"".join(map(line_of, batch))
        before = os.fstat(self._handle).st_size
        try:
            written = os.write(self._handle, content)
            if written < len(content):
                raise OSError(f"{self.path}: only {written} of {len(content)} bytes could be written; the disk is full")
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, before)
            raise
        self.records.extend(batch)


def _verified(line: bytes) -> Record | None:
    """Return the record of a line, or None if anything about it is wrong, the newline included."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
        checksum = record.pop("checksum")
        return record if checksum == _checksum(_body(record)) else None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None


def _body(record: Mapping[str, Any]) -> str:
    if not record or "checksum" in record:
        raise ValueError(f"record={dict(record)!r} must hold something, and its checksum is made here.")
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
