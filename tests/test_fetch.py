"""Fetch data sets as a user does, from a local server that answers like OpenML."""

import dataclasses
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from adaam.bench.data_files import DataFileError
from adaam.bench.datasets import DATASETS, cache_folder, fetch_folder, find_files, load_data
from adaam.bench.download import DownloadError, Network
from adaam.bench.openml import SOURCES, describe, fetch
from adaam.cli import main
from adaam.cli.datasets import Progress
from child_processes import heed_interrupts
from file_server import USPS, USPS_VALUES, offer, running_server

QUICK = Network(timeout_s=5.0, waits_s=(0.0,))


@pytest.fixture
def server():
    with running_server() as server:
        server.usps = offer(server, USPS, 41082, "int0")
        yield server


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("ADAAM_DATA", raising=False)
    monkeypatch.setenv("ADAAM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.fixture
def tiny(monkeypatch):
    """A set of 4 rows in place of MNIST."""
    listed = dataclasses.replace(DATASETS["mnist"], n=4, d=4, c=2, image_shape=(2, 2))
    monkeypatch.setitem(DATASETS, "mnist", listed)
    monkeypatch.setitem(SOURCES, "mnist", dataclasses.replace(SOURCES["mnist"], n_columns=4))
    header = "".join(f"@attribute pixel{j} real\n" for j in range(4)) + "@attribute class {0,1}\n@data\n"
    return (header + "0,1,2,3,0\n4,5,6,7,1\n8,9,10,11,0\n252,253,254,255,1\n").encode()


def command(home, server, *names):
    return ["datasets", "--data", str(home / "data"), "--server", server.url, "--fetch", *names]


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_one_command_fetches_a_set_that_loads(home, server, capsys):
    assert main(command(home, server, "usps")) == 0
    shown = capsys.readouterr().err
    assert f"usps: {home / 'data' / 'usps.npz'}" in shown
    assert "MB" in shown
    assert names(home / "data") == {"usps.npz", "usps.source.json"}
    data = load_data("usps", home / "data")
    np.testing.assert_allclose(data.X[:20], (USPS_VALUES + 1) / 2, atol=1e-7)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.classes, np.arange(9298) % 10)
    assert data.image_shape == (16, 16)
    noted = json.loads((home / "data" / "usps.source.json").read_text())
    assert noted["arff_sha256"] == hashlib.sha256(USPS).hexdigest()
    assert noted["md5"] == hashlib.md5(USPS).hexdigest()

    asked = len(server.asked)
    assert main(command(home, server, "usps")) == 0
    assert len(server.asked) == asked, "what is here is not fetched again"


def test_umist_is_resized_to_the_papers_40x40(home, server):
    """Pixels are in column-major order, as MATLAB writes them; few distinct rows make the file quick to build."""
    gradient = np.add.outer(2 * np.arange(112), np.zeros(92)).astype(int)
    images = [gradient, 255 - gradient]
    lines = [",".join(map(str, image.T.ravel())) for image in images]
    header = "".join(f"@attribute V{j} numeric\n" for j in range(112 * 92)) + "@attribute class {1,2}\n@data\n"
    rows = "".join(f"{lines[i % 2]},{1 + i % 20}\n" for i in range(575))
    offer(server, (header + rows).encode(), 41084, "class")
    fetch("umist", home, QUICK, server.url)
    data = load_data("umist", home)
    first = data.X[0].reshape(40, 40)
    assert data.X.dtype == np.uint8
    assert (first == first[:, :1]).all()
    np.testing.assert_array_equal(first[:, 0], np.rint(5.6 * np.arange(40) + 1.8))


def test_first_rows_of_mnist_mean_mnist(home, server, tiny):
    offer(server, tiny, 554, "class")
    assert main(command(home, server, "mnist10k", "mnist")) == 0
    assert load_data("mnist", home / "data").X.tolist()[-1] == [252, 253, 254, 255]


def test_a_broken_transfer_is_resumed_by_the_next_command(home, server):
    server.faults[server.usps] = [{"cut": 1_000_000}] + [{"status": 500}] * 2
    with pytest.raises(DownloadError, match="By hand: download the ARFF file of https://www.openml.org/d/41082"):
        fetch("usps", home / "data", QUICK, server.url)
    (part,) = (home / "data").iterdir()
    assert part.name.endswith(".part")
    assert part.stat().st_size == 1_000_000
    fetch("usps", home / "data", QUICK, server.url)
    assert [asked for path, asked in server.asked if path == server.usps][-1] == "bytes=1000000-"
    assert names(home / "data") == {"usps.npz", "usps.source.json"}


def test_killed_half_way_the_next_command_completes(home, server):
    server.faults[server.usps] = [{"drip": 0.01}]
    arguments = [sys.executable, "-m", "adaam", *command(home, server, "usps")]
    running = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def part_bytes():
        return sum(path.stat().st_size for path in (home / "data").glob("*.part"))

    while part_bytes() < 200_000:
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    kept = part_bytes()
    assert 200_000 <= kept < len(USPS)
    with pytest.raises(DataFileError):
        find_files("usps", home / "data")
    assert main(command(home, server, "usps")) == 0
    assert (server.usps, f"bytes={kept}-") in server.asked
    np.testing.assert_allclose(load_data("usps", home / "data").X[:20], (USPS_VALUES + 1) / 2, atol=1e-7)


def test_an_interrupt_keeps_what_has_come_and_says_so(home, server):
    server.faults[server.usps] = [{"drip": 0.01}]
    arguments = [sys.executable, "-m", "adaam", *command(home, server, "usps")]
    running = subprocess.Popen(
        arguments, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heed_interrupts
    )
    while not any(path.stat().st_size for path in (home / "data").glob("*.part")):
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors


def test_killed_before_the_conversion_nothing_is_fetched_twice(home, server):
    (home / "data" / "usps.arff").write_bytes(USPS)
    fetch("usps", home / "data", QUICK, server.url)
    assert [path for path, _ in server.asked] == ["/api/v1/json/data/41082"]


def test_offline_the_message_says_what_was_tried_and_what_to_do(home, capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setattr("adaam.bench.download.sleep", lambda _: None)
    url = f"http://127.0.0.1:{port}"
    assert main(["datasets", "--data", str(home / "data"), "--server", url, "--fetch", "usps", "umist"]) == 1
    errors = capsys.readouterr().err
    assert "2 of 2 could not be fetched" in errors
    assert f"usps: {url}/api/v1/json/data/41082: no connection: " in errors
    assert "refused (tried 4 times)" in errors
    assert f"save it as {home / 'data' / 'umist.arff'}" in errors
    assert "Traceback" not in errors
    assert names(home / "data") == set()


def test_a_file_put_there_by_hand_needs_no_network(home, server):
    server.files.clear()
    (home / "data" / "usps.arff").write_bytes(USPS)
    said = []
    fetch("usps", home / "data", dataclasses.replace(QUICK, say=said.append), server.url)
    assert any("read without its checksum" in line for line in said)
    assert load_data("usps", home / "data").X.shape == (9298, 256)


def test_a_file_of_another_version_is_not_taken_for_the_described_one(home, server):
    (home / "data" / "usps.arff").write_bytes(USPS[:-100])
    fetch("usps", home / "data", QUICK, server.url)
    assert load_data("usps", home / "data").X.shape == (9298, 256)


def test_one_that_fails_stands_in_no_others_way(home, server, capsys):
    assert main(command(home, server, "umist", "usps")) == 1
    errors = capsys.readouterr().err
    assert "1 of 2 could not be fetched" in errors
    assert "umist: http" in errors
    assert "the server answered 404" in errors
    assert names(home / "data") == {"usps.npz", "usps.source.json"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"md5_checksum": "0" * 32}, "checksum .* but should have 0000"),
        ({"md5_checksum": "none"}, "gives the checksum 'none', which is no MD5"),
        ({"url": "file:///etc/hostname"}, "is not an address that starts with http"),
        ({"default_target_attribute": "label"}, "has no column 'label'; it has int0, double1"),
    ],
)
def test_a_description_that_cannot_be_right_is_refused(home, server, changes, message):
    offer(server, USPS, 41082, "int0", **changes)
    with pytest.raises((DownloadError, DataFileError), match=message):
        fetch("usps", home / "data", QUICK, server.url)
    assert not (home / "data" / "usps.npz").exists()


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[]", b'{"error": {"code": "111"}}', b'{"data_set_description": 3}']
)
def test_an_answer_that_is_no_description_is_refused(home, server, answer):
    server.files["/api/v1/json/data/41082"] = answer
    with pytest.raises(DownloadError, match="is not a description of a data set"):
        describe("usps", QUICK, server.url)


def test_an_unprotected_file_of_a_protected_server_is_refused(monkeypatch):
    told = {"url": "http://x/f", "md5_checksum": "0" * 32, "default_target_attribute": "class"}
    monkeypatch.setattr("adaam.bench.openml.read_text", lambda *_: json.dumps({"data_set_description": told}))
    with pytest.raises(DownloadError, match="not protected by https"):
        describe("usps", QUICK)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"252,253,254,255,1\n", b"", "has 3 rows of 4 in 2 classes, but mnist on OpenML has 4 rows of 4 in 2"),
        (b",1\n", b",0\n", "has 4 rows of 4 in 1 classes"),
        (b"8,9,10", b"8,x,10", "could not convert"),
        (b"@data\n", b"@data\n1,1,1,1,1\n", "has more than 4 rows"),
    ],
)
def test_a_file_that_is_not_the_set_is_refused(home, server, tiny, old, new, message):
    offer(server, tiny.replace(old, new), 554, "class")
    with pytest.raises(DataFileError, match=message):
        fetch("mnist", home / "data", QUICK, server.url)
    assert not (home / "data" / "mnist.npz").exists()


def test_values_outside_the_scale_of_usps_are_refused(home, server):
    offer(server, USPS.replace(b"@data\n1,", b"@data\n1,7", 1), 41082, "int0")
    with pytest.raises(DataFileError, match="they should be from -1 to 1"):
        fetch("usps", home / "data", QUICK, server.url)


def test_a_fetched_file_that_was_changed_is_noticed(home, server, tiny):
    offer(server, tiny, 554, "class")
    path = fetch("mnist", home / "data", QUICK, server.url)
    np.savez(path, X=np.zeros((4, 4)), y=[0, 1, 0, 1])
    with pytest.raises(
        DataFileError, match="is not as it was fetched, by the checksum in mnist.source.json. Remove both"
    ):
        fetch("mnist", home / "data", QUICK, server.url)
    path.with_suffix(".source.json").write_text("{")
    with pytest.raises(DataFileError, match="mnist.npz: is not as it was fetched.*Remove both"):
        fetch("mnist", home / "data", QUICK, server.url)
    path.write_bytes(b"PK")
    with pytest.raises(DataFileError, match="cannot be read as npz"):
        fetch("mnist", home / "data", QUICK, server.url)


def test_fetched_sets_go_where_files_can_be_made_and_are_found_there(home, server, monkeypatch, capsys):
    assert fetch_folder(home / "data") == home / "data"
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert main(command(home, server, "usps")) == 0
    assert names(home / "data") == set()
    assert find_files("usps", home / "data") == (cache_folder() / "usps.npz",)
    assert find_files("usps", None) == (cache_folder() / "usps.npz",)
    assert main(["datasets"]) == 0
    assert f"here: {cache_folder() / 'usps.npz'}" in capsys.readouterr().out
    np.savez(home / "data" / "usps.npz", X=np.zeros((2, 2)), y=[0, 1])
    assert find_files("usps", home / "data") == (home / "data" / "usps.npz",), "the folder that is named comes first"
    asked = len(server.asked)
    assert main(command(home, server, "usps")) == 0
    assert "there already" in capsys.readouterr().err
    assert len(server.asked) == asked


def test_the_place_for_fetched_sets_follows_the_system(monkeypatch, tmp_path):
    monkeypatch.delenv("ADAAM_CACHE")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "adaam"
    assert "adaam" in cache_folder().parts[-2:]  # on Windows, a folder Cache follows
    monkeypatch.setenv("ADAAM_CACHE", str(tmp_path / "file" / "in the way"))
    (tmp_path / "file").touch()
    with pytest.raises(DataFileError, match="cannot be made: .* Name a folder of your own"):
        fetch_folder(None)


def test_what_openml_does_not_have_is_told(home, capsys):
    assert main(["datasets", "--fetch", "coil20"]) == 1
    assert (
        "--fetch coil20: cannot be fetched; use some of mnist, usps, umist. To obtain it: save"
        in capsys.readouterr().err
    )
    assert main(["datasets", "--fetch", "own"]) == 1


def test_reproduce_says_what_is_missing_and_fetches_nothing(home, capsys):
    assert main(["reproduce", "--data", str(home / "data"), "--out", str(home / "out")]) == 1
    errors = capsys.readouterr().err
    (line,) = (line for line in errors.splitlines() if line.startswith("left out: usps"))
    assert "adaam datasets --fetch usps" in line
    assert not (home / "cache").exists()


class Terminal:
    def __init__(self, tty):
        self.text, self.tty = "", tty

    def isatty(self):
        return self.tty

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_is_one_line_on_a_terminal_and_a_line_a_tenth_elsewhere(monkeypatch):
    clock = iter(np.arange(0, 1000, 0.5))
    monkeypatch.setattr("adaam.cli.datasets.monotonic", lambda: float(next(clock)))
    shown = {}
    for tty in (True, False):
        stream = Terminal(tty)
        progress = Progress("usps", stream)
        for n_bytes in range(2_000_000, 10_000_001, 100_000):
            progress.tell(n_bytes, 10_000_000)
        progress.line.end()
        progress.line.end()
        shown[tty] = stream.text
    assert shown[True].count("\n") == 1
    assert shown[True].split("\r")[-1].startswith("\x1b[Kusps: 10.0 of 10.0 MB, 0.2 MB/s, about 0 s left")
    assert shown[False].count("\n") == 9
    stream = Terminal(False)
    Progress("usps", stream).tell(5_000_000, None)
    assert stream.text == "usps: 5.0 MB\n"
