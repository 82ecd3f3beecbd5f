"""Data sets from OpenML, downloaded, verified and stored as .npz like all others.

OpenML stores them as ARFF. Only what image sets need of it is read: dense rows of numbers and one column of classes.
"""

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

import numpy as np

from adaam._typing import FloatMatrix
from adaam.bench.data_files import Data, DataFileError, read_npz, row_major
from adaam.bench.datasets import DATASETS
from adaam.bench.download import DownloadError, Network, checksum, download, read_text
from adaam.files import atomic_file
from adaam.untrusted import UnreadableFileError, reading

SERVER = "https://www.openml.org"
UMIST_ORIGINAL = (112, 92)

# ARFF.
BLOCK_LINES = 1000
MAX_LINE = 1 << 20
ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)", re.IGNORECASE)


def area_weights(n_from: int, n_to: int) -> FloatMatrix:
    """Return the (n_to, n_from) matrix of averages over areas: the share of each new pixel that each old one covers."""
    old = np.arange(n_from)[None, :]
    starts = np.arange(n_to)[:, None] * (n_from / n_to)
    ends = starts + n_from / n_to
    covered = np.minimum(ends, old + 1) - np.maximum(starts, old)
    return np.asarray(np.maximum(covered, 0.0) * (n_to / n_from))


def resized(X: FloatMatrix, shape: tuple[int, int], new_shape: tuple[int, int]) -> FloatMatrix:
    """Return images, one a row, at another size: each new pixel is the average of the area it covers.

    For images of integers it is rounded to a whole grey level.
    """
    height, width = (area_weights(*sizes) for sizes in zip(shape, new_shape, strict=True))
    rows = (height @ X.reshape(len(X), *shape) @ width.T).reshape(len(X), -1)
    return (np.rint(rows) if X.dtype.kind in "iu" else rows).astype(X.dtype)


def upright(X: FloatMatrix, shape: tuple[int, int]) -> FloatMatrix:
    """Return images of this shape in row-major order, whether they were stored by rows or by columns.

    Adjacent pixels are similar, also those one line apart. So of the two candidates for the length of a line, width and
    height, the right one is that for which pixels this far apart differ less.
    """
    height, width = shape
    lines = (X.reshape(len(X), -1, step).astype(np.float32) for step in (width, height))
    by_rows, by_columns = (np.abs(np.diff(each, axis=1)).mean() for each in lines)
    return X if by_rows <= by_columns else row_major(X, shape)


@dataclass(frozen=True, slots=True)
class Source:
    """A data set of OpenML, and what is done to its rows."""

    data_id: int
    n_columns: int  # without the classes
    target: str  # the column of the classes, used if OpenML cannot be reached
    prepare: Callable[[FloatMatrix], FloatMatrix] = lambda X: X


def _from_zero(X: FloatMatrix) -> FloatMatrix:
    """Scale grey levels from OpenML's -1..1 to 0..1, since scaling rows to unit length depends on the zero."""
    if X.min() >= 0 and X.max() <= 1:
        return X
    if X.min() < -1 or X.max() > 1:
        raise DataFileError(f"usps: has values from {X.min():g} to {X.max():g}; they should be from -1 to 1.")
    return ((X + np.float32(1)) / np.float32(2)).astype(np.float32)


SOURCES = {
    "mnist": Source(554, 784, "class"),
    "usps": Source(41082, 256, "int0", _from_zero),
    "umist": Source(41084, 112 * 92, "class", lambda X: resized(upright(X, UMIST_ORIGINAL), UMIST_ORIGINAL, (40, 40))),
}


def fetch(name: str, folder: Path, network: Network, server: str = SERVER) -> Path:
    """Fetch a data set into a folder, unless it is there, and return its file.

    Finished steps are not repeated: a verified download is kept, the beginning of one is resumed, and the .npz appears
    when it is complete. NAME.source.json beside it states its origin and the SHA-256 checksums.
    """
    target, arff = folder / f"{name}.npz", folder / f"{name}.arff"
    if target.is_file():
        _verify(target)
        return target
    origin: dict[str, Any] = {"url": "put here by hand", "md5": None, "target": SOURCES[name].target}
    try:
        origin = describe(name, network, server)
        if not arff.is_file() or checksum(arff, "md5") != origin["md5"]:
            download(origin["url"], arff, origin["md5"], network)
    except DownloadError as error:
        # A file that was put here by hand is only checked by its numbers of rows, columns and classes.
        if not arff.is_file():
            raise DownloadError(
                f"{name}: {error} By hand: download the ARFF file of {SERVER}/d/{SOURCES[name].data_id} with a "
                f"browser, save it as {arff}, and give the same command again."
            ) from error
        network.say(f"{name}: OpenML does not answer; {arff} is read without its checksum")
    network.say(f"{name}: has come; its {arff.stat().st_size / 1e6:.0f} MB of text are read and kept as {target.name}")
    _convert(name, arff, target, origin)
    arff.unlink()
    return target


def describe(name: str, network: Network, server: str = SERVER) -> dict[str, Any]:
    """Ask OpenML for a data set's address, its MD5 checksum, and the column of the classes."""
    url = f"{server.rstrip('/')}/api/v1/json/data/{SOURCES[name].data_id}"
    text = read_text(url, network)
    try:
        told = json.loads(text)["data_set_description"]
        address, md5 = str(told["url"]), str(told["md5_checksum"]).lower()
        target = str(told["default_target_attribute"])
    except (ValueError, KeyError, TypeError) as error:
        raise DownloadError(f"{url}: is not a description of a data set: {text[:60]!r}.") from error
    if not re.fullmatch("[0-9a-f]{32}", md5):
        raise DownloadError(f"{url}: gives the checksum {md5[:60]!r}, which is no MD5 checksum.")
    if urlsplit(url).scheme == "https" and urlsplit(address).scheme != "https":
        raise DownloadError(f"{url}: sends us to {address}, which is not protected by https. Not fetched.")
    return {"url": address, "md5": md5, "target": target}


def _convert(name: str, arff: Path, target: Path, origin: dict[str, Any]) -> None:
    source, listed = SOURCES[name], DATASETS[name]
    arrays = read_arff(arff, origin["target"], max_rows=listed.n)
    n, d, c = (*arrays.X.shape, len(np.unique(arrays.classes)))
    if (n, d, c) != (listed.n, source.n_columns, listed.c):
        raise DataFileError(
            f"{arff}: has {n} rows of {d} in {c} classes, but {name} on OpenML has {listed.n} rows of "
            f"{source.n_columns} in {listed.c}. Remove it, and fetch it anew."
        )
    content = io.BytesIO()
    np.savez_compressed(content, X=source.prepare(arrays.X), y=arrays.classes, image_shape=np.array(listed.image_shape))
    provenance = {
        "data_id": source.data_id,
        **origin,
        "arff_bytes": arff.stat().st_size,
        "arff_sha256": checksum(arff, "sha256"),
        "npz_sha256": hashlib.sha256(content.getbuffer()).hexdigest(),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    # Written before the .npz, so that an interruption cannot leave a .npz without a checksum.
    with atomic_file(target.with_suffix(".source.json")) as stream:
        stream.write(json.dumps(provenance, indent=1).encode())
    with atomic_file(target) as stream:
        stream.write(content.getbuffer())


def _verify(target: Path) -> None:
    """Check that a file can be read and, if it was fetched, that it has not changed since."""
    read_npz(target)
    noted = target.with_suffix(".source.json")
    if noted.is_file():
        try:
            is_same = json.loads(noted.read_bytes())["npz_sha256"] == checksum(target, "sha256")
        except (ValueError, TypeError, KeyError):
            is_same = False
        if not is_same:
            what = f"is not as it was fetched, by the checksum in {noted.name}. Remove both to fetch it anew"
            raise DataFileError(f"{target}: {what}.")


def read_arff(path: Path, target: str, max_rows: int) -> Data:
    """Read a dense ARFF file; more rows than `max_rows` are an error, raised before they fill the memory.

    All columns but the target must be numeric: uint8 if all values are integers in 0..255, float32 otherwise. Classes
    are integers if all of them are, strings otherwise.
    """
    blocks: list[FloatMatrix] = []
    words: list[str] = []
    with reading(path, "ARFF", DataFileError), path.open(encoding="utf-8", newline=None) as stream:
        lines = _lines(stream)
        header = takewhile(lambda line: not line.lower().startswith("@data"), lines)
        names = [found[1].strip("'\"") for found in map(ATTRIBUTE.match, header) if found]
        if target not in names:
            raise DataFileError(f"{path}: has no column {target!r}; it has {', '.join(names[:5]) or 'none'}, ...")
        column = names.index(target) - len(names)
        others = [place for place in range(len(names)) if place != names.index(target)]
        while block := list(islice(lines, BLOCK_LINES)):
            rows = f"rows {len(words) + 1} to {len(words) + len(block)}"
            if len(words) + len(block) > max_rows:
                raise DataFileError(f"{path}: has more than {max_rows} rows, so it is another data set.")
            if {line.count(",") + 1 for line in block} != {len(names)}:
                raise DataFileError(f"{path}: among {rows}, some have no {len(names)} values, one a column.")
            # Split from the end, where the classes usually are: splitting a whole line costs more than parsing it.
            words += [line.rsplit(",", -column)[column].strip().strip("'\"") for line in block]
            try:
                values = np.loadtxt(block, delimiter=",", comments=None, usecols=others, ndmin=2)
            except ValueError as error:
                raise DataFileError(f"{path}: among {rows}: {error}.") from error
            with np.errstate(invalid="ignore"):
                small = values.astype(np.uint8)
            blocks.append(small if np.array_equal(small, values) else values.astype(np.float32))
    if not blocks:
        raise DataFileError(f"{path}: has no rows; it is cut short, or no ARFF file.")
    X, y = np.concatenate(blocks), np.array(words)
    try:
        whole = y.astype(np.float64).astype(np.int64)
    except ValueError:
        return Data(X, y)
    return Data(X, whole if np.array_equal(whole, y.astype(np.float64)) else y)


def _lines(stream: TextIO) -> Iterator[str]:
    """Yield the lines that are neither empty nor comments."""
    while line := stream.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise UnreadableFileError(f"it has a line of {MAX_LINE} characters or more")
        if (line := line.strip()) and not line.startswith("%"):
            yield line
