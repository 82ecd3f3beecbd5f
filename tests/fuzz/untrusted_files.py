"""Every kind of file that the library reads: valid files to start from, how they are mutated, and their reader.

A mutant is handled well if it is refused with `UnreadableFileError` (file and cause named), or read as numbers. A model
must also give exactly the same results as before, unless the mutation has valid checksums (`sealed`).
"""

import gzip
import io
import json
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.io import savemat
from scipy.sparse import csr_array, save_npz
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline

import adaam
from adaam.bench.data_files import read_idx_pair, read_mat, read_npz
from adaam.bench.datasets import Data
from adaam.bench.exhibit import make_exhibit, read_exhibit, write_exhibit
from adaam.bench.openml import read_arff
from adaam.bench.plan import PlanError, read_plan
from adaam.bench.records import line_of, read_records
from adaam.cli.tables import array_rows
from adaam.report.charts import all_charts
from adaam.report.tables import RENDERERS, all_tables
from adaam.rows import RowSource, open_rows, read_all
from adaam.tables import TableEncoder, read_frame
from adaam.untrusted import UnreadableFileError
from fuzz.mutations import changed_archive, changed_array, changed_bytes, changed_json, changed_text

X, Y = load_iris(return_X_y=True)
Content = dict[str, bytes]  # the files of a mutant, by their names
REFUSALS = (UnreadableFileError, PlanError, FileNotFoundError)
PLAN = """title = "tiny"
starts = 2
rounds = 6
[experiments.accuracy]
datasets = ["digits"]
methods = ["adaam", "knn"]
preparations = ["reference"]
n_neighbors = [3, 6]
[experiments.magnitudes]
kind = "histogram"
datasets = ["digits"]
methods = ["adaam"]
quick = false
"""
MODELS = {
    "adaam": adaam.AdaAM(3),
    "row-blocks": adaam.AdaAM(3, pairs=adaam.RowBlocks(n_blocks=2)),
    "settings": adaam.AdaAM(3, preparation=adaam.Preparation("none", 3), affinity=adaam.AdaptiveAffinity(rank=2.0)),
    "lpp": adaam.LPP(2, affinity=adaam.KNNAffinity(n_neighbors=4)),
    "prepared": adaam.PreparedMetric("standard"),
    "pcan": adaam.PCAN(3),
    "can": adaam.CAN(2),
    "lsc": adaam.LSC(3, n_landmarks=30),
    "k-means": adaam.AdaAMClustering(3, head="k-means", learner=adaam.LPP(2)),
    "chosen": adaam.AdaAMClustering(3),
    "counted": adaam.AdaAMClustering("auto", head="graph", contamination=0.1),
    "table": make_pipeline(adaam.TableEncoder(kinds={"x0": "number"}), adaam.AdaAM(3)),
}


@dataclass(frozen=True)
class Kind:
    """A kind of file: valid files, a mutation with valid checksums (or None), and a reader."""

    group: str
    sound: Callable[[Path], list[Content]]
    sealed: Callable[[bytes, np.random.Generator], bytes] | None
    read: Callable[[Path], object]
    main: str = ""  # the file passed to the reader, if there are several


def outputs(model, rows=X):
    """Return the outputs of a model for rows, and its labels."""
    found = [model.transform(rows)] if hasattr(model, "transform") else []
    found += [model.predict(rows)] if hasattr(model, "predict") else []
    return [*found, model.labels_] if hasattr(model, "labels_") else found


def file_of(name, write):
    """Return a function that gives the content of a file which `write` writes."""

    def sound(folder):
        write(folder / name)
        return [{name: (folder / name).read_bytes()}]

    return sound


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def models(folder):
    made = []
    for name, model in MODELS.items():
        adaam.save(model.fit(X), folder / f"{name}.adaam")
        made.append({"model.adaam": (folder / f"{name}.adaam").read_bytes()})
    return made


def npy(path):
    np.save(path, X)


def npz(path):
    np.savez_compressed(path, X=X, y=Y, image_shape=np.array([2, 2]))


def mats(folder):
    made = []
    for options in ({}, {"do_compression": True}):
        savemat(folder / "rows.mat", {"fea": X, "gnd": Y[:, None].astype(float)}, **options)
        made.append({"rows.mat": (folder / "rows.mat").read_bytes()})
    return made


def hdf5(path):
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("fea", data=X.T, chunks=(2, 50), compression="gzip")
        file["gnd"] = Y[None, :]
    content = bytearray(path.read_bytes())
    content[:19] = b"MATLAB 7.3 MAT-file"
    path.write_bytes(content)


def idx(folder):
    images = struct.pack(">4I", 0x0803, 20, 4, 3) + bytes(range(240))
    labels = struct.pack(">2I", 0x0801, 20) + bytes(20)
    return [
        {"images": images, "labels": labels},
        {"images.gz": gzip.compress(images, mtime=0), "labels": labels},
    ]


def read_idx(folder):
    return read_idx_pair(next(folder.glob("images*")), folder / "labels")


def arff(path):
    header = (
        "@relation a\n" + "".join(f"@attribute c{j} real\n" for j in range(4)) + "@attribute class {0,1,2}\n@data\n"
    )
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X, Y, strict=True)]
    path.write_text(header + "\n".join(lines) + "\n")


def csv(path):
    path.write_text("a,b,c,d\n" + "".join(",".join(map(str, row)) + "\n" for row in X))


def parquet(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: X[:, j] for j, name in enumerate("abcd")}), path)


def zarrs(folder):
    import zarr

    made = []
    for version in (2, 3):
        place = folder / f"{version}"
        array = zarr.open(
            str(place / "rows.zarr"), mode="w", shape=X.shape, chunks=(40, 4), dtype="f8", zarr_format=version
        )
        array[:] = X
        made.append(files_in(place))
    return made


def records(folder):
    case = {"dataset": "digits", "method": "adaam", "preparation": "reference", "n_rows": None, "n_neighbors": None}
    size = {"n": 150, "d": 4, "c": 3, "k": 5, "n_iter": 1, "n_starts": 2, "versions": {"adaam": "0.1.0"}}
    made = [{"kind": "session", "versions": {"adaam": "0.1.0"}, "jobs": 1, "machine": "m", "started": "now"}]
    for method in ("adaam", "knn"):
        scores = {"acc": 0.5, "nmi": 0.5, "ari": 0.4, "fit_seconds": 0.1, "peak_bytes": 1000, "kind": "score"}
        made += [
            case | size | scores | {"method": method, "round": i, "seed": i, "n_iter": 1 + i % 2} for i in range(4)
        ]
    made.append(case | size | {"kind": "histogram", "counts": [3, 2, 1], "top": 1.0, "cut": 0.5, "seed": 0})
    made.append(case | {"kind": "skip", "method": "umap", "reason": "needs umap-learn", "seed": 0})
    content = b"".join(map(line_of, made))
    return [{"records.jsonl": content}, {"records.jsonl.gz": gzip.compress(content, mtime=0)}]


def sealed_records(content, rng):
    packed = content[:2] == b"\x1f\x8b"
    lines = (gzip.decompress(content) if packed else content).splitlines()
    place = int(rng.integers(len(lines)))
    record = json.loads(lines[place])
    record.pop("checksum")
    record = changed_json(record, rng)
    try:
        lines[place] = line_of(record).rstrip(b"\n")
    except ValueError:  # NaN and empty records cannot get a checksum
        lines[place] = json.dumps(record).encode()
    changed = b"\n".join(lines) + b"\n"
    return gzip.compress(changed, mtime=0) if packed else changed


def read_and_tabulate(path):
    """Read records and make the tables and charts of a report, without drawing."""
    found = read_records(path).records
    for table in all_tables(found):
        for render in RENDERERS.values():
            render(table)
    return all_charts(found)


def exhibits(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = make_exhibit(Data(X, Y, None), "flowers", n_starts=1)
    path = write_exhibit(made, folder)
    return [{path.name: path.read_bytes()}]


def plan(path):
    path.write_text(PLAN)


def rows_of(path):
    return read_all(open_rows(path))


def array_of_command(path):
    """Rows as the commands read them from an array file."""
    found = array_rows(str(path)).X
    return read_all(found) if isinstance(found, RowSource) else found


def table_of_command(path):
    """A table as the commands read it, with its columns as numbers."""
    frame = read_frame(path)
    return TableEncoder().fit(frame).transform(frame)


def sparse(path):
    save_npz(path, csr_array(X))


def jsonl(path):
    words = ("red", "green", "blue")
    rows = [{"a": row[0], "b": row[1], "c": words[label], "d": None} for row, label in zip(X, Y, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def nested_json(path):
    rows = [
        {"a": {"b": row[0], "c": {"d": row[1]}}, "v": row.tolist(), "w": ["x"] * label}
        for row, label in zip(X, Y, strict=True)
    ]
    path.write_text(json.dumps(rows))


def packed_csv(path):
    path.write_bytes(gzip.compress(("a,b kg\n" + "".join(f"{row[0]},{row[1]} kg\n" for row in X)).encode()))


def xlsx(path):
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["a", "b", "when", "word"])
    for row, label in zip(X[:40], Y, strict=False):
        sheet.append([float(row[0]), float(row[1]), "2024-01-0" + str(1 + label), "red" if label else "blue"])
    book.save(path)


def mixed_csv(path):
    words = ("red", "green", "blue")
    lines = [
        f"{i},{row[0]},{words[label]},2024-01-{1 + i % 28:02},{row[1]}"
        for i, (row, label) in enumerate(zip(X, Y, strict=True))
    ]
    path.write_text("id,size,colour,day,weight\n" + "\n".join(lines) + "\n")


def text_change(content, rng):
    return changed_text(content.decode("utf-8", errors="replace"), rng).encode()


def array_or_json(content, rng):
    """Change a file of a Zarr array: its metadata, or a chunk."""
    try:
        return json.dumps(changed_json(json.loads(content), rng)).encode()
    except ValueError:
        return changed_bytes(content, rng)


KINDS = {
    "model": Kind("models", models, changed_archive, adaam.load),
    ".npy": Kind("data files", file_of("rows.npy", npy), changed_array, rows_of),
    ".npz": Kind("data files", file_of("rows.npz", npz), changed_archive, read_npz),
    ".npz, commands": Kind("data files", file_of("rows.npz", npz), changed_archive, array_of_command),
    "sparse .npz": Kind("data files", file_of("rows.npz", sparse), changed_archive, array_of_command),
    ".npy, commands": Kind("data files", file_of("rows.npy", npy), changed_array, array_of_command),
    ".mat": Kind("data files", mats, None, read_mat),
    ".mat 7.3": Kind("data files", file_of("rows.mat", hdf5), None, read_mat),
    "IDX": Kind("data files", idx, None, read_idx, "."),
    "ARFF": Kind("data files", file_of("rows.arff", arff), text_change, lambda path: read_arff(path, "class", 1000)),
    ".csv": Kind("data files", file_of("rows.csv", csv), text_change, table_of_command),
    ".csv, mixed": Kind("data files", file_of("rows.csv", mixed_csv), text_change, table_of_command),
    ".jsonl": Kind("data files", file_of("rows.jsonl", jsonl), text_change, table_of_command),
    ".json": Kind("data files", file_of("rows.json", nested_json), text_change, table_of_command),
    ".csv.gz": Kind("data files", file_of("rows.csv.gz", packed_csv), None, table_of_command),
    ".xlsx": Kind("data files", file_of("rows.xlsx", xlsx), changed_archive, table_of_command),
    ".parquet": Kind("data files", file_of("rows.parquet", parquet), None, rows_of),
    ".parquet, commands": Kind("data files", file_of("rows.parquet", parquet), None, table_of_command),
    "Zarr": Kind("data files", zarrs, array_or_json, rows_of, "rows.zarr"),
    "records": Kind("data files", records, sealed_records, read_and_tabulate),
    "exhibit": Kind("data files", exhibits, changed_archive, lambda path: read_exhibit(path.parent, "flowers")),
    "plan": Kind("data files", file_of("plan.toml", plan), text_change, read_plan),
}


def mutant(sound, kind, seed):
    """Return the mutant of a seed, the index of the valid file it is made from, and whether its checksums are valid."""
    rng = np.random.default_rng([sorted(KINDS).index(kind), seed])
    place = int(rng.integers(len(sound)))
    content = dict(sound[place])
    name = sorted(content)[int(rng.integers(len(content)))]
    sealed = KINDS[kind].sealed is not None and rng.random() < 0.5
    change = KINDS[kind].sealed if sealed else changed_bytes
    content[name] = change(content[name], rng)
    return content, place, sealed


def put(content, folder):
    """Write the files of a mutant."""
    for name, held in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held)


def mishandled(kind, folder, content, expected=None):
    """Read a mutant that was put into a folder; return what went wrong, or None.

    `expected` holds the outputs of the original model, if the mutant must not differ from it.
    """
    each = KINDS[kind]
    path = folder / (each.main or next(iter(content)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = each.read(path)
        except REFUSALS as error:
            return None if str(error) else "refused without a word"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if kind != "model":
            return None
        try:
            shown = outputs(found, np.zeros((3, found.n_features_in_)) + 0.5 if expected is None else X)
        except (ValueError, TypeError, ImportError) as error:
            # A setting that only a fit or a mapping reads, such as an engine that is not installed here.
            return None if expected is None else f"it was read, but {type(error).__name__}: {error}"
        except Exception as error:
            return f"it was read, but {type(error).__name__}: {error}"
    if expected is not None and not all(np.array_equal(a, b) for a, b in zip(shown, expected, strict=True)):
        return "another model was read"
    return None


def unsealed_bytes(content):
    """Bytes of all files together, for the name of a kept case."""
    stream = io.BytesIO()
    for name in sorted(content):
        stream.write(name.encode() + b"\0" + content[name])
    return stream.getvalue()
