"""Output files are written completely or not at all; what was at the path keeps its type, mode and owner."""

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from adaam import files
from adaam.files import atomic_file, own_lock_path, waiting_lock
from adaam.rows import WRITERS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def write(path, content=b"new"):
    with atomic_file(path) as stream:
        stream.write(content)


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    """Regression: run as root, `-o /dev/null` replaced the device by a file."""
    null = Path(os.devnull)
    before = null.stat()
    write(os.devnull)
    after = null.stat()
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_dev, after.st_ino) == (before.st_dev, before.st_ino)
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    write(link)
    assert link.is_symlink()


def test_a_pipe_is_written_to_once_everything_is_there(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    with atomic_file(pipe) as stream:
        np.save(stream, np.arange(3))  # calls seek and tell, which a pipe does not support
        stream.seek(0, os.SEEK_END)
    reader.join(10)
    np.testing.assert_array_equal(np.load(io.BytesIO(received[0])), np.arange(3))
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_pipe_whose_reader_has_left_is_named(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: os.close(os.open(pipe, os.O_RDONLY)), daemon=True)
    reader.start()
    with pytest.raises(BrokenPipeError, match="pipe") as caught:
        write(pipe, bytes(1 << 20))  # more than a pipe holds
    assert caught.value.filename == str(pipe)


def test_standard_output_by_its_path_goes_on_where_it_is(tmp_path):
    target = tmp_path / "out"
    code = "from adaam.files import atomic_file\nwith atomic_file('/dev/stdout') as stream: stream.write(b'new')"
    with target.open("wb") as stream:
        stream.write(b"before ")
        stream.flush()
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert target.read_bytes() == b"before new"


def test_a_link_stays_and_its_target_is_written(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to("elsewhere/target")
    write(link)  # dangling: the target is made
    write(link, b"again")
    assert link.is_symlink()
    assert (folder / "target").read_bytes() == b"again"
    assert [path.name for path in folder.iterdir()] == ["target"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_file_that_is_there_keeps_its_mode(tmp_path, mode):
    target = tmp_path / "out"
    target.write_bytes(b"old")
    target.chmod(mode)
    write(target)
    assert stat.S_IMODE(target.stat().st_mode) == mode
    assert target.read_bytes() == b"new"


def test_what_replaces_a_private_file_is_private_from_the_start(tmp_path):
    target = tmp_path / "out"
    target.write_bytes(b"old")
    target.chmod(0o600)
    with atomic_file(target) as stream:
        stream.write(b"secret")
        stream.flush()
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_a_file_that_is_there_keeps_its_owner(tmp_path):
    target = tmp_path / "out"
    target.write_bytes(b"old")
    os.chown(target, 12345, 23456)
    write(target)
    assert (target.stat().st_uid, target.stat().st_gid) == (12345, 23456)


def test_a_file_whose_owner_cannot_be_kept_is_written_in_place(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.write_bytes(b"old and longer")
    number = target.stat().st_ino

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    real = os.stat

    def foreign(path, **options):
        found = real(path, **options)
        if str(path) != str(target):
            return found
        return os.stat_result([*found[:4], found.st_uid + 1, *found[5:10]])

    monkeypatch.setattr(os, "stat", foreign)
    write(target)
    monkeypatch.undo()
    assert (target.stat().st_ino, target.read_bytes()) == (number, b"new")
    assert list(tmp_path.iterdir()) == [target]


def test_the_umask_is_respected_and_never_touched(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask belongs to the process"))
        write(tmp_path / "out")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


@pytest.mark.skipif(ROOT, reason="root may write everything")
def test_a_file_that_is_write_protected_stays(tmp_path):
    target = tmp_path / "out"
    target.write_bytes(b"old")
    target.chmod(0o444)
    with pytest.raises(PermissionError, match="out"), atomic_file(target):
        pass
    assert target.read_bytes() == b"old"


def test_a_folder_is_refused_by_its_name(tmp_path):
    with pytest.raises(IsADirectoryError, match=tmp_path.name), atomic_file(tmp_path):
        pass


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path):
    target = tmp_path / "out"
    with pytest.raises(OSError, match=r"No space left on device.*out") as caught, atomic_file(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.filename == str(target)
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match=r"No space left on device.*/dev/full"):
        write("/dev/full")


def test_names_as_long_as_the_system_allows_can_be_written(tmp_path):
    target = tmp_path / ("ä" * 127)
    write(target)
    assert target.read_bytes() == b"new"


KILLED = """
import os, signal, sys
from adaam import files
from adaam.files import atomic_file, own_lock_path, waiting_lock
with atomic_file(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_interrupt_while_a_part_is_made_leaves_nothing(tmp_path, monkeypatch, request):
    make = files._new_part

    def make_and_interrupt(*given):
        made = make(*given)
        os.kill(os.getpid(), signal.SIGINT)
        return made

    monkeypatch.setattr(files, "_new_part", make_and_interrupt)
    # A shell that starts the tests in the background has them ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with pytest.raises(KeyboardInterrupt), files.atomic_file(tmp_path / "rows.npy"):
        pass
    assert not list(tmp_path.iterdir())


def test_what_a_killed_run_left_is_swept_and_nothing_else(tmp_path):
    target = tmp_path / "out"
    foreign = tmp_path / ".out.part"
    foreign.write_bytes(b"somebody else's")
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    left = set(tmp_path.iterdir()) - {foreign}
    assert len(left) == 1, "a kill leaves its part"
    (tmp_path / ".fifo.0123abcd.adaam-part").mkdir()
    with atomic_file(tmp_path / "other") as slow:  # one that is being written stays
        slow.write(b"slow")
        write(target)
        assert not left & set(tmp_path.iterdir())
    assert (tmp_path / "other").read_bytes() == b"slow"
    assert foreign.exists()
    assert (tmp_path / ".fifo.0123abcd.adaam-part").is_dir()


def test_words_that_begin_like_formulas_get_an_apostrophe():
    assert files.spreadsheet_text("=1+1") == "'=1+1"
    assert files.spreadsheet_text("petal length") == "petal length"


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("blocks", [[], [np.empty((0, 2))]], ids=["no block", "an empty block"])
def test_zero_rows_make_a_valid_file_in_every_format(tmp_path, ending, blocks):
    path = tmp_path / f"rows{ending}"
    with atomic_file(path) as stream:
        assert WRITERS[ending](stream, iter(blocks), ["a", "b"]) == 0
    if ending == ".npy":
        assert np.load(path).shape == (0, 2)
    elif ending == ".csv":
        assert path.read_text() == "a,b\n"
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(path)
        assert (table.num_rows, table.column_names) == (0, ["a", "b"])


def test_a_lock_of_ours_is_in_a_folder_of_this_user_alone(tmp_path, monkeypatch):
    """Regression: the lock of compiled kernels was in the shared temporary folder, where anyone could hold it."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    folder = own_lock_path("a").parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert own_lock_path("a") is None, "others could write there"
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert own_lock_path("a") is None, "others could have made the link"


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_a_lock_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    os.chown(own_lock_path("a").parent, 12345, 12345)
    assert own_lock_path("a") is None


def test_a_lock_is_waited_for_and_not_for_ever(tmp_path):
    with waiting_lock(tmp_path / "lock", 0.1) as first, waiting_lock(tmp_path / "lock", 0.1) as second:
        assert (first, second) == (True, False)
    with waiting_lock(tmp_path / "lock", 0.1) as third:
        assert third
