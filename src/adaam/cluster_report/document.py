"""The page of a clustering put together: a pure function of what it shows."""

from base64 import b64encode
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam._version import __version__
from adaam.cluster_report.data import ClusterCard, CountCurve, ReportData, ReportLayer
from adaam.cluster_report.markup import card, choice, hue, layer_tree, outliers, percent, plural
from adaam.palette import COLORS, OUTLIER
from adaam.webpage import columns_of, data_url, plotly_script, png, policy, script_json, shared_asset, sheet

SHARED_SCRIPTS = ("dom.js", "plot.js")
SCRIPTS = ("data.js", "table.js", "map.js", "main.js")
# Up to so many rows the page holds label, strength and outlier score of each, for the download.
MAX_LABELLED = 1_000_000
LEAST_NAMED = 0.025  # share of the rows from which on a cluster's number fits into the bar of sizes
STEPS = 65535  # of a number in [0, 1], kept in two bytes


def page(data: ReportData, charting: str | None = None) -> str:
    """Return the page as text.

    Parameters
    ----------
    data : ReportData
        What it shows.
    charting : str, default=None
        The charting library; None means plotly.js, as the package `plotly` carries it.
    """
    charting = plotly_script() if charting is None else charting
    first = shared_asset("theme.js")
    later = "\n".join([*map(shared_asset, SHARED_SCRIPTS), *map(_asset, SCRIPTS)])
    return Template(_asset("report.html")).substitute(
        policy=escape(policy((first, charting, later))),
        style=shared_asset("base.css") + _asset("report.css"),
        theme_script=first,
        charting=charting,
        script=later,
        version=escape(__version__),
        title=escape(data.title),
        headline=headline(data),
        lead=_lead(data),
        sampled=f'<p class="sampled">{sampled(data)}</p>' if data.is_sampled else "",
        facts="\n".join(f"<li><b>{value}</b><span>{name}</span></li>" for name, value in _facts(data)),
        sizes="\n".join(_size(each, data.n_rows) for each in sorted(data.cards, key=_size_of, reverse=True)),
        cards_hint=_cards_hint(data),
        cards="\n".join(card(data, each) for each in data.cards),
        layers_link='<a href="#layers">Layers</a>' if data.layers else "",
        layers=_layers(data),
        outliers=outliers(data),
        rows_hint=_rows_hint(data),
        choice=choice(data.choice),
        data=script_json(payload(data)),
    )


def headline(data: ReportData) -> str:
    """Return what was found, in a line."""
    return f"{plural(data.n_clusters, 'cluster')} in {plural(data.n_rows, 'row')}"


def sampled(data: ReportData) -> str:
    """Say that not all rows are shown, and what the others take part in."""
    kept = "; sizes, effects" + (" and the download of labels" if data.n_rows <= MAX_LABELLED else "")
    return (
        f"Map and table show {len(data.shown):,} of {data.n_rows:,} rows, drawn at random from each cluster{kept} "
        "count all of them."
    )


def payload(data: ReportData) -> dict[str, Any]:
    """Return what the scripts of the page draw and list."""
    is_all = data.n_rows <= MAX_LABELLED
    of = slice(None) if is_all else data.shown
    images = None
    if data.images is not None:
        n, height, width = data.images.shape[:3]
        n_columns = columns_of(n, height, width)
        url = data_url(png(sheet(data.images, n_columns)))
        images = {"url": url, "columns": n_columns, "height": height, "width": width}
    return {
        "title": data.title,
        "n": data.n_rows,
        "clusters": data.n_clusters,
        "palette": COLORS,
        "outlier": OUTLIER,
        "holds_all": is_all,
        "rows": _numbers(data.shown, "<i4"),
        "labels": _numbers(data.labels[of], "<i4" if data.n_clusters > 32767 else "<i2"),
        "strengths": _numbers(np.round(data.strengths[of] * STEPS), "<u2"),
        "outlier_scores": _numbers(np.round(data.outlier_scores[of] * STEPS), "<u2"),
        "ids": None if data.ids is None else [data.ids[i] for i in np.arange(data.n_rows)[of]],
        "layers": [_layer(each, of) for each in data.layers],
        "spaces": {"neighbours": _points(data.neighbor_map), "plane": _points(data.plane)},
        "columns": [
            {"name": each.name, "values": list(map(_value, each.values)), "number": each.is_number}
            for each in data.columns
        ],
        "texts": None if data.texts is None else list(data.texts),
        "images": images,
        "count": None if data.choice.count is None else _count(data.choice.count),
    }


def _asset(name: str) -> str:
    return (files("adaam.cluster_report") / "assets" / name).read_text(encoding="utf-8")


def _numbers(values: Any, kind: str) -> dict[str, str]:
    """Return numbers as bytes that a script reads back at once."""
    return {"kind": kind[1:], "bytes": b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()}


def _layer(each: ReportLayer, of: Any) -> dict[str, Any]:
    return {"labels": _numbers(each.labels[of], "<i4"), "colors": list(each.colors), "n": len(each.sizes)}


def _points(plane: FloatMatrix) -> list[list[float]]:
    """Two lists of coordinates between -1 and 1: the plane has no unit of its own."""
    size = float(np.abs(plane).max(initial=0.0)) or 1.0
    return [[round(float(value), 4) for value in axis / size] for axis in plane.T]


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


def _lead(data: ReportData) -> str:
    what = "text" if data.texts is not None else "image" if data.images is not None else "row"
    said = f"{plural(data.n_rows, what)}, {plural(data.n_features, 'feature')} each, grouped without labels."
    largest, smallest = max(data.cards, key=_size_of), min(data.cards, key=_size_of)
    if data.n_clusters > 1:
        said += f" The largest cluster has {largest.size:,} rows, the smallest {smallest.size:,}."
    return said


def _size_of(each: ClusterCard) -> int:
    return each.size


def _facts(data: ReportData) -> list[tuple[str, str]]:
    count = data.choice.count
    clusters = f"{data.n_clusters}"
    if count is not None and count.low != count.high:
        clusters += f" <small>({count.low} to {count.high})</small>"
    facts = [
        ("clusters", clusters),
        ("mean strength", f"{float(data.strengths.mean()):.2f}" if data.n_rows else "–"),
        ("rows below strength 0.5", percent(float((data.strengths < 0.5).mean()))),
    ]
    if (data.labels < 0).any():
        facts.append(("rows in no cluster", f"{int((data.labels < 0).sum()):,}"))
    if data.layers:
        facts.append(("layers", str(len(data.layers))))
    return facts


def _size(each: ClusterCard, n_rows: int) -> str:
    words = escape(f"Cluster {each.label}: {plural(each.size, 'row')}" + (f". {each.summary}" if each.summary else ""))
    shown = each.label if each.size > LEAST_NAMED * n_rows else ""
    return (
        f'<a class="hue" {hue(each.label, f"flex-grow:{each.size}")} href="#cluster-{each.label}" title="{words}" '
        f'aria-label="{words}"><span>{shown}</span></a>'
    )


def _cards_hint(data: ReportData) -> str:
    said = []
    if any(each.effects for each in data.cards):
        said.append(
            "Bars: how far the cluster's mean lies from that of all other rows, in standard deviations (Cohen's d); "
            "0.8 is called large."
        )
    if any(each.words or each.categories for each in data.cards):
        said.append("Words and categories: the most telling ones, with the share of the cluster's rows that have them.")
    if any(each.firmness is not None for each in data.cards):
        said.append("Firmness tells how separate a cluster is from what it would merge with: 1 is apart, 0 one cloud.")
    said.append("Exemplars are its most typical rows; borderline rows belong to it least.")
    said.append("Neighbouring clusters come with the membership they share.")
    return " ".join(said)


def _layers(data: ReportData) -> str:
    if not data.layers:
        return ""
    return (
        '<section id="layers" aria-labelledby="layers-title"><h2 id="layers-title">Layers</h2><p class="hint">The same '
        "rows in coarser and finer clusters: the top line is the coarsest layer, below each cluster are the finer ones "
        "it consists of. A click colours the map by that layer and highlights the cluster.</p>"
        f"{layer_tree(data)}</section>"
    )


def _rows_hint(data: ReportData) -> str:
    if not data.is_sampled:
        return f"All {data.n_rows:,} rows. Strength says how firmly a row belongs to its cluster, from 0 to 1."
    rest = (
        f"The download of all labels holds all {data.n_rows:,}."
        if data.n_rows <= MAX_LABELLED
        else "Labels of all rows are in the model's labels_."
    )
    return f"The {len(data.shown):,} rows shown on the map. {rest}"
