"""Exhibits as what the page's script draws: numbers as JSON, pictures as PNG."""

from typing import Any

import numpy as np

from adaam._typing import IntMatrix
from adaam.bench.datasets import title_of
from adaam.bench.exhibit import Exhibit
from adaam.report.reproduction.provenance import facts_of
from adaam.webpage import diverging_palette, plane_points, signed_bytes, sprite

N_QUERIES = 5  # rows whose neighbours are shown before any is chosen
N_CONFUSIONS = 3
LISTS = ("rows", "classes", "clusters", "chosen_clusters", "features", "confusion", "chosen_confusion")
SPACES = ("before", "after", "chosen")
FACTS = ("started", "adaam", "commit", "machine", "libraries")


def payload(exhibit: Exhibit) -> dict[str, Any]:
    """Return all the page shows of a data set."""
    about, facts = exhibit.about, facts_of(exhibit.about["session"])
    n_rows, height, width = exhibit.tiles.shape
    return {
        "name": about["dataset"],
        "title": title_of(about["dataset"]),
        "about": {name: about[name] for name in ("n", "d", "c", "k", "is_image", "seed", "n_starts")},
        "scores": {name: round(100 * about[name], 2) for name in ("acc", "nmi", "ari")},
        "choice": {name: about["chosen"][name] for name in ("metric", "preparation", "head", "learned")},
        "chosen_scores": {name: round(100 * about["chosen"][name], 2) for name in ("acc", "nmi", "ari")},
        "facts": [(name, facts[name]) for name in FACTS],
        **{name: getattr(exhibit, name).tolist() for name in LISTS},
        **{space: plane_points(getattr(exhibit, space)) for space in SPACES},
        **{f"nearest_{space}": getattr(exhibit, f"nearest_{space}").tolist() for space in SPACES},
        **{f"same_{space}": same_class(exhibit, getattr(exhibit, f"nearest_{space}")) for space in SPACES},
        "chosen_confusions": confusions(exhibit.chosen_confusion),
        "queries": queries(n_rows, about["seed"]),
        "tiles": sprite(exhibit.tiles),
        "components": sprite(signed_bytes(exhibit.components), diverging_palette()),
        "patterns": sprite(signed_bytes(exhibit.patterns), diverging_palette()),
        "weights": [] if about["is_image"] else np.round(exhibit.components[:, 0, :], 4).tolist(),
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
