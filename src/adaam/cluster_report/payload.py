"""Data for the scripts of a clustering's page, as JSON; long arrays of numbers as base64."""

from base64 import b64encode
from typing import Any

import numpy as np

from adaam.cluster_report.data import CountCurve, ReportData, ReportLayer
from adaam.palette import COLORS, OUTLIER
from adaam.webpage import plane_points, sprite

STEPS = 65535  # quantization of a number in [0, 1], stored in two bytes


def payload(data: ReportData) -> dict[str, Any]:
    """Return what the scripts of the page draw and list."""
    of = slice(None) if data.holds_all_labels else data.shown
    return {
        "title": data.title,
        "n": data.n_rows,
        "clusters": data.n_clusters,
        "summaries": [each.summary for each in data.cards],
        "palette": COLORS,
        "outlier": OUTLIER,
        "first_row": data.first_row,
        "holds_all": data.holds_all_labels,
        "rows": _numbers(data.shown, "<i4"),
        "labels": _numbers(data.labels[of], "<i4" if data.n_clusters > 32767 else "<i2"),
        "strengths": _numbers(np.round(data.strengths[of] * STEPS), "<u2"),
        "outlier_scores": _numbers(np.round(data.outlier_scores[of] * STEPS), "<u2"),
        "ids": None if data.ids is None else [data.ids[i] for i in np.arange(data.n_rows)[of]],
        "layers": [_layer(each, of) for each in data.layers],
        "spaces": {"neighbours": plane_points(data.neighbor_map), "plane": plane_points(data.plane)},
        "columns": [
            {"name": each.name, "values": list(map(_value, each.values)), "number": each.is_number}
            for each in data.columns
        ],
        "texts": None if data.texts is None else list(data.texts),
        "images": None if data.images is None else sprite(data.images),
        "count": None if data.choice.count is None else _count(data.choice.count),
    }


def _numbers(values: Any, kind: str) -> dict[str, str]:
    """Return numbers as base64, which a script decodes in one step."""
    return {"kind": kind[1:], "bytes": b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()}


def _layer(each: ReportLayer, of: Any) -> dict[str, Any]:
    n = len(each.sizes)
    colors = {theme: [each.color(cluster, theme) for cluster in range(n)] for theme in COLORS}
    return {"labels": _numbers(each.labels[of], "<i4"), "colors": colors, "n": n}


def _value(value: float | str | None) -> float | str | None:
    if value is None or isinstance(value, str):
        return value
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _count(each: CountCurve) -> dict[str, Any]:
    return {
        "n": each.n_clusters,
        "low": each.low,
        "high": each.high,
        "modularity": [round(value, 4) for value in each.modularity],
        "separateness": [None if value is None else round(value, 4) for value in each.separateness],
    }
