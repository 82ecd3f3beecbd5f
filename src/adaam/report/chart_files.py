"""Charts drawn with matplotlib and written as files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adaam.files import atomic_file
from adaam.palette import cluster_color
from adaam.report.charts import Chart, Panel
from adaam.report.figures import new_figure
from adaam.report.summary import method_colors

# Without the date, equal records give equal files.
FORMATS: dict[str, dict[str, None] | None] = {"png": None, "pdf": {"CreationDate": None}}
PANEL_INCHES = (4.6, 3.6)


def write_chart(chart: Chart, folder: Path) -> list[Path]:
    """Draw a figure and write it in every format, each file whole or not at all."""
    figure = draw(chart)
    paths = []
    for ending, metadata in FORMATS.items():
        paths.append(folder / f"{chart.name}.{ending}")
        with atomic_file(paths[-1]) as stream:
            figure.savefig(stream, format=ending, dpi=150, metadata=metadata)
    return paths


def draw(chart: Chart) -> Any:
    """Draw a figure with matplotlib."""
    n_columns = min(2, len(chart.panels))
    n_rows = -(-len(chart.panels) // n_columns)
    width, height = PANEL_INCHES
    # Room for the legend, which would hide points inside the axes.
    figure = new_figure(width * n_columns + 2.2, height * n_rows)
    figure.suptitle(chart.title)
    # One colour a method, its preparations alike, in every figure; what is no method comes after them.
    places = method_colors()
    for series in (series for panel in chart.panels for series in panel.series):
        places.setdefault(series.group, len(places))
    grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid, chart.panels, strict=False):
        handles |= _draw_panel(axes, panel, places)
    for axes in grid[len(chart.panels) :]:
        axes.set_axis_off()
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8)
    return figure


def _draw_panel(axes: Any, panel: Panel, places: Mapping[str, int]) -> dict[str, Any]:
    handles = {}
    for series in panel.series:
        color = cluster_color(places[series.group])
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
    if panel.y_range:
        axes.set_ylim(*panel.y_range)
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
