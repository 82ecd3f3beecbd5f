"""Every form of data file through the commands: it is listed with its path, and gives the same scores."""

import dataclasses
import gzip
import struct

import numpy as np
import pytest
from scipy.io import savemat
from sklearn.datasets import load_digits

from adaam.bench.datasets import DATASETS
from adaam.bench.records import read_records
from adaam.cli import main

N = 120
PLAN = "rounds = 2\n[experiments.accuracy]\ndatasets = ['{}']\nmethods = ['kmeans', 'adaam']\n"


@pytest.fixture(scope="module")
def images():
    digits = load_digits()
    return digits.images[:N].astype(np.uint8), digits.target[:N]


def as_npz(folder, images, classes):
    np.savez_compressed(folder / "coil20.npz", X=images.reshape(N, -1), y=classes, image_shape=(8, 8))


def by_columns(images):
    return images.transpose(0, 2, 1).reshape(N, -1)


def as_mat(folder, images, classes):
    savemat(folder / "COIL20.mat", {"fea": by_columns(images), "gnd": classes[:, None] + 1})


def as_newer_mat(folder, images, classes):
    h5py = pytest.importorskip("h5py")
    path = folder / "coil20.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["fea"], file["gnd"] = by_columns(images).T, classes[None, :] + 1.0
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def idx(array, magic):
    return struct.pack(f">I{array.ndim}I", magic, *array.shape) + array.astype(np.uint8).tobytes()


def as_idx(folder, images, classes):
    for part, rows in (("train", slice(0, 100)), ("t10k", slice(100, N))):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(images[rows], 0x0803))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(classes[rows], 0x0801))


def as_packed_idx(folder, images, classes):
    as_idx(folder, images, classes)
    for path in list(folder.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("coil20", as_npz),
        ("coil20", as_mat),
        ("coil20", as_newer_mat),
        ("mnist", as_idx),
        ("mnist", as_packed_idx),
    ],
)
@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_every_form_is_listed_and_gives_the_same_scores(tmp_path, images, name, write, monkeypatch, capsys):
    folder, out = tmp_path / "data", tmp_path / "out"
    folder.mkdir()
    small = dataclasses.replace(DATASETS[name], n=N, d=64, c=10, image_shape=(8, 8))
    monkeypatch.setitem(DATASETS, name, small)
    monkeypatch.setattr("adaam.cli.reproduce.all_charts", lambda records: [])
    write(folder, *images)
    files = sorted(map(str, folder.iterdir()))

    assert main(["datasets", "--data", str(folder)]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{name}: "))
    assert line.startswith(f"{name}: {N} images of 8x8, 10 classes (here: ")
    assert sorted(line.split("here: ")[1].removesuffix(")").split(", ")) == files

    scores = []
    for chosen in (name, "reference"):
        (tmp_path / "plan.toml").write_text(PLAN.format(chosen))
        np.savez(folder / "reference.npz", X=images[0].reshape(N, -1), y=images[1])
        options = ["--data", str(folder), "--plan", str(tmp_path / "plan.toml"), "--out", str(out / chosen)]
        assert main(["reproduce", *options]) == 0
        found = read_records(out / chosen / "records.jsonl").records
        scores.append([(each["method"], each["acc"], each["nmi"]) for each in found if each["kind"] == "score"])
    assert len(scores[0]) == 4
    assert scores[0] == scores[1]
