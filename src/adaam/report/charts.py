"""The paper's figures as data: what is drawn is worked out from records here, and drawn elsewhere."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from adaam.bench.datasets import title_of
from adaam.report.summary import Record, Summary, distinct, method_title, summaries, timed_alone

Style = Literal["line", "bars"]


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
    style: Style = "line"
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
        iterations_chart(found),
        magnitudes_chart(records),
        neighbors_chart(found),
        times_chart(summaries(alone), machine),
    ]
    return [chart for chart in charts if chart.panels]


def iterations_chart(found: Sequence[Summary]) -> Chart:
    """Fig. 1a: accuracy against the number of passes."""
    plain = [each for each in found if each.setting.n_rows is None and each.setting.n_neighbors is None]
    panels = (
        Panel(title_of(name), "passes", "accuracy (%)", series, whole_x=True, y_range=_points_around(series))
        for name, series in _panels(plain, lambda each: each.setting.n_iter)
    )
    return Chart("fig1a", "Accuracy against passes of AdaAM", tuple(panels))


def magnitudes_chart(records: Iterable[Record]) -> Chart:
    """Fig. 1b: histogram of |Δ| before pruning, the cut marked."""
    panels = []
    for record in distinct(records, "histogram"):
        counts, top = record["counts"], float(record["top"])
        centers = (np.arange(len(counts)) + 0.5) * top / len(counts)
        kept = sum(count for center, count in zip(centers, counts, strict=True) if center >= record["cut"])
        series = Series("entries", tuple(centers.tolist()), tuple(map(float, counts)), (), group="AdaAM")
        cut = (float(record["cut"]), f"cut: about {100 * kept / sum(counts):.1f} % are kept")
        panels.append(
            Panel(title_of(record["dataset"]), "|Δ| before pruning", "entries", (series,), "bars", log_y=True, mark=cut)
        )
    return Chart("fig1b", "Magnitudes of the final affinity", tuple(panels))


def neighbors_chart(found: Sequence[Summary]) -> Chart:
    """Fig. 2: accuracy against the size of the neighbourhood."""
    varied = {
        (each.setting.dataset, *_line(each))
        for each in found
        if each.setting.n_neighbors is not None and each.setting.n_rows is None
    }
    plain = [
        each
        for each in found
        if each.setting.n_rows is None and each.setting.n_iter == 1 and (each.setting.dataset, *_line(each)) in varied
    ]
    panels = (
        Panel(title_of(name), "k", "accuracy (%)", series, whole_x=True)
        for name, series in _panels(plain, lambda each: each.k)
    )
    return Chart("fig2", "Accuracy against the size of the neighbourhood", tuple(panels))


def times_chart(found: Sequence[Summary], machine: str = "") -> Chart:
    """Fig. 3: time of a fit against the number of rows, semi-logarithmic, of fits that ran alone on one machine."""
    plain = [each for each in found if each.setting.n_rows is not None and each.setting.n_neighbors is None]
    where = f" ({machine})" if machine else ""
    panels = (
        Panel(title_of(name) + where, "rows", "seconds", series, log_y=True)
        for name, series in _panels(plain, lambda each: each.n, lambda each: (each.fit_seconds, 0.0))
    )
    return Chart("fig3", "Time of a fit against the number of rows", tuple(panels))


def _accuracy(each: Summary) -> tuple[float, float]:
    return 100 * each.average, 100 * each.spread


def _panels(
    found: Sequence[Summary],
    x: Callable[[Summary], float],
    y_and_spread: Callable[[Summary], tuple[float, float]] = _accuracy,
) -> list[tuple[str, tuple[Series, ...]]]:
    """Group by data set and line; lines of a single point are left out, and data sets without a line."""
    groups: dict[str, dict[tuple[str, str], dict[float, Summary]]] = {}
    for each in found:
        # Of two cases at the same place the one of more rounds tells more.
        points = groups.setdefault(each.setting.dataset, {}).setdefault(_line(each), {})
        place = x(each)
        if place not in points or points[place].rounds < each.rounds:
            points[place] = each
    panels = []
    for dataset, lines in groups.items():
        several = {method for method, preparation in lines if preparation == "literature"}
        series = tuple(
            Series(
                method_title(method) + (f" ({preparation})" if method in several else ""),
                tuple(sorted(points)),
                tuple(y_and_spread(points[place])[0] for place in sorted(points)),
                tuple(y_and_spread(points[place])[1] for place in sorted(points)),
                dashed=preparation == "literature",
                group=method_title(method),
            )
            for (method, preparation), points in lines.items()
            if len(points) > 1
        )
        if series:
            panels.append((dataset, series))
    return panels


def _points_around(series: Sequence[Series]) -> tuple[float, float]:
    """A range of at least five points of accuracy, lest changes of a tenth fill the picture."""
    low = min(y - spread for each in series for y, spread in zip(each.y, each.spread, strict=True))
    high = max(y + spread for each in series for y, spread in zip(each.y, each.spread, strict=True))
    middle, half = (low + high) / 2, max((high - low) * 0.55, 2.5)
    return (middle - half, middle + half)


def _line(each: Summary) -> tuple[str, str]:
    return each.setting.method, each.setting.preparation
