"""ARFF as OpenML serves it: image sets are read, everything else is refused with the place and the reason."""

import numpy as np
import pytest

from adaam.bench import openml
from adaam.bench.data_files import DataFileError
from adaam.bench.openml import read_arff

SMALL = """% a comment
@RELATION 'small images'

@ATTRIBUTE pixel1 real
@attribute "pixel 2" NUMERIC
@ATTRIBUTE 'class' {a, 'b'}
@DATA
1,2,a
% another
0, 255 ,'b'

3,4,a
"""


@pytest.fixture
def read(tmp_path):
    def of(text, target="class", max_rows=100):
        path = tmp_path / "f.arff"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_arff(path, target, max_rows)

    return of


def test_rows_keep_their_order_and_classes_their_names(read):
    arrays = read(SMALL)
    np.testing.assert_array_equal(arrays.X, [[1, 2], [0, 255], [3, 4]])
    assert arrays.X.dtype == np.uint8
    assert arrays.classes.tolist() == ["a", "b", "a"]


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_do_not_matter(read, ending):
    np.testing.assert_array_equal(read(SMALL.replace("\n", ending)).X, read(SMALL).X)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_classes_may_stand_in_any_column(read, place, rng):
    """USPS has them first."""
    X, y = rng.integers(-9, 9, (2500, 3)) / 8, rng.integers(1, 11, 2500)
    names = [f"v{j}" for j in range(3)]
    names.insert(place, "int0")
    rows = [[repr(value) for value in row] for row in X.tolist()]
    for row, label in zip(rows, y, strict=True):
        row.insert(place, str(label))
    header = "".join(f"@attribute {name} {'{1,10}' if name == 'int0' else 'real'}\n" for name in names)
    arrays = read(header + "@data\n" + "\n".join(map(",".join, rows)), "int0", max_rows=2500)
    np.testing.assert_array_equal(arrays.X, X)
    assert arrays.X.dtype == np.float32
    np.testing.assert_array_equal(arrays.classes, y)
    assert arrays.classes.dtype == np.int64


def test_classes_that_are_written_as_numbers_are_numbers(read):
    text = "@attribute a real\n@attribute class numeric\n@data\n1,2.0\n2,10\n"
    assert read(text).classes.tolist() == [2, 10]
    assert read(text.replace("2.0", "2.5")).classes.tolist() == ["2.5", "10"]


def test_the_form_of_numbers_is_that_of_all_blocks_together(read, monkeypatch):
    monkeypatch.setattr(openml, "BLOCK_LINES", 2)
    text = "@attribute a real\n@attribute class {x}\n@data\n1,x\n2,x\n0.5,x\n-1,x\n300,x\n"
    arrays = read(text)
    assert arrays.X.dtype == np.float32
    assert arrays.X.ravel().tolist() == [1, 2, 0.5, -1, 300]


def test_it_agrees_with_scipy(tmp_path, rng):
    from scipy.io.arff import loadarff

    X, y = rng.random((30, 4)).astype(np.float32), rng.integers(0, 3, 30)
    path = tmp_path / "f.arff"
    header = "@relation r\n" + "".join(f"@attribute v{j} numeric\n" for j in range(4)) + "@attribute class {0,1,2}\n"
    path.write_text(
        header + "@data\n" + "".join(",".join(map(str, [*row, c])) + "\n" for row, c in zip(X.tolist(), y, strict=True))
    )
    theirs, _ = loadarff(path)
    ours = read_arff(path, "class", 30)
    np.testing.assert_array_equal(ours.X, np.column_stack([theirs[f"v{j}"] for j in range(4)]).astype(np.float32))
    np.testing.assert_array_equal(ours.classes, theirs["class"].astype(int))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0, 255 ,'b'", "0,b", "among rows 1 to 3, some have no 3 values"),
        ("0, 255 ,'b'", "0,1,2,b", "among rows 1 to 3, some have no 3 values"),
        ("0, 255 ,'b'", "{0 1}", "among rows 1 to 3, some have no 3 values"),
        ("0, 255 ,'b'", "0,?,b", "among rows 1 to 3: could not convert string '\\?'"),
        ("1,2,a", "red,2,a", "among rows 1 to 3: could not convert string 'red'"),
        ("'class' {a, 'b'}", "label real", "has no column 'class'; it has pixel1, pixel 2, label"),
        ("@DATA", "", "has no rows; it is cut short, or no ARFF file"),
        ("@ATTRIBUTE pixel1 real", "<html>", "among rows 1 to 3, some have no 2 values"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(read, old, new, message):
    with pytest.raises(DataFileError, match=message):
        read(SMALL.replace(old, new))


def test_what_is_no_arff_at_all_is_refused(read):
    for content, message in (
        (b"", "has no column 'class'; it has none"),
        (b"@relation r\n", "has no column 'class'; it has none"),
        (b"@attribute class {a}\n@data\n", "has no rows"),
        (b"\xff\xfe\x00", "cannot be read as ARFF"),
        (b"PAR1" + bytes(100), "has no column 'class'; it has none"),
        (b"1," * 600_000, "cannot be read as ARFF: it has a line of 1048576 characters or more"),
    ):
        with pytest.raises(DataFileError, match=message):
            read(content)


def test_too_many_rows_are_refused_before_they_fill_the_memory(read):
    with pytest.raises(DataFileError, match="has more than 2 rows"):
        read(SMALL, max_rows=2)
