"""Apply a saved model with NumPy alone: what another program, or another language, has to do."""

import json
import zipfile

import numpy as np


def read_map(path):
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        unit = header["model"]["fitted"]["preparation_"]["params"]["row_scaling"] == "unit"
        with archive.open("model.components_.npy") as components, archive.open("model.mean_.npy") as mean:
            return np.load(components), np.load(mean), unit


def transform(X, components, mean, unit):
    if unit:  # rows to unit length; zero rows stay zero
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        X = X / np.where(lengths == 0, 1, lengths)
    return (X - mean) @ components.T
