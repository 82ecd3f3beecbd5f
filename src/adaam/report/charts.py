"""The paper's figures as data: computed from records here, drawn elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from adaam.bench.datasets import title_of
from adaam.report.summary import Record, Summary, by_dataset, distinct, method_title, summaries, timed_alone


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together, with half the height of their error bars."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...]
    dashed: bool = False
    group: str = ""  # the method; lines of one group share a colour


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    style: Literal["line", "bars"] = "line"
    log_y: bool = False
    whole_x: bool = False
    mark: tuple[float, str] | None = None  # position and label of a vertical line
    y_range: tuple[float, float] | None = None  # None: from the values


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: panels side by side under one title."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def all_charts(records: Sequence[Record]) -> list[Chart]:
    """Return every figure that the records have data for."""
    alone, machine = timed_alone(records)
    # Figures 1a and 2 are of whole data sets, Fig. 3 of their first rows.
    whole = [each for each in summaries(records) if each.setting.n_rows is None]
    parts = [each for each in summaries(alone) if each.setting.n_rows is not None]
    usual = [each for each in whole if each.setting.n_neighbors is None]
    varied = {each.setting[:3] for each in whole if each.setting.n_neighbors is not None}
    one_pass = [each for each in whole if each.setting.n_iter == 1 and each.setting[:3] in varied]
    passes = _panels(usual, "passes", lambda each: each.setting.n_iter)
    sizes = _panels(one_pass, "k", lambda each: each.k)
    usual = [each for each in parts if each.setting.n_neighbors is None]
    times = _panels(usual, "rows", lambda each: each.n, "seconds", lambda each: (each.fit_seconds, 0.0))
    where = f" ({machine})" if machine else ""
    times = [replace(each, title=each.title + where, whole_x=False, log_y=True) for each in times]
    charts = [
        ("fig1a", "Accuracy against passes of AdaAM", [replace(each, y_range=_range(each.series)) for each in passes]),
        ("fig1b", "Magnitudes of the final affinity", [_magnitudes(each) for each in distinct(records, "histogram")]),
        ("fig2", "Accuracy against the size of the neighbourhood", sizes),
        ("fig3", "Time of a fit against the number of rows", times),
    ]
    return [Chart(name, title, tuple(panels)) for name, title, panels in charts if panels]


def _magnitudes(record: Record) -> Panel:
    """Histogram of |Δ| before pruning, with the cut marked."""
    counts, cut = np.array(record["counts"], dtype=float), float(record["cut"])
    centers = (np.arange(len(counts)) + 0.5) * float(record["top"]) / len(counts)
    kept = 100 * counts[centers >= cut].sum() / counts.sum()
    series = Series("entries", tuple(centers.tolist()), tuple(counts.tolist()), (), group="AdaAM")
    mark = (cut, f"cut: about {kept:.1f} % are kept")
    title = title_of(record["dataset"])
    return Panel(title, "|Δ| before pruning", "entries", (series,), "bars", log_y=True, mark=mark)


def _panels(
    found: Sequence[Summary],
    x_label: str,
    x: Callable[[Summary], float],
    y_label: str = "accuracy (%)",
    y_and_spread: Callable[[Summary], tuple[float, float]] = lambda each: (100 * each.average, 100 * each.spread),
) -> list[Panel]:
    """One panel per data set, with one line per method and preparation; lines of a single point are left out."""
    panels = []
    for dataset, group in by_dataset(found).items():
        lines: dict[tuple[str, str], dict[float, Summary]] = {}
        for each in group:
            points = lines.setdefault(each.setting.row, {})
            # Of two cases at the same x, the one with more rounds counts.
            points[x(each)] = max(points.get(x(each), each), each, key=lambda one: one.rounds)
        several = {method for method, preparation in lines if preparation == "literature"}
        series = []
        for (method, preparation), points in lines.items():
            if len(points) > 1:
                title = method_title(method)
                name = f"{title} ({preparation})" if method in several else title
                places = tuple(sorted(points))
                y, spread = zip(*(y_and_spread(points[place]) for place in places), strict=True)
                series.append(Series(name, places, y, spread, preparation == "literature", title))
        if series:
            panels.append(Panel(title_of(dataset), x_label, y_label, tuple(series), whole_x=True))
    return panels


def _range(series: Sequence[Series]) -> tuple[float, float]:
    """A range of at least five points of accuracy, so that differences of a tenth do not fill the axis."""
    y, spread = (np.concatenate([getattr(each, name) for each in series]) for name in ("y", "spread"))
    low, high = float((y - spread).min()), float((y + spread).max())
    middle, half = (low + high) / 2, max((high - low) * 0.55, 2.5)
    return (middle - half, middle + half)
