"""Data sets from files of every kind; invalid files are refused with the reason."""

import gzip
import struct
import sys
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from adaam.bench import data_files
from adaam.bench.data_files import DataFileError, read_idx_pair, read_mat, read_npz, row_major
from adaam.bench.datasets import DATASETS, find_files, load_data, title_of

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 3, 5), dtype=np.uint8)  # 7 upright images of 3 rows and 5 columns
X = IMAGES.reshape(7, 15)
Y = np.array([3, 3, 1, 1, 2, 2, 2])
COLUMN_MAJOR = IMAGES.transpose(0, 2, 1).reshape(7, 15)


def idx(array, magic):
    return struct.pack(f">I{array.ndim}I", magic, *array.shape) + array.astype(np.uint8).tobytes()


def write_mnist(folder, packed, images=IMAGES, labels=Y):
    for part in ("train", "t10k"):
        for name, content in (
            (f"{part}-images-idx3-ubyte", idx(images, 0x0803)),
            (f"{part}-labels-idx1-ubyte", idx(labels, 0x0801)),
        ):
            (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)


def test_npz_of_our_form(tmp_path):
    np.savez_compressed(tmp_path / "own.npz", X=X, y=Y, image_shape=(3, 5))
    data = load_data("own", tmp_path)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.classes, [2, 2, 0, 0, 1, 1, 1])
    assert data.image_shape == (3, 5)
    assert data.rows(2).dtype == np.float64
    np.testing.assert_array_equal(data.rows(2), X[:2])


def test_npz_with_names_for_classes_and_without_image_shape(tmp_path):
    np.savez(tmp_path / "own.npz", X=X.astype(float), y=Y.astype(str))
    data = load_data("own", tmp_path)
    np.testing.assert_array_equal(data.classes, [2, 2, 0, 0, 1, 1, 1])
    assert data.image_shape is None


def test_mat_images_are_turned_upright(tmp_path):
    savemat(tmp_path / "own.mat", {"fea": COLUMN_MAJOR, "gnd": Y[:, None], "other": np.eye(2)})
    arrays = read_mat(tmp_path / "own.mat", (3, 5))
    np.testing.assert_array_equal(arrays.X, X)
    np.testing.assert_array_equal(arrays.classes, Y)


def test_square_images_need_no_shape(tmp_path):
    images = RNG.integers(0, 9, (4, 6, 6), dtype=np.uint8)
    savemat(tmp_path / "own.mat", {"fea": images.transpose(0, 2, 1).reshape(4, 36), "gnd": np.array([1, 1, 2, 2])})
    data = load_data("own", tmp_path)
    np.testing.assert_array_equal(data.X, images.reshape(4, 36))
    assert data.image_shape == (6, 6)


def test_rows_that_are_no_images_stay_as_they_are():
    np.testing.assert_array_equal(row_major(X, None), X)
    np.testing.assert_array_equal(row_major(X, (4, 4)), X)


def write_newer_mat(path):
    """A MATLAB 7.3 file: HDF5 behind a header of 512 bytes, arrays transposed as MATLAB stores them."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        file["fea"], file["gnd"] = COLUMN_MAJOR.T, Y[None, :].astype(float)
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    return path


def test_a_newer_mat_file_is_read(tmp_path):
    arrays = read_mat(write_newer_mat(tmp_path / "newer.mat"), (3, 5))
    np.testing.assert_array_equal(arrays.X, X)
    np.testing.assert_array_equal(arrays.classes, Y)


def test_a_newer_mat_file_says_what_to_install(tmp_path, monkeypatch):
    path = write_newer_mat(tmp_path / "newer.mat")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataFileError, match=r"needs h5py. Install it with: pip install adaam\[mat\]"):
        read_mat(path)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files(tmp_path, packed):
    write_mnist(tmp_path, packed)
    paths = find_files("mnist", tmp_path)
    assert len(paths) == 4
    arrays = read_idx_pair(*paths[:2])
    np.testing.assert_array_equal(arrays.X, X)
    np.testing.assert_array_equal(arrays.classes, Y)
    assert arrays.image_shape == (3, 5)
    with pytest.raises(DataFileError, match="has 14 rows of 15 in 3 classes, but the data set of this name has 70000"):
        load_data("mnist", tmp_path)


def test_mnist10k_is_the_first_rows_of_mnist(tmp_path):
    pixels = np.zeros((10_100, 784), np.uint8)
    pixels[:, 0] = np.arange(10_100) % 256
    classes = np.arange(10_100) % 10
    np.savez_compressed(tmp_path / "MNIST.npz", X=pixels, y=classes)
    data = load_data("mnist10k", tmp_path)
    assert data.X.shape == (10_000, 784)
    np.testing.assert_array_equal(data.classes, classes[:10_000])
    assert data.image_shape == (28, 28)


def test_names_that_circulate_are_found_in_any_case_of_letters(tmp_path):
    (tmp_path / "YaleB_32x32.mat").touch()
    (tmp_path / "COIL20.mat").touch()
    assert find_files("exyaleb", tmp_path)[0].name == "YaleB_32x32.mat"
    assert find_files("coil20", tmp_path)[0].name == "COIL20.mat"


def test_digits_need_no_file():
    assert find_files("digits", None) == ()
    data = load_data("digits", None)
    assert data.X.shape == (DATASETS["digits"].n, DATASETS["digits"].d)


def test_what_is_not_there_says_how_to_obtain_it(tmp_path):
    with pytest.raises(DataFileError, match="--data FOLDER or ADAAM_DATA name another folder"):
        find_files("usps", None)
    with pytest.raises(DataFileError, match=r"none of its files \(usps.npz, usps.mat\).* adaam datasets --fetch usps"):
        find_files("usps", tmp_path)
    with pytest.raises(DataFileError, match=r"own: none of its files"):
        find_files("own", tmp_path)
    with pytest.raises(DataFileError, match="none of its files"):
        find_files("usps", tmp_path / "none")


def bad_npz(path, case):
    if case == "rubbish":
        path.write_bytes(b"PK rubbish")
    elif case == "empty":
        path.write_bytes(b"")
    elif case == "no y":
        np.savez(path, X=X)
    elif case == "pickle":
        np.savez(path, X=np.array([{}, []], dtype=object), y=Y)
    elif case == "words":
        np.savez(path, X=X.astype(str), y=Y)
    elif case == "cube":
        np.savez(path, X=IMAGES, y=Y)
    elif case == "nan":
        np.savez(path, X=np.full(X.shape, np.nan), y=Y)
    elif case == "short y":
        np.savez(path, X=X, y=Y[:3])
    elif case == "one class":
        np.savez(path, X=X, y=np.zeros(7, int))
    elif case == "dates":
        np.savez(path, X=X, y=Y.astype("datetime64[D]"))
    elif case == "cut":
        np.savez(path, X=X, y=Y)
        path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("rubbish", "cannot be read as npz"),
        ("empty", "cannot be read as npz"),
        ("cut", "cannot be read as npz"),
        ("no y", "holds X; it must hold X and y"),
        ("pickle", "cannot be read as npz: 'X.npy' holds object, not numbers"),
        ("words", "'X.npy' holds <U.*, not numbers"),
        ("cube", "must be a table of numbers"),
        ("nan", "NaN or infinite"),
        ("short y", "one class a row"),
        ("one class", "at least two are needed"),
        ("dates", "'y.npy' holds datetime64.*, not numbers or words"),
    ],
)
def test_a_bad_npz_is_refused_with_the_reason(tmp_path, case, message):
    bad_npz(tmp_path / "own.npz", case)
    with pytest.raises(DataFileError, match=message):
        load_data("own", tmp_path)


def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(data_files, "MAX_BYTES", 10_000)
    with zipfile.ZipFile(tmp_path / "own.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", b"\x00" * 20_000)
    savemat(tmp_path / "own.mat", {"fea": np.zeros((100, 100)), "gnd": np.zeros(100)}, do_compression=True)
    (tmp_path / "i.gz").write_bytes(gzip.compress(struct.pack(">4I", 0x0803, 2**31, 2**15, 2**15)))
    for read in (
        lambda: read_npz(tmp_path / "own.npz"),
        lambda: read_mat(tmp_path / "own.mat"),
        lambda: read_idx_pair(tmp_path / "i.gz", tmp_path / "i.gz"),
    ):
        with pytest.raises(DataFileError, match="unpacks to .* more than .*10000"):
            read()


@pytest.mark.parametrize(
    "content",
    [b"", b"rubbish", b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"\xff" * 40],
    ids=["empty", "text", "header"],
)
def test_a_bad_mat_file_is_refused(tmp_path, content):
    (tmp_path / "own.mat").write_bytes(content)
    with pytest.raises(DataFileError, match=r"own.mat: "):
        load_data("own", tmp_path)


def test_a_mat_file_of_other_names_says_what_it_holds(tmp_path):
    savemat(tmp_path / "own.mat", {"pixels": X, "gnd": Y})
    with pytest.raises(DataFileError, match="holds pixels, gnd; one of fea, X must be there"):
        load_data("own", tmp_path)
    savemat(tmp_path / "own.mat", {"fea": {"a": X}, "gnd": Y})
    with pytest.raises(DataFileError, match="fea is of class 2, not a matrix of real numbers"):
        load_data("own", tmp_path)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (b"", idx(Y, 0x0801), "starts with nothing"),
        (idx(Y, 0x0801), idx(Y, 0x0801), "starts with 0x00000801"),
        (idx(IMAGES, 0x0803)[:-1], idx(Y, 0x0801), "should hold 105 bytes"),
        (idx(IMAGES, 0x0803) + b"x", idx(Y, 0x0801), "but holds more"),
        (idx(IMAGES, 0x0803), idx(Y[:3], 0x0801), "3 labels for the 7 images"),
    ],
    ids=["empty", "labels for images", "cut", "too long", "too few labels"],
)
def test_bad_idx_files_are_refused(tmp_path, images, labels, message):
    (tmp_path / "i").write_bytes(images)
    (tmp_path / "l").write_bytes(labels)
    with pytest.raises(DataFileError, match=message):
        read_idx_pair(tmp_path / "i", tmp_path / "l")
    (tmp_path / "i.gz").write_bytes(b"not packed")
    with pytest.raises(DataFileError, match="cannot be read as IDX"):
        read_idx_pair(tmp_path / "i.gz", tmp_path / "l")


def test_every_set_says_where_it_is_found_and_how_to_obtain_it():
    for each in DATASETS.values():
        assert each.found
        assert each.obtain
        assert each.terms
        assert each.image_shape[0] * each.image_shape[1] == each.d
    assert (title_of("usps"), title_of("own")) == ("USPS", "own")


@pytest.mark.paper
@pytest.mark.parametrize("name", [name for name in DATASETS if name != "digits"])
def test_the_papers_files_load(name, paper_data):
    import os
    from pathlib import Path

    data = load_data(name, Path(os.environ["ADAAM_DATA"]))
    assert data.image_shape == DATASETS[name].image_shape
