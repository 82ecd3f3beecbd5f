"""Downloads from a local server: every fault is survived or reported, and no partial file passes for a whole one."""

import hashlib
import socket

import pytest

from adaam.bench.download import DownloadError, Network, download, read_text
from adaam.files import lock
from file_server import running_server

CONTENT = bytes(range(256)) * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()
IMPATIENT = {"timeout_s": 5.0, "waits_s": (0.0, 0.0)}


@pytest.fixture
def server():
    with running_server() as server:
        server.files["/f"] = CONTENT
        yield server


@pytest.fixture
def said():
    return []


@pytest.fixture
def get(server, tmp_path, said):
    """Download /f and return the content of the file."""

    def fetch(md5=MD5, **options):
        network = Network(**(IMPATIENT | options), say=said.append)
        download(f"{server.url}/f", tmp_path / "f", md5, network)
        return (tmp_path / "f").read_bytes()

    return fetch


def part_of(tmp_path, md5=MD5):
    return tmp_path / f"f.{md5[:12]}.part"


def names(tmp_path):
    return {path.name for path in tmp_path.iterdir()}


def test_a_file_comes_whole_and_alone(get, tmp_path, server):
    told = []
    assert get(tell=lambda *numbers: told.append(numbers)) == CONTENT
    assert names(tmp_path) == {"f"}
    assert server.asked == [("/f", None)]
    assert told[0] == (0, len(CONTENT))
    assert told[-1] == (len(CONTENT), len(CONTENT))


def test_a_broken_transfer_asks_for_the_rest_only(get, server, said):
    server.faults["/f"] = [{"cut": 100_000}]
    assert get() == CONTENT
    assert server.asked == [("/f", None), ("/f", "bytes=100000-")]
    assert "the connection ended after 100000 of 256000 bytes; trying again" in said[0]


def test_what_an_earlier_fetch_has_left_is_gone_on_with(get, server, tmp_path):
    part_of(tmp_path).write_bytes(CONTENT[:7000])
    assert get() == CONTENT
    assert server.asked == [("/f", "bytes=7000-")]


def test_attempts_that_bring_something_are_not_counted(get, server):
    server.faults["/f"] = [{"cut": 10_000}] * 9
    assert get() == CONTENT
    assert [asked for _, asked in server.asked][1:] == [f"bytes={10_000 * place}-" for place in range(1, 10)]


def test_a_server_that_always_starts_anew_is_given_up(get, server, tmp_path):
    server.faults["/f"] = [{"cut": 10_000, "ranges": False}] * 20
    with pytest.raises(DownloadError, match="ended after 10000 of 256000 bytes.*tried 3 times"):
        get()
    assert len(server.asked) == 3
    assert part_of(tmp_path).stat().st_size == 10_000


def test_a_server_without_ranges_sends_the_whole_which_replaces_the_part(get, server):
    server.faults["/f"] = [{"cut": 10_000}, {"ranges": False}]
    assert get() == CONTENT


def test_a_range_that_was_not_asked_for_is_not_believed(get, server, tmp_path):
    part_of(tmp_path).write_bytes(CONTENT[:7000])
    server.faults["/f"] = [{"content_range": "bytes 0-255999/256000"}]
    assert get() == CONTENT
    assert server.asked[-1] == ("/f", None)


def test_a_part_that_is_whole_needs_no_server(get, server, tmp_path):
    part_of(tmp_path).write_bytes(CONTENT)
    assert get() == CONTENT
    assert server.asked == []


@pytest.mark.parametrize("left", [b"x" * 5000, b"x" * len(CONTENT), b"x" * (len(CONTENT) + 5)])
def test_a_part_that_does_not_fit_is_fetched_anew(get, tmp_path, said, left):
    part_of(tmp_path).write_bytes(left)
    assert get() == CONTENT
    assert any("does not fit; fetching it anew" in line for line in said)


def test_a_wrong_checksum_leaves_nothing(get, server, tmp_path):
    with pytest.raises(DownloadError, match=f"checksum {MD5}, but should have {'0' * 32}"):
        get(md5="0" * 32)
    assert names(tmp_path) == set()
    assert server.asked == [("/f", None)]


@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_answer_that_may_pass_is_waited_out(get, server, said, status):
    server.faults["/f"] = [{"status": status}, {"status": status, "retry_after": "0"}]
    assert get() == CONTENT
    assert f"the server answered {status}" in said[0]


def test_a_server_that_asks_for_time_gets_it(get, server, said, monkeypatch):
    slept = []
    monkeypatch.setattr("adaam.bench.download.sleep", slept.append)
    server.faults["/f"] = [{"status": 503, "retry_after": "7"}, {"status": 503, "retry_after": "86400"}]
    assert get() == CONTENT
    assert slept == [7, 60]


@pytest.mark.parametrize("status", [403, 404, 412])
def test_an_answer_that_will_not_pass_is_final(get, server, tmp_path, status):
    server.faults["/f"] = [{"status": status}]
    with pytest.raises(DownloadError, match=f"/f: the server answered {status}"):
        get()
    assert len(server.asked) == 1
    assert names(tmp_path) == set()


def test_a_server_that_stays_ill_is_given_up_with_the_number_of_attempts(get, server):
    server.faults["/f"] = [{"status": 500}] * 9
    with pytest.raises(DownloadError, match=r"answered 500 .*\(tried 3 times\)"):
        get()


@pytest.mark.parametrize("length", [True, False])
def test_what_is_too_large_is_refused(get, server, tmp_path, length):
    server.faults["/f"] = [{"length": length}]
    with pytest.raises(DownloadError, match="at most 100000 are allowed"):
        get(max_bytes=100_000)
    assert names(tmp_path) == set()


def test_a_length_that_is_not_told_is_no_hindrance(get, server):
    server.faults["/f"] = [{"length": False}]
    assert get() == CONTENT


def test_a_silent_server_is_left_after_the_timeout(get, server, said):
    server.faults["/f"] = [{"drip": 0.6}]
    assert get(timeout_s=0.2) == CONTENT
    assert "TimeoutError" in said[0]


def test_nobody_at_home_is_said(tmp_path, said):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    network = Network(waits_s=(0.0,), say=said.append)
    with pytest.raises(DownloadError, match=r"no connection: .*refused \(tried 2 times\)"):
        download(f"http://127.0.0.1:{port}/f", tmp_path / "f", MD5, network)
    assert len(said) == 1
    assert names(tmp_path) == set()


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/f", "nonsense"])
def test_other_ways_than_http_are_refused(tmp_path, url):
    with pytest.raises(DownloadError, match="is not an address that starts with http"):
        download(url, tmp_path / "f", MD5, Network())


def test_two_fetches_of_one_file_do_not_meet(get, tmp_path):
    with part_of(tmp_path).open("wb") as other:
        assert lock(other.fileno())
        other.write(b"abc")
        other.flush()
        with pytest.raises(DownloadError, match="another fetch is writing to it"):
            get()
    assert part_of(tmp_path).read_bytes() == b"abc"


def test_a_full_disk_is_not_taken_for_the_network(get, server):
    def full(*_):
        raise OSError(28, "No space left on device")

    with pytest.raises(DownloadError, match="No space left on device"):
        get(tell=full)
    assert len(server.asked) == 1


def test_short_texts_are_read_and_long_ones_refused(server):
    server.files["/t"] = "ä".encode()
    assert read_text(f"{server.url}/t", Network(**IMPATIENT)) == "ä"
    with pytest.raises(DownloadError, match="at most 100 are allowed"):
        read_text(f"{server.url}/f", Network(**IMPATIENT), max_bytes=100)
