"""What a report shows of a fitted clusterer and the rows it was fitted to."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_is_fitted

from adaam._typing import FloatVector, IntVector
from adaam.cluster_report.cards import Clustering, cluster_cards, weakest_rows
from adaam.cluster_report.data import Choice, CountCurve, ReportData, ReportLayer
from adaam.cluster_report.description import description
from adaam.cluster_report.layout import discriminant_plane, neighbor_map, spread_draw
from adaam.cluster_report.pictures import image_bytes, images_that_fit
from adaam.prepare import unit_rows
from adaam.rows import ArrayRows
from adaam.selection import ClusterCount, Selection, Trial

MAX_SHOWN = 6000  # points that a browser draws smoothly as SVG
N_OUTLIERS = 12
MAX_UNNAMED = 50  # unnamed features x0, x1, ... that are described; if more, they are an embedding or pixels


def report_data(
    model: Any,
    X: Any,
    *,
    names: Sequence[str] | None = None,
    images: Any = None,
    texts: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    table: Any = None,
    columns: Mapping[str, Any] | None = None,
    title: str = "Clusters",
) -> ReportData:
    """Gather what the page of a clustering shows.

    Parameters
    ----------
    model : AdaAMClustering
        A fitted clusterer.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows it was fitted to.
    names : sequence of str, default=None
        Names of the features; None means those of X or of the model, or x0, x1, ...
    images : array-like of shape (n_samples, height, width[, 3]) or (height, width), default=None
        An image for each row; two numbers mean that the features of X are its pixels.
    texts : sequence of str, default=None
        A text for each row.
    ids : sequence, default=None
        Names of the rows; None means their numbers.
    table : DataFrame or mapping of str to array-like of shape (n_samples,), default=None
        The table that X was encoded from, as `TableEncoder.own_units` returns it: its columns are shown in place of
        the features of X, in their own units.
    columns : mapping of str to array-like of shape (n_samples,), default=None
        Further columns to colour by and to list, of numbers or strings, that were not clustered by. The columns of the
        table, or the features, that separate clusters best follow them, up to twelve in all.
    title : str, default="Clusters"
        Title of the page, such as the name of the file.

    Returns
    -------
    ReportData
        A plain value. Of more than 6,000 rows, a random sample is shown in map and table; sizes, effects and labels
        are those of all rows.
    """
    check_is_fitted(model)
    known = _clustering(model)
    names = _checked_names(model, X, names)
    n, given = len(known.labels), dict(columns or {})
    own = None if table is None else {str(name): table[name] for name in table}
    _check_lengths(n, [("X", X), ("texts", texts), ("ids", ids), *given.items(), *(own or {}).items()])
    rng = np.random.default_rng(0)
    fit = images_that_fit(images, n, np.shape(X)[1])
    shown = _shown(known, min(MAX_SHOWN, fit), rng)
    Z = np.asarray(model.transform(_rows_like_fitted(model, X, shown)))
    # The map shows rows as close as the clusterer finds them.
    points = unit_rows(Z) if getattr(model, "distance_", "") == "cosine" else Z
    plane = discriminant_plane(Z, known.labels[shown])
    pictures = None if images is None else image_bytes(images, X, shown)
    # Pixels are described by images, coordinates of an embedding by texts or not at all, other features by name.
    is_named = names is not None or (texts is None and np.shape(X)[1] <= MAX_UNNAMED)
    has_features = images is None and is_named
    told, listed = description(X if has_features else None, names, texts, own, given, known, shown)
    layers = tuple(_layer(each, known) for each in getattr(model, "cluster_layers_", ()))
    cards = cluster_cards(known, shown, Z, told, pictures, _firmness(layers, known.labels))
    return ReportData(
        title=str(title),
        n_features=int(np.shape(X)[1]),
        labels=known.labels,
        strengths=known.strengths,
        outlier_scores=known.outlier_scores,
        shown=shown,
        neighbor_map=neighbor_map(points, known.labels[shown], plane, rng),
        plane=plane,
        cards=cards,
        choice=_choice(model.selection_),
        ids=None if ids is None else tuple(str(each) for each in ids),
        columns=listed,
        names_features=has_features or table is not None,
        texts=None if texts is None else tuple(str(texts[row]) for row in shown),
        images=pictures,
        layers=layers,
        tree={key: tuple(children) for key, children in getattr(model, "cluster_tree_", {}).items()},
        outliers=_outliers(known),
    )


def _clustering(model: Any) -> Clustering:
    if model.memberships_ is None:
        raise ValueError(
            "The model keeps no memberships of its rows, since they did not fit in memory or are on a cluster. Fit a "
            "sample of them, say 100,000, and report on that."
        )
    return Clustering(
        np.asarray(model.labels_),
        np.clip(np.asarray(model.probabilities_, dtype=np.float64), 0.0, 1.0),
        np.clip(np.asarray(model.outlier_scores_, dtype=np.float64), 0.0, 1.0),
        csr_array(model.memberships_),
        int(model.n_clusters_),
    )


def _checked_names(model: Any, X: Any, names: Sequence[str] | None) -> Sequence[str] | None:
    if names is None:
        of_frame = list(getattr(X, "columns", []))
        if of_frame and all(isinstance(name, str) for name in of_frame):
            return of_frame
        found = getattr(model, "feature_names_in_", None)
        return None if found is None else [str(name) for name in found]
    if len(names) != np.shape(X)[1]:
        raise ValueError(f"names has {len(names)} entries, but X has {np.shape(X)[1]} features: pass one a feature.")
    return names


def _check_lengths(n: int, given: Sequence[tuple[str, Any]]) -> None:
    for name, values in given:
        if values is None:
            continue
        length = values.shape[0] if hasattr(values, "shape") else len(values)
        if length != n:
            raise ValueError(
                f"{name} has {length} rows, but the model was fitted to {n}. Pass the rows it was fitted to, in their "
                "order."
            )


def _shown(known: Clustering, n_rows: int, rng: np.random.Generator) -> IntVector:
    """Rows shown in detail: some of each cluster, including the weakest rows and the outliers."""
    drawn = spread_draw(known.labels, n_rows, rng)
    return np.unique(np.concatenate([drawn, *map(np.asarray, weakest_rows(known)), _outliers(known)]).astype(np.int64))


def _outliers(known: Clustering) -> tuple[int, ...]:
    order = np.argsort(-known.outlier_scores, kind="stable")[:N_OUTLIERS]
    return tuple(int(row) for row in order if known.outlier_scores[row] > 0)


def _rows_like_fitted(model: Any, X: Any, rows: IntVector) -> Any:
    """Some rows, with column names if the model was fitted with names; these were checked to be the same rows."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    part = csr_array(X)[rows] if issparse(X) else np.asarray(X)[rows]
    names = getattr(model, "feature_names_in_", None)
    if names is None or issparse(part):
        return part
    return ArrayRows(part, "X", [str(name) for name in names])


def _layer(layer: Any, known: Clustering) -> ReportLayer:
    labels, n = np.asarray(layer.labels), int(layer.n_clusters)
    firmness = np.atleast_1d(np.asarray(layer.firmness, dtype=np.float64))
    colors, shades = _colors(labels, n, known)
    return ReportLayer(
        labels=labels,
        sizes=tuple(int(size) for size in layer.sizes),
        firmness=tuple(float(each) for each in firmness) if len(firmness) == n else (),
        colors=colors,
        shades=shades,
    )


def _colors(labels: IntVector, n: int, known: Clustering) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give each cluster of a layer the colour of the cluster it shares most rows with; further parts get shades."""
    both = (labels >= 0) & (known.labels >= 0)
    shared = np.zeros((n, known.n_clusters))
    np.add.at(shared, (labels[both], known.labels[both]), 1)
    colors, shades = shared.argmax(axis=1), np.zeros(n, dtype=np.int64)
    mine, theirs = linear_sum_assignment(-shared)
    plain = {int(a) for a, b in zip(mine, theirs, strict=True) if shared[a, b] > 0}
    colors[mine] = np.where(shared[mine, theirs] > 0, theirs, colors[mine])
    used = np.zeros(known.n_clusters, dtype=np.int64)
    for cluster in np.argsort(-shared.sum(axis=1), kind="stable"):
        if int(cluster) not in plain:
            used[colors[cluster]] += 1
            shades[cluster] = used[colors[cluster]]
    colors[shared.sum(axis=1) == 0] = -1
    return tuple(map(int, colors)), tuple(map(int, shades))


def _firmness(layers: Sequence[ReportLayer], labels: IntVector) -> FloatVector | None:
    """Firmness of the model's clusters, if they are one of the layers."""
    for layer in layers:
        if layer.firmness and np.array_equal(layer.labels, labels):
            return np.array(layer.firmness)
    return None


def _choice(selection: Selection) -> Choice:
    best, starts = selection.best, selection.starts
    told = f"{len(starts)} starts agree with the clusters: mean adjusted Rand index {np.mean(starts or 0.0):.2f}."
    agreeing = [told] if starts else []
    return Choice(
        metric=f"{best.metric}, preparation “{best.preparation}”, {best.n_components} columns",
        head=best.head,
        headings=("preparation", "metric", "head", "columns", "modularity", "separation", "agreement with the chosen"),
        trials=tuple(map(_trial, selection.trials)),
        chosen=next(place for place, trial in enumerate(selection.trials) if trial.chosen),
        steps=(*selection.steps, *agreeing),
        count=None if selection.count is None else _curve(selection.count),
    )


def _trial(trial: Trial) -> tuple[str, ...]:
    separation = "–" if trial.separation is None else f"{trial.separation:.3f}"
    scores = (f"{trial.modularity:.3f}", separation, f"{trial.agreement:.2f}")
    return (trial.preparation, trial.metric, trial.head, str(trial.n_components), *scores)


def _curve(count: ClusterCount) -> CountCurve:
    """Scores of each number of clusters; the merge that leaves c of them is the split that makes c + 1."""
    separateness = [None, *(1.0 - min(1.0, float(ratio)) for ratio in count.separations)]
    told = [None if each is None or not np.isfinite(each) else each for each in separateness]
    return CountCurve(
        count.n_clusters,
        count.low,
        count.high,
        tuple(float(each) for each in count.modularities),
        tuple(told[: len(count.modularities)]),
        tuple(count.steps),
    )
