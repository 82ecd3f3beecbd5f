"""Untrusted data files: one class of errors with file and cause, bounded memory and time, no code executed."""

import io
import json
import pickle
import struct
import time
import zipfile

import numpy as np
import pytest
from scipy.io import loadmat, savemat
from scipy.sparse import csc_array

from adaam.bench.data_files import DataFileError, read_mat, read_npz
from adaam.rows import RowsError, open_rows
from adaam.untrusted import UnreadableFileError, array_of, check_directory

BRACKETS = b"\x93NUMPY\x01\x00v\x00" + b"(" * 118  # the header is not Python, which raised a TokenError
X, Y = np.arange(12.0).reshape(4, 3), np.array([0, 1, 0, 1])


def npz(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array, **changed):
    stream = io.BytesIO()
    fields = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape} | changed
    np.lib.format.write_array_header_1_0(stream, fields)
    return stream.getvalue() + array.tobytes()


def test_a_sparse_matrix_in_a_mat_file_is_refused(tmp_path):
    """SciPy's reader crashed the process if indices pointed outside the array."""
    savemat(tmp_path / "rows.mat", {"fea": csc_array(X), "gnd": Y})
    with pytest.raises(DataFileError, match=r"fea is of class 5, not a matrix of real numbers, stored in full"):
        read_mat(tmp_path / "rows.mat")


def test_a_matrix_of_a_type_that_is_not_known_is_refused(tmp_path):
    """SciPy's reader crashed the process: it looked up the type without a bounds check."""
    savemat(tmp_path / "rows.mat", {"fea": X, "gnd": Y})
    content = (tmp_path / "rows.mat").read_bytes()
    place = content.find(struct.pack("<2I", 9, 96))
    (tmp_path / "rows.mat").write_bytes(content[:place] + b"\x19" + content[place + 1 :])
    with pytest.raises(DataFileError, match="a part of type 25"):
        read_mat(tmp_path / "rows.mat")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", [float, np.float32, np.uint8, np.int16, bool])
def test_a_matrix_is_read_as_scipy_reads_it(tmp_path, dtype, compressed):
    savemat(tmp_path / "rows.mat", {"fea": X.astype(dtype), "gnd": Y, "word": "a"}, do_compression=compressed)
    rows = read_mat(tmp_path / "rows.mat")
    np.testing.assert_array_equal(rows.X, loadmat(tmp_path / "rows.mat")["fea"])
    np.testing.assert_array_equal(rows.classes, Y)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(X, shape=(3, 3)), "does not hold the array it claims"),
        (npy(X, shape=(40, 3)), "does not hold the array it claims"),
        (npy(X, shape=(-4, -3)), "has shape"),
        (npy(X, shape=(0, 10**15)), "has shape"),
        (npy(X, descr="|O"), "holds object, not numbers"),
        (npy(X, descr=[("a", "<f8")]), "not numbers"),
        (npy(X, descr="<U0"), "not numbers"),
        (npy(X) + b"more", "does not hold the array it claims"),
        (npy(X)[:-1], "does not hold the array it claims"),
        (b"\x93NUMPY\x09\x00" + npy(X)[8:], "version"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"{" * 70_000, "cannot be read as npz"),
        (b"", "cannot be read as npz"),
    ],
)
def test_an_array_must_account_for_every_byte(tmp_path, content, message):
    with pytest.raises(DataFileError, match=message):
        read_npz(npz(tmp_path / "rows.npz", X=content, y=npy(Y)))


def test_an_array_is_read_as_numpy_reads_it():
    for array in (X, X.T, X.astype(np.float32)[:, :0], np.array(True), np.array(["a", "bc"])):
        stream = io.BytesIO()
        np.save(stream, array)
        again = array_of(bytearray(stream.getvalue()), "a", "fiubUS")
        np.testing.assert_array_equal(again, array)
        assert (again.dtype, again.flags.writeable, again.flags.aligned) == (array.dtype, True, True)


def test_the_list_of_members_is_measured_in_large_archives_too(tmp_path):
    path = tmp_path / "large.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(70_000):  # more than the zip format counts without its 64-bit extension
            archive.writestr(str(number), b"")
    with path.open("rb") as stream, pytest.raises(UnreadableFileError, match="list of members takes"):
        check_directory(stream)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        npy(X)[:100],
        npy(X, shape=(10**15, 10**9)),
        npy(X, descr="|O"),
        BRACKETS,
    ],
)
def test_damaged_npy_files_raise_one_class(tmp_path, content):
    (tmp_path / "rows.npy").write_bytes(content)
    with pytest.raises(RowsError, match=r"rows.npy: "):
        open_rows(tmp_path / "rows.npy")


class Runs:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def described(folder, **changes):
    """Write a Zarr array with changed metadata."""
    zarr = pytest.importorskip("zarr")
    array = zarr.open(str(folder), mode="w", shape=X.shape, chunks=(2, 3), dtype="f8", zarr_format=2)
    array[:] = X
    path = folder / ".zarray"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def test_a_pickle_in_a_chunk_is_never_opened(tmp_path):
    """A Zarr filter can unpickle chunks, whatever the dtype of the array."""
    folder = described(tmp_path / "rows.zarr", filters=[{"id": "pickle"}], compressor=None)
    for name in ("0.0", "1.0"):
        (folder / name).write_bytes(pickle.dumps(Runs(tmp_path / "run")))
    with pytest.raises(RowsError, match="packed by 'pickle'"):
        list(open_rows(folder).blocks())
    assert not (tmp_path / "run").exists()


def test_a_summary_of_a_group_cannot_describe_an_array_otherwise(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.open_group(str(tmp_path / "rows.zarr"), mode="w", zarr_format=2)
    inner = described(tmp_path / "rows.zarr" / "X")
    evil = json.loads((inner / ".zarray").read_text()) | {"filters": [{"id": "pickle"}], "compressor": None}
    summary = {"metadata": {".zgroup": {"zarr_format": 2}, "X/.zarray": evil}, "zarr_consolidated_format": 1}
    (tmp_path / "rows.zarr" / ".zmetadata").write_text(json.dumps(summary))
    (block,) = open_rows(tmp_path / "rows.zarr").blocks()
    np.testing.assert_array_equal(block, X)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": [10**13, 3]}, "claims shape .* but stores"),
        ({"shape": [10**13, 3], "chunks": [10**13, 3]}, "chunks of shape"),
        ({"shape": [4, 10**12], "chunks": [4, 3]}, "features"),
        ({"shape": [4]}, "cannot be read as Zarr array|not a table"),
        ({"dtype": "|O"}, "Zarr array|numbers"),
        ({"dtype": "bogus"}, "cannot be read as Zarr array"),
        ({"compressor": {"id": "lzma"}}, "packed by 'lzma'"),
        ({"compressor": {"id": "zlib", "level": 1}}, "cannot be read as Zarr array"),
        ({"compressor": 3}, "cannot be read as Zarr array"),
        ({"chunks": [0, 0]}, "cannot be read as Zarr array"),
        ({"zarr_format": 7}, "cannot be read as Zarr array"),
    ],
)
def test_damaged_zarr_arrays_raise_one_class_soon(tmp_path, changes, message):
    """Regression: a huge shape hung; others raised KeyError, ZeroDivisionError and MemoryError."""
    start = time.monotonic()
    with pytest.raises(RowsError, match=message):
        list(open_rows(described(tmp_path / "rows.zarr", **changes)).blocks())
    assert time.monotonic() - start < 20


def hdf5(path, change):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        file["gnd"] = Y[None, :]
        change(h5py, file)
    content = bytearray(path.read_bytes())
    content[: len(b"MATLAB 7.3 MAT-file")] = b"MATLAB 7.3 MAT-file"
    path.write_bytes(content)
    return path


def test_a_data_set_that_is_elsewhere_is_not_followed(tmp_path):
    """Regression: a file could present any other file of the machine as rows."""
    (tmp_path / "secret").write_bytes(bytes(96))
    secret = str(tmp_path / "secret")

    def external(h5py, file):
        file.create_dataset("fea", (3, 4), "f8", external=[(secret, 0, 96)])

    with pytest.raises(DataFileError, match="not stored as a table of numbers in the file itself"):
        read_mat(hdf5(tmp_path / "rows.mat", external))
    with pytest.raises(DataFileError, match="one of fea, X must be there"):
        read_mat(hdf5(tmp_path / "rows.mat", lambda h5py, file: file.update({"fea": h5py.ExternalLink(secret, "/a")})))
    with pytest.raises(DataFileError, match="claims shape"):
        read_mat(
            hdf5(
                tmp_path / "rows.mat", lambda _, file: file.create_dataset("fea", (10**5, 10**4), "f8", chunks=(10, 10))
            )
        )
    arrays = read_mat(hdf5(tmp_path / "rows.mat", lambda _, file: file.update({"fea": X.T})))
    np.testing.assert_array_equal(arrays.X, X)
