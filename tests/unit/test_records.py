"""Records: what is written is read back, and what a crash leaves is found, told and removed."""

import errno
import gzip
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaam.bench.plan import PlanCase
from adaam.bench.records import (
    RecordsError,
    RecordsFile,
    Task,
    identity,
    line_of,
    missing,
    parse,
    read_records,
    round_identity,
)

RECORDS = [{"kind": "score", "acc": 1 / 3, "round": number, "name": "Δ\n|"} for number in range(3)]

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(st.dictionaries(st.text().filter(lambda name: name != "checksum"), values, min_size=1))
@settings(deadline=None, max_examples=100)
def test_any_record_reads_back_as_it_was_written(record):
    line = line_of(record)
    assert line.count(b"\n") == 1
    assert parse(line * 2).records == [record, record]


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


@pytest.mark.parametrize(
    "tail", [b"\x00" * 4096, b'{"acc": 1}\n', b"\n", b"{\n{\n", b"[1, 2]\n", b"3\n", b"\xff\xff\n"]
)
def test_any_rubbish_at_the_end_is_dropped(tmp_path, tail):
    path = tmp_path / "records.jsonl"
    path.write_bytes(line_of(RECORDS[0]) + tail)
    reading = read_records(path)
    assert reading.records == RECORDS[:1]
    assert reading.torn_bytes == len(tail)


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_a_changed_byte_in_the_middle_is_an_error_that_names_the_line(data):
    lines = [line_of(record) for record in RECORDS]
    place = data.draw(st.integers(0, len(lines[1]) - 2))
    changed = bytearray(lines[1])
    changed[place] ^= data.draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    if b"\n" in bytes(changed[:-1]) or b"\r" in bytes(changed):
        return
    with pytest.raises(RecordsError, match="line 2 does not match its checksum"):
        parse(lines[0] + bytes(changed) + lines[2])


def test_numbers_that_json_does_not_know_are_refused():
    with pytest.raises(ValueError, match="Out of range float"):
        line_of({"acc": float("nan")})
    for record in ({}, {"checksum": "x"}):
        with pytest.raises(ValueError, match="its checksum is made here"):
            line_of(record)


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


def test_identities_of_plan_and_record_agree():
    assert identity(record_of(CASE, 2)) == round_identity(CASE, 2)
