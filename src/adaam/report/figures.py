"""Pictures of clusters and charts of records, drawn with matplotlib and written as files."""

from pathlib import Path
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, IntVector
from adaam.bench.exhibit import spread_plane
from adaam.files import atomic_file
from adaam.palette import cluster_color, cluster_colors
from adaam.report.charts import Chart, Panel
from adaam.report.summary import method_colors

MAX_POINTS = 20_000  # points drawn; more would hide one another
IMAGES_PER_CLUSTER = 12
FORMATS = (".png", ".pdf", ".svg")
# File formats of charts, with their metadata. Without the date, equal records give equal files.
CHART_FORMATS: dict[str, dict[str, None] | None] = {"png": None, "pdf": {"CreationDate": None}}
PANEL_INCHES = (4.6, 3.6)


def check_drawable(target: str) -> None:
    """Raise if the picture could not be drawn."""
    if Path(target).suffix.lower() not in FORMATS:
        raise ValueError(f"{target}: pictures are {', '.join(FORMATS)}.")
    new_figure(1, 1)


def new_figure(width: float, height: float) -> Any:
    """Return a figure that uses neither a window system nor global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Pictures need matplotlib. Install it with: pip install adaam[plot]") from error
    return Figure(figsize=(width, height), layout="constrained")


def draw_clusters(
    X: FloatMatrix, Z: FloatMatrix, labels: IntVector, centers: FloatMatrix, shape: tuple[int, int] | None, target: str
) -> None:
    """Draw mapped rows Z to a file, coloured by cluster and, if rows X are images, some images of each cluster."""
    figure = new_figure(13 if shape else 7, 6.5)
    left, *right = figure.subfigures(1, 2, width_ratios=[1, 1]) if shape else [figure]
    axes = left.subplots()
    shown = np.random.default_rng(0).permutation(len(Z))[:MAX_POINTS]
    points = spread_plane(Z, centers)[shown]
    axes.scatter(*points.T, c=cluster_colors(labels[shown]), s=60 / np.log10(len(shown) + 10), alpha=0.7, linewidths=0)
    for cluster in range(len(centers)):
        members = points[labels[shown] == cluster]
        if len(members):
            _write_number(axes, cluster, np.median(members, axis=0), ha="center")
    axes.set(title=f"{len(Z)} rows in the chosen metric", xticks=[], yticks=[])
    axes.set_xlabel("the plane in which the cluster centres spread most", fontsize=9)
    if shape:
        _draw_images(right[0], X, Z, labels, centers, shape)
    with atomic_file(target) as stream:
        figure.savefig(stream, format=Path(target).suffix[1:].lower(), dpi=130)


def _draw_images(
    figure: Any, X: FloatMatrix, Z: FloatMatrix, labels: IntVector, centers: FloatMatrix, shape: tuple[int, int]
) -> None:
    grid = figure.subplots(len(centers), IMAGES_PER_CLUSTER, squeeze=False)
    figure.suptitle("rows of each cluster, from its centre (left) outwards", fontsize=11)
    distances = np.linalg.norm(Z - centers[labels], axis=1)
    for cluster, row in enumerate(grid):
        members = np.flatnonzero(labels == cluster)
        # Evenly spaced ranks by distance, so that the picture shows borderline members too.
        ranked = members[np.argsort(distances[members])]
        chosen = ranked[np.linspace(0, len(ranked) - 1, min(len(ranked), IMAGES_PER_CLUSTER)).astype(int)]
        for place, axes in enumerate(row):
            axes.set_axis_off()
            if place < len(chosen):
                axes.imshow(np.asarray(X[chosen[place]]).reshape(shape), cmap="gray_r")
        _write_number(row[0], cluster, (-0.35, 0.5), xycoords="axes fraction", ha="right")


def _write_number(axes: Any, cluster: int, place: Any, **style: Any) -> None:
    """Write a cluster's number in a box of its colour."""
    box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": cluster_color(cluster), "lw": 1.5}
    axes.annotate(str(cluster), place, va="center", fontsize=9, bbox=box, **style)


def write_chart(chart: Chart, folder: Path) -> None:
    """Draw a figure and write it in every format, each file atomically."""
    n_columns = min(2, len(chart.panels))
    n_rows = -(-len(chart.panels) // n_columns)
    width, height = PANEL_INCHES
    # Room for the legend, which would hide points inside the axes.
    figure = new_figure(width * n_columns + 2.2, height * n_rows)
    figure.suptitle(chart.title)
    # One colour per method, whatever its preparation, in every figure; other series get the colours after these.
    places = method_colors()
    handles: dict[str, Any] = {}
    grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axes, panel in zip(grid, chart.panels, strict=False):
        handles |= _draw_panel(axes, panel, places)
    for axes in grid[len(chart.panels) :]:
        axes.set_axis_off()
    if len(handles) > 1:
        figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8)
    for ending, metadata in CHART_FORMATS.items():
        with atomic_file(folder / f"{chart.name}.{ending}") as stream:
            figure.savefig(stream, format=ending, dpi=150, metadata=metadata)


def _draw_panel(axes: Any, panel: Panel, places: dict[str, int]) -> dict[str, Any]:
    handles = {}
    for series in panel.series:
        color = cluster_color(places.setdefault(series.group, len(places)))
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
