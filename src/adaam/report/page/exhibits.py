"""Exhibits as what the page's script draws: numbers as JSON, pictures as PNG."""

from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, IntMatrix
from adaam.bench.datasets import title_of
from adaam.bench.exhibit import Exhibit
from adaam.report.page.provenance import facts_of
from adaam.webpage import columns_of, data_url, diverging_palette, png, sheet, signed_bytes

N_QUERIES = 5  # rows whose neighbours are shown before any is chosen
N_CONFUSIONS = 3
FACTS = ("adaam", "commit", "started", "machine", "libraries")


def payload(exhibit: Exhibit) -> dict[str, Any]:
    """Return all the page shows of a data set."""
    about = exhibit.about
    n_rows, height, width = exhibit.tiles.shape
    return {
        "name": about["dataset"],
        "title": title_of(about["dataset"]),
        "about": {name: about[name] for name in ("n", "d", "c", "k", "is_image", "seed", "n_starts")},
        "scores": {name: round(100 * about[name], 2) for name in ("acc", "nmi", "ari")},
        "choice": {name: about["chosen"][name] for name in ("metric", "preparation", "head", "learned")},
        "chosen_scores": {name: round(100 * about["chosen"][name], 2) for name in ("acc", "nmi", "ari")},
        "facts": [fact for fact in facts_of(about["session"]) if fact[0] in FACTS],
        "rows": exhibit.rows.tolist(),
        "classes": exhibit.classes.tolist(),
        "clusters": exhibit.clusters.tolist(),
        "before": _points(exhibit.before),
        "after": _points(exhibit.after),
        "chosen": _points(exhibit.chosen),
        "chosen_clusters": exhibit.chosen_clusters.tolist(),
        "nearest_chosen": exhibit.nearest_chosen.tolist(),
        "same_chosen": same_class(exhibit, exhibit.nearest_chosen),
        "chosen_confusion": exhibit.chosen_confusion.tolist(),
        "chosen_confusions": confusions(exhibit.chosen_confusion),
        "nearest_before": exhibit.nearest_before.tolist(),
        "nearest_after": exhibit.nearest_after.tolist(),
        "same_before": same_class(exhibit, exhibit.nearest_before),
        "same_after": same_class(exhibit, exhibit.nearest_after),
        "queries": queries(n_rows, about["seed"]),
        "tiles": _sprite(exhibit.tiles, None),
        "components": _sprite(signed_bytes(exhibit.components), diverging_palette()),
        "patterns": _sprite(signed_bytes(exhibit.patterns), diverging_palette()),
        "weights": [] if about["is_image"] else np.round(exhibit.components[:, 0, :], 4).tolist(),
        "features": exhibit.features.tolist(),
        "confusion": exhibit.confusion.tolist(),
        "confusions": confusions(exhibit.confusion),
        "tile": {"height": height, "width": width},
    }


def same_class(exhibit: Exhibit, nearest: IntMatrix) -> float:
    """Return the share of neighbours that are of their row's class, in per cent."""
    return round(100 * float((exhibit.classes[nearest] == exhibit.classes[:, None]).mean()), 1)


def queries(n_rows: int, seed: int) -> list[int]:
    """Draw rows by chance, so that none is shown for its looks."""
    chosen = np.random.default_rng(seed).choice(n_rows, min(N_QUERIES, n_rows), replace=False)
    return [int(place) for place in chosen]


def confusions(counts: IntMatrix) -> list[list[int]]:
    """Return the largest errors: class, the class whose cluster took its rows, and how many."""
    errors = counts * (1 - np.eye(len(counts), dtype=counts.dtype))
    order = np.argsort(-errors, axis=None, kind="stable")[:N_CONFUSIONS]
    found = [(*divmod(int(place), len(counts)), int(errors.flat[place])) for place in order]
    return [[row, column, count] for row, column, count in found if count]


def _points(plane: FloatMatrix) -> list[list[float]]:
    """Two lists of coordinates between -1 and 1: the plane has no unit of its own."""
    size = float(np.abs(plane).max()) or 1.0
    return [[round(float(value), 4) for value in axis / size] for axis in plane.T]


def _sprite(tiles: IntMatrix, palette: IntMatrix | None) -> dict[str, Any]:
    n, height, width = tiles.shape
    n_columns = columns_of(n, height, width)
    return {"url": data_url(png(sheet(tiles, n_columns), palette)), "columns": n_columns, "count": n}
