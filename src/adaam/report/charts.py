"""The paper's figures, redrawn from records: what is drawn is worked out first, then drawn."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adaam.bench.datasets import title_of
from adaam.files import atomic_file
from adaam.report.figures import new_figure
from adaam.report.summary import Record, Summary, distinct, method_title, summaries

FORMATS = ("png", "pdf")
PANEL_INCHES = (4.6, 3.6)
Style = Literal["line", "bars"]


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together, with half the height of their error bars."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...]
    dashed: bool = False


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


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: panels side by side under one title."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def all_charts(records: Sequence[Record]) -> list[Chart]:
    """Return every figure that the records fill."""
    found = summaries(records)
    charts = [
        iterations_chart(found),
        magnitudes_chart(records),
        neighbors_chart(found),
        times_chart(found),
    ]
    return [chart for chart in charts if chart.panels]


def iterations_chart(found: Sequence[Summary]) -> Chart:
    """Fig. 1a: accuracy against the number of passes."""
    plain = [each for each in found if each.setting.n_rows is None and each.setting.n_neighbors is None]
    panels = _panels(
        plain, lambda each: each.setting.n_iter, lambda each: 100 * each.average, lambda each: 100 * each.spread
    )
    return Chart(
        "fig1a",
        "Accuracy against passes of AdaAM",
        tuple(Panel(title_of(name), "passes", "accuracy (%)", series, whole_x=True) for name, series in panels),
    )


def magnitudes_chart(records: Iterable[Record]) -> Chart:
    """Fig. 1b: histogram of |Δ| before pruning, the cut marked."""
    panels = []
    for record in distinct(records, "histogram"):
        counts, top = record["counts"], float(record["top"])
        centers = (np.arange(len(counts)) + 0.5) * top / len(counts)
        kept = sum(count for center, count in zip(centers, counts, strict=True) if center >= record["cut"])
        series = Series("entries", tuple(centers.tolist()), tuple(map(float, counts)), ())
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
    panels = _panels(plain, lambda each: each.k, lambda each: 100 * each.average, lambda each: 100 * each.spread)
    return Chart(
        "fig2",
        "Accuracy against the size of the neighbourhood",
        tuple(Panel(title_of(name), "k", "accuracy (%)", series, whole_x=True) for name, series in panels),
    )


def times_chart(found: Sequence[Summary]) -> Chart:
    """Fig. 3: time of a fit against the number of rows, semi-logarithmic."""
    plain = [each for each in found if each.setting.n_rows is not None and each.setting.n_neighbors is None]
    panels = _panels(plain, lambda each: each.n, lambda each: each.fit_seconds, lambda each: 0.0)
    return Chart(
        "fig3",
        "Time of a fit against the number of rows",
        tuple(Panel(title_of(name), "rows", "seconds", series, log_y=True) for name, series in panels),
    )


def _panels(
    found: Sequence[Summary],
    x: Callable[[Summary], float],
    y: Callable[[Summary], float],
    spread: Callable[[Summary], float],
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
                tuple(y(points[place]) for place in sorted(points)),
                tuple(spread(points[place]) for place in sorted(points)),
                dashed=preparation == "literature",
            )
            for (method, preparation), points in lines.items()
            if len(points) > 1
        )
        if series:
            panels.append((dataset, series))
    return panels


def _line(each: Summary) -> tuple[str, str]:
    return each.setting.method, each.setting.preparation


def write_chart(chart: Chart, folder: Path) -> list[Path]:
    """Draw a figure and write it in every format, each file whole or not at all."""
    figure = draw(chart)
    paths = []
    for ending in FORMATS:
        path = folder / f"{chart.name}.{ending}"
        # Without the date, equal records give equal files.
        metadata = {"CreationDate": None} if ending == "pdf" else None
        with atomic_file(path) as stream:
            figure.savefig(stream, format=ending, dpi=150, metadata=metadata)
        paths.append(path)
    return paths


def draw(chart: Chart) -> Any:
    """Draw a figure with matplotlib."""
    n_columns = min(2, len(chart.panels))
    n_rows = -(-len(chart.panels) // n_columns)
    width, height = PANEL_INCHES
    # Room for the legend, which would hide points inside the axes.
    figure = new_figure(width * n_columns + 2.2, height * n_rows)
    figure.suptitle(chart.title)
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    names = list(dict.fromkeys(series.name for panel in chart.panels for series in panel.series))
    colors = _colors(names)
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid.ravel(), chart.panels, strict=False):
        handles |= _draw_panel(axes, panel, colors)
    for axes in grid.ravel()[len(chart.panels) :]:
        axes.set_axis_off()
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8)
    return figure


def _draw_panel(axes: Any, panel: Panel, colors: dict[str, Any]) -> dict[str, Any]:
    handles = {}
    for series in panel.series:
        color = colors[series.name]
        if panel.style == "bars":
            step = series.x[1] - series.x[0] if len(series.x) > 1 else 1.0
            handles[series.name] = axes.bar(series.x, series.y, width=step, color=color)
            continue
        dashes = "--" if series.dashed else "-"
        (handles[series.name],) = axes.plot(series.x, series.y, dashes, color=color, marker="o", markersize=3.5)
        low, high = (np.add(series.y, sign * np.array(series.spread)) for sign in (-1, 1))
        if np.any(high > low):
            axes.fill_between(series.x, low, high, color=color, alpha=0.12, linewidth=0)
    if panel.log_y:
        axes.set_yscale("log")
    if panel.whole_x:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.mark is not None:
        place, words = panel.mark
        axes.axvline(place, color="black", linewidth=1, linestyle=":")
        axes.annotate(words, (place, 0.95), (4, 0), xycoords=("data", "axes fraction"), textcoords="offset points")
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    axes.grid(alpha=0.25)
    return handles


def _colors(names: Sequence[str]) -> dict[str, Any]:
    """One colour a method, its preparations alike."""
    from matplotlib import colormaps

    methods = list(dict.fromkeys(name.split(" (")[0] for name in names))
    palette = colormaps["tab10" if len(methods) <= 10 else "tab20"]
    return {name: palette(methods.index(name.split(" (")[0]) % palette.N) for name in names}
