"""Records: what is written is read back, remains of a crash are set aside, and foreign files are left alone."""

import errno
import gzip
import json
import os
import time
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaam.bench.plan import PlanCase
from adaam.bench.records import (
    IDENTITY,
    RecordsError,
    RecordsFile,
    Task,
    line_of,
    missing,
    parse,
    read_records,
)

RECORDS = [{"kind": "note", "acc": 1 / 3, "round": number, "name": "Δ\n|"} for number in range(3)]

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(st.dictionaries(st.text().filter(lambda name: name not in ("checksum", *IDENTITY)), values, min_size=1))
@settings(deadline=None, max_examples=100)
def test_any_record_reads_back_as_it_was_written(record):
    line = line_of(record)
    assert line.count(b"\n") == 1
    assert parse(BytesIO(line * 2)).records == [record, record]


def test_a_file_cut_at_any_byte_keeps_all_whole_lines_and_takes_more(tmp_path):
    whole = b"".join(map(line_of, RECORDS))
    path = tmp_path / "records.jsonl"
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        n_whole = whole[:length].count(b"\n")
        reading = read_records(path)
        assert reading.records == RECORDS[:n_whole]
        assert reading.sound_bytes + reading.torn_bytes == length
        with RecordsFile(path) as records:
            assert records.torn_bytes == reading.torn_bytes
            records.append(RECORDS[n_whole:])
            assert records.records == RECORDS
        assert path.read_bytes() == whole
        aside = path.with_name("records.jsonl.torn")
        assert (aside.read_bytes() if aside.exists() else b"\n")[:-1] == whole[length - reading.torn_bytes : length]
        aside.unlink(missing_ok=True)


def test_zeros_that_a_power_cut_leaves_are_torn(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_bytes(line_of(RECORDS[0]) + b"\x00" * 4096)
    reading = read_records(path)
    assert reading.records == RECORDS[:1]
    assert reading.torn_bytes == 4096


@pytest.mark.parametrize(
    "tail",
    [b'{"acc": 1}\n', b"\n", b"{\n{\n", b"[1, 2]\n", b"3\n", b"\xff\xff\n", b'{"acc":1}', b"notes", b'{"a": [1, '],
)
@pytest.mark.parametrize("n_before", [0, 1])
def test_what_is_not_a_torn_line_of_ours_is_refused_and_left_alone(tmp_path, tail, n_before):
    """Regression: 1,000 lines of a user's own file of this name were truncated to nothing."""
    path = tmp_path / "records.jsonl"
    content = b"".join(map(line_of, RECORDS[:n_before])) + tail * 1000
    path.write_bytes(content)
    with pytest.raises(RecordsError, match=f"line {n_before + 1} does not match.*nothing was changed.*another folder"):
        RecordsFile(path).__enter__()
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_small_file_of_many_lines_is_refused_at_once(tmp_path):
    """Regression: 40 kB of compressed newlines took 282 s."""
    path = tmp_path / "records.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * (1 << 26)))
    start = time.monotonic()
    with pytest.raises(RecordsError, match="line 1"):
        read_records(path)
    assert time.monotonic() - start < 1.0


def test_many_good_lines_end_at_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "records.jsonl.gz"
    path.write_bytes(gzip.compress(line_of(RECORDS[0]) * 1000))
    monkeypatch.setattr("adaam.bench.records.MAX_BYTES", 10_000)
    with pytest.raises(RecordsError, match="unpacks to more than 10000 bytes"):
        read_records(path)


SCORE = {
    **{"kind": "score", "dataset": "digits", "method": "adaam", "preparation": "reference", "round": 0},
    **{"acc": 0.5, "nmi": 0.5, "ari": 0.5, "fit_seconds": 0.1, "peak_bytes": None, "n": 9, "d": 4, "c": 3, "k": 2},
    **{"seed": 0, "n_neighbors": None, "n_rows": None, "n_iter": 1, "n_starts": 10, "versions": {"adaam": "0.1.0"}},
}
HISTOGRAM = SCORE | {"kind": "histogram", "counts": [1, 2], "top": 1.0, "cut": 0.5}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({key: value for key, value in SCORE.items() if key != "acc"}, "acc is missing"),
        ({key: value for key, value in SCORE.items() if key != "n_rows"}, "n_rows is missing"),
        (SCORE | {"acc": "high"}, "acc='high'"),
        (SCORE | {"acc": 1e300}, r"acc=1e\+300"),
        (SCORE | {"n": 10**400}, "n=1000.* must be a whole number"),
        (SCORE | {"dataset": ["a"]}, "dataset is a list"),
        (SCORE | {"dataset": "a" * 5000}, "dataset='aaa.* must be a word"),
        (SCORE | {"fit_seconds": -1e300}, "fit_seconds"),
        (SCORE | {"versions": [1]}, "versions"),
        (HISTOGRAM | {"counts": [0, 0]}, "counts.*not all zero"),
        (HISTOGRAM | {"counts": []}, "counts"),
        (HISTOGRAM | {"top": None}, "top=None"),
        ({"kind": "skip", "dataset": "a", "method": "b"}, "reason is missing"),
        ({"kind": "session", "versions": 3}, "versions=3"),
        ({"kind": {}}, "kind is a dict"),
    ],
)
def test_a_record_that_cannot_be_shown_is_refused_by_its_line_and_field(record, message):
    """Regression: wrong contents with valid checksums raised KeyError, ZeroDivisionError and others in the tables."""
    with pytest.raises(RecordsError, match=f"line 2 .*{message}"):
        parse(BytesIO(line_of(SCORE) + line_of(record)))
    assert parse(BytesIO(line_of(SCORE) + line_of(HISTOGRAM))).records == [SCORE, HISTOGRAM]


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_a_changed_byte_in_the_middle_is_an_error_that_names_the_line(data):
    lines = [line_of(record) for record in RECORDS]
    place = data.draw(st.integers(0, len(lines[1]) - 2))
    changed = bytearray(lines[1])
    changed[place] ^= data.draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    with pytest.raises(RecordsError, match="line 2 does not match its checksum"):
        parse(BytesIO(lines[0] + bytes(changed) + lines[2]))


def test_numbers_that_json_does_not_know_are_refused():
    with pytest.raises(ValueError, match="Out of range float"):
        line_of({"acc": float("nan")})


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "records.jsonl"
    with RecordsFile(path) as records:
        records.append(RECORDS[:1])
        before = path.read_bytes()
        write = os.write
        monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:7]))
        with pytest.raises(OSError, match="only 7 of"):
            records.append(RECORDS[1:])
        assert path.read_bytes() == before

        def refuse(handle, content):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", refuse)
        with pytest.raises(OSError, match="No space left"):
            records.append(RECORDS[1:])
        assert path.read_bytes() == before
        monkeypatch.undo()
        records.append(RECORDS[1:])
    assert read_records(path).records == RECORDS


def test_two_runs_cannot_write_at_once(tmp_path):
    path = tmp_path / "records.jsonl"
    with RecordsFile(path), pytest.raises(RecordsError, match="another run is writing"), RecordsFile(path):
        pass
    with RecordsFile(path) as again:
        assert again.records == []


def test_packed_records_are_read(tmp_path):
    path = tmp_path / "records.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(map(line_of, RECORDS))))
    assert read_records(path).records == RECORDS
    path.write_bytes(b"not packed")
    with pytest.raises(RecordsError, match="cannot be unpacked"):
        read_records(path)


def test_lines_are_json_that_others_can_read():
    assert json.loads(line_of(RECORDS[0]))["acc"] == 1 / 3


CASE = PlanCase("digits", "knn", "reference", rounds=3, seed=10, n_starts=2)


def record_of(case, round_number):
    settings = ("kind", "dataset", "method", "preparation", "n_neighbors", "n_rows", "n_iter", "n_starts")
    record = {name: getattr(case, name) for name in settings}
    return record | {"round": round_number, "seed": case.seed + round_number}


def test_missing_is_all_then_less_then_nothing():
    other = PlanCase("digits", "dn", "reference", rounds=1, seed=10, n_starts=2)
    assert missing([CASE, other], []) == [Task(CASE, (0, 1, 2)), Task(other, (0,))]
    done = [record_of(CASE, 1), record_of(other, 0), {"kind": "session"}]
    assert missing([CASE, other], done) == [Task(CASE, (0, 2))]
    assert missing([CASE], [record_of(CASE, number) for number in range(3)]) == []


@pytest.mark.parametrize(
    "change", [{"seed": 99}, {"n_starts": 9}, {"n_rows": 5}, {"n_iter": 2}, {"n_neighbors": 4}, {"kind": "histogram"}]
)
def test_a_record_of_other_settings_does_not_count(change):
    done = [record_of(CASE, number) | change for number in range(3)]
    assert missing([CASE], done) == [Task(CASE, (0, 1, 2))]
