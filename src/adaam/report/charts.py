"""The paper's figures as data: what is drawn is worked out from records here, and drawn elsewhere."""

from collections.abc import Callable, Iterable, Sequence
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
    group: str = ""  # what lines of one colour have in common: the method


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
    mark: tuple[float, str] | None = None  # a vertical line and what it says
    y_range: tuple[float, float] | None = None  # None: as the values need


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: panels side by side under one title."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def all_charts(records: Sequence[Record]) -> list[Chart]:
    """Return every figure that the records fill."""
    found = summaries(records)
    alone, machine = timed_alone(records)
    charts = [
        Chart("fig1a", "Accuracy against passes of AdaAM", iterations_panels(found)),
        Chart("fig1b", "Magnitudes of the final affinity", magnitudes_panels(records)),
        Chart("fig2", "Accuracy against the size of the neighbourhood", neighbors_panels(found)),
        Chart("fig3", "Time of a fit against the number of rows", times_panels(summaries(alone), machine)),
    ]
    return [chart for chart in charts if chart.panels]


def iterations_panels(found: Sequence[Summary]) -> tuple[Panel, ...]:
    """Fig. 1a: accuracy against the number of passes."""
    plain = [each for each in found if each.setting.n_rows is None and each.setting.n_neighbors is None]
    panels = _panels(plain, "passes", lambda each: each.setting.n_iter)
    return tuple(replace(panel, y_range=_range_around(panel.series)) for panel in panels)


def magnitudes_panels(records: Iterable[Record]) -> tuple[Panel, ...]:
    """Fig. 1b: histogram of |Δ| before pruning, the cut marked."""
    panels = []
    for record in distinct(records, "histogram"):
        counts, cut = np.array(record["counts"], dtype=float), float(record["cut"])
        centers = (np.arange(len(counts)) + 0.5) * float(record["top"]) / len(counts)
        kept = 100 * counts[centers >= cut].sum() / counts.sum()
        series = Series("entries", tuple(centers.tolist()), tuple(counts.tolist()), (), group="AdaAM")
        mark = (cut, f"cut: about {kept:.1f} % are kept")
        title = title_of(record["dataset"])
        panels.append(Panel(title, "|Δ| before pruning", "entries", (series,), "bars", log_y=True, mark=mark))
    return tuple(panels)


def neighbors_panels(found: Sequence[Summary]) -> tuple[Panel, ...]:
    """Fig. 2: accuracy against the size of the neighbourhood, where it was varied."""
    whole = [each for each in found if each.setting.n_rows is None]
    varied = {(each.setting.dataset, each.setting.row) for each in whole if each.setting.n_neighbors is not None}
    plain = [each for each in whole if each.setting.n_iter == 1 and (each.setting.dataset, each.setting.row) in varied]
    return _panels(plain, "k", lambda each: each.k)


def times_panels(found: Sequence[Summary], machine: str = "") -> tuple[Panel, ...]:
    """Fig. 3: time of a fit against the number of rows, semi-logarithmic, of fits that ran alone on one machine."""
    plain = [each for each in found if each.setting.n_rows is not None and each.setting.n_neighbors is None]
    panels = _panels(plain, "rows", lambda each: each.n, "seconds", lambda each: (each.fit_seconds, 0.0))
    where = f" ({machine})" if machine else ""
    return tuple(replace(panel, title=panel.title + where, whole_x=False, log_y=True) for panel in panels)


def _panels(
    found: Sequence[Summary],
    x_label: str,
    x: Callable[[Summary], float],
    y_label: str = "accuracy (%)",
    y_and_spread: Callable[[Summary], tuple[float, float]] = lambda each: (100 * each.average, 100 * each.spread),
) -> tuple[Panel, ...]:
    """A panel a data set, a line a method and preparation; lines of a single point are left out."""
    panels = []
    for dataset, group in by_dataset(found).items():
        lines: dict[tuple[str, str], dict[float, Summary]] = {}
        for each in group:
            points = lines.setdefault(each.setting.row, {})
            # Of two cases at the same place the one of more rounds tells more.
            points[x(each)] = max(points.get(x(each), each), each, key=lambda one: one.rounds)
        several = {method for method, preparation in lines if preparation == "literature"}
        series = []
        for (method, preparation), points in lines.items():
            if len(points) > 1:
                title = method_title(method)
                name = f"{title} ({preparation})" if method in several else title
                places = tuple(sorted(points))
                values = (y_and_spread(points[place]) for place in places)
                y, spread = zip(*values, strict=True)
                series.append(Series(name, places, y, spread, preparation == "literature", title))
        if series:
            panels.append(Panel(title_of(dataset), x_label, y_label, tuple(series), whole_x=True))
    return tuple(panels)


def _range_around(series: Sequence[Series]) -> tuple[float, float]:
    """A range of at least five points of accuracy, lest changes of a tenth fill the picture."""
    y, spread = (np.concatenate([getattr(each, name) for each in series]) for name in ("y", "spread"))
    low, high = float((y - spread).min()), float((y + spread).max())
    middle, half = (low + high) / 2, max((high - low) * 0.55, 2.5)
    return (middle - half, middle + half)
