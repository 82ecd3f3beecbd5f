"""What a report shows of a fitted clusterer and the rows it was fitted to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_is_fitted

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.cluster_profile import ClusterProfiles, cluster_profiles, in_words, superiority
from adaam.cluster_report.data import (
    Borderline,
    CardEffect,
    Choice,
    ClusterCard,
    CountCurve,
    ReportColumn,
    ReportData,
    ReportLayer,
)
from adaam.cluster_report.layout import discriminant_plane, neighbor_map, spread_draw
from adaam.cluster_report.pictures import cluster_pictures, image_bytes, images_that_fit
from adaam.cluster_words import WordEffect, cluster_words
from adaam.selection.report import Selection

MAX_SHOWN = 6000  # points that stay smooth as SVG
MAX_COLUMNS = 12
N_EFFECTS = 6
N_WORDS = 10
N_NEIGHBORS = 3
N_OUTLIERS = 12
N_EXAMPLES = {"pictures": 6, "lines": 4}


@dataclass(frozen=True, slots=True, eq=False)
class _Clustering:
    """What the model knows of each row."""

    labels: IntVector
    strengths: FloatVector
    outlier_scores: FloatVector
    memberships: csr_array
    n_clusters: int


def report_data(
    model: Any,
    X: Any,
    *,
    names: Sequence[str] | None = None,
    images: Any = None,
    texts: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
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
        A picture for each row; two numbers mean that the features of X are its pixels.
    texts : sequence of str, default=None
        A text for each row.
    ids : sequence, default=None
        What rows are called; None means their numbers.
    columns : mapping of str to array-like of shape (n_samples,), default=None
        Further columns to colour by and to list, of numbers or words. The features that tell clusters apart best follow
        them, up to twelve in all.
    title : str, default="Clusters"
        What the page is about, such as the name of the file.

    Returns
    -------
    ReportData
        A plain value. Of more than 6,000 rows some are drawn at random for map and table; sizes, effects and labels
        are those of all.
    """
    check_is_fitted(model)
    known = _clustering(model)
    names = _checked_names(model, X, names)
    n = len(known.labels)
    _check_lengths(n, X=X, texts=texts, ids=ids, **(columns or {}))
    given = list(columns or {})
    rng = np.random.default_rng(0)
    fit = images_that_fit(images, n, np.shape(X)[1])
    shown = _shown(known, min(MAX_SHOWN, fit), rng)
    Z = np.asarray(model.transform(_rows_of(X, shown)))
    plane = discriminant_plane(Z, known.labels[shown])
    pictures = None if images is None else image_bytes(images, X, shown)
    # Names make features worth telling; pixels and coordinates of an embedding are not.
    told = names is not None or (images is None and texts is None)
    values = csr_array(X) if issparse(X) else np.asarray(X)
    profiles = cluster_profiles(values, known.labels, known.n_clusters, names) if told else None
    words = None if texts is None else cluster_words(list(texts), known.labels, known.n_clusters, N_WORDS)
    layers = tuple(_layer(each, known) for each in getattr(model, "cluster_layers_", ()))
    cards = _cards(known, shown, Z, profiles, values, words, pictures, _firmness(layers, known.labels))
    features = [] if profiles is None else _telling(profiles, MAX_COLUMNS - len(given))
    return ReportData(
        title=str(title),
        n_features=int(np.shape(X)[1]),
        labels=known.labels,
        strengths=known.strengths,
        outlier_scores=known.outlier_scores,
        shown=shown,
        neighbor_map=neighbor_map(Z, known.labels[shown], plane, rng),
        plane=plane,
        cards=cards,
        choice=_choice(model.selection_),
        ids=None if ids is None else tuple(str(each) for each in ids),
        columns=(
            *(_column(name, (columns or {})[name], shown) for name in given[:MAX_COLUMNS]),
            *(_feature(profiles.names[j], values, j, shown) for j in features if profiles is not None),
        ),
        texts=None if texts is None else tuple(str(texts[row]) for row in shown),
        images=pictures,
        layers=layers,
        tree={key: tuple(children) for key, children in getattr(model, "cluster_tree_", {}).items()},
        outliers=_outliers(known),
    )


def _clustering(model: Any) -> _Clustering:
    if model.memberships_ is None:
        raise ValueError(
            "The model keeps no memberships of its rows, since they did not fit in memory or are on a cluster. Fit a "
            "sample of them, say 100,000, and report on that."
        )
    return _Clustering(
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


def _check_lengths(n: int, **given: Any) -> None:
    for name, values in given.items():
        if values is None:
            continue
        length = values.shape[0] if hasattr(values, "shape") else len(values)
        if length != n:
            raise ValueError(
                f"{name} has {length} rows, but the model was fitted to {n}. Pass the rows it was fitted to, in their "
                "order."
            )


def _shown(known: _Clustering, n_rows: int, rng: np.random.Generator) -> IntVector:
    """Rows with details: some of each cluster, the least firm ones and the outliers among them."""
    drawn = spread_draw(known.labels, n_rows, rng)
    return np.unique(np.concatenate([drawn, *map(np.asarray, _weakest(known)), _outliers(known)]).astype(np.int64))


def _weakest(known: _Clustering) -> list[IntVector]:
    """Rows of each cluster that belong to it least."""
    n = max(N_EXAMPLES.values())
    order = np.argsort(known.strengths, kind="stable")
    of = known.labels[order]
    return [order[of == cluster][:n] for cluster in range(known.n_clusters)]


def _outliers(known: _Clustering) -> tuple[int, ...]:
    order = np.argsort(-known.outlier_scores, kind="stable")[:N_OUTLIERS]
    return tuple(int(row) for row in order if known.outlier_scores[row] > 0)


def _rows_of(X: Any, rows: IntVector) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else csr_array(X)[rows] if issparse(X) else np.asarray(X)[rows]


def _cards(
    known: _Clustering,
    shown: IntVector,
    Z: FloatMatrix,
    profiles: ClusterProfiles | None,
    values: Any,
    words: list[list[WordEffect]] | None,
    pictures: Any,
    firmness: FloatVector | None,
) -> tuple[ClusterCard, ...]:
    labels = known.labels[shown]
    centers = _means(Z, labels, known.n_clusters)
    drawn = None if pictures is None else cluster_pictures(pictures, labels, known.n_clusters)
    n_examples = N_EXAMPLES["lines" if pictures is None else "pictures"]
    near = _neighbors(known, centers)
    weakest = _weakest(known)
    cards = []
    for cluster in range(known.n_clusters):
        members = known.labels == cluster
        effects = () if profiles is None else _effects(profiles, cluster, values, members)
        told = () if words is None else tuple(words[cluster])
        exemplars = _exemplars(known, shown, Z, centers[cluster], cluster, n_examples)
        cards.append(
            ClusterCard(
                label=cluster,
                size=int(members.sum()),
                strength=float(known.strengths[members].mean()) if members.any() else 0.0,
                firmness=None if firmness is None else float(firmness[cluster]),
                summary=", ".join(word.word for word in told[:4])
                or ("" if profiles is None else in_words(profiles.top(cluster))),
                effects=effects,
                words=told,
                exemplars=exemplars,
                borderline=_borderline(known, weakest[cluster], exemplars, n_examples),
                neighbors=near[cluster],
                pictures=None if drawn is None else drawn[cluster],
            )
        )
    return tuple(cards)


def _means(Z: FloatMatrix, labels: IntVector, n_clusters: int) -> FloatMatrix:
    """Mean of each cluster; the mean of all rows where it has none left, as all may be noise."""
    found = (Z[labels == cluster] for cluster in range(n_clusters))
    return np.array([(rows if len(rows) else Z).mean(axis=0) for rows in found])


def _effects(profiles: ClusterProfiles, cluster: int, values: Any, members: Any) -> tuple[CardEffect, ...]:
    places = {name: j for j, name in enumerate(profiles.names)}
    found = []
    for each in profiles.top(cluster, N_EFFECTS):
        if each.effect == 0:
            continue
        above = superiority(_dense_column(values, places[each.name]), members)
        found.append(CardEffect(each.name, each.effect, above, each.mean, each.rest_mean))
    return tuple(found)


def _dense_column(values: Any, j: int) -> FloatVector:
    column = values[:, [j]]
    return np.asarray(column.toarray() if issparse(column) else column, dtype=np.float64).ravel()


def _exemplars(
    known: _Clustering, shown: IntVector, Z: FloatMatrix, center: FloatVector, cluster: int, n: int
) -> tuple[int, ...]:
    """Rows shown that belong to the cluster most firmly; of equals, those nearest to its mean."""
    places = np.flatnonzero(known.labels[shown] == cluster)
    away = np.linalg.norm(Z[places] - center, axis=1)
    order = np.lexsort((away, -np.round(known.strengths[shown[places]], 3)))
    return tuple(int(row) for row in shown[places[order[:n]]])


def _borderline(known: _Clustering, weakest: IntVector, exemplars: tuple[int, ...], n: int) -> tuple[Borderline, ...]:
    found = []
    for row in weakest:
        if int(row) in exemplars or known.strengths[row] >= 1.0:
            continue
        others = known.memberships[[row]].toarray().ravel()
        others[known.labels[row]] = 0.0
        other = int(others.argmax()) if others.max() > 0 else None
        found.append(Borderline(int(row), float(known.strengths[row]), other))
    return tuple(found[:n])


def _neighbors(known: _Clustering, centers: FloatMatrix) -> list[tuple[tuple[int, float], ...]]:
    """For each cluster, those it shares most membership with; then those of nearest mean."""
    c = known.n_clusters
    inside = known.labels >= 0
    members = csr_array((np.ones(inside.sum()), (known.labels[inside], np.flatnonzero(inside))), shape=(c, len(inside)))
    shared = (members @ known.memberships).toarray()
    sizes = np.bincount(known.labels[inside], minlength=c)
    overlap = (shared + shared.T) / np.maximum(sizes[:, None] + sizes[None], 1)
    away = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    found = []
    for cluster in range(c):
        others = np.delete(np.arange(c), cluster)
        order = others[np.lexsort((away[cluster, others], -np.round(overlap[cluster, others], 4)))]
        found.append(tuple((int(each), float(overlap[cluster, each])) for each in order[:N_NEIGHBORS]))
    return found


def _telling(profiles: ClusterProfiles, n: int) -> list[int]:
    """Features of largest effect anywhere, in their own order."""
    strength = np.abs(profiles.effects).max(axis=0, initial=0.0)
    return sorted(int(j) for j in np.argsort(-strength, kind="stable")[: max(n, 0)])


def _feature(name: str, values: Any, j: int, shown: IntVector) -> ReportColumn:
    return ReportColumn(name, tuple(float(value) for value in _dense_column(values, j)[shown]))


def _column(name: str, values: Any, shown: IntVector) -> ReportColumn:
    """A further column: numbers where all are, words otherwise; what is missing is None."""
    column = np.asarray(values, dtype=object)[shown]
    missing = np.array([value is None or value != value for value in column])
    is_number = all(
        isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in column[~missing]
    )
    return ReportColumn(
        str(name),
        tuple(
            None if gone else float(value) if is_number else str(value)
            for value, gone in zip(column, missing, strict=True)
        ),
    )


def _layer(layer: Any, known: _Clustering) -> ReportLayer:
    labels, n = np.asarray(layer.labels), int(layer.n_clusters)
    firmness = np.atleast_1d(np.asarray(layer.firmness, dtype=np.float64))
    return ReportLayer(
        labels=labels,
        sizes=tuple(int(size) for size in layer.sizes),
        firmness=tuple(float(each) for each in firmness) if len(firmness) == n else (),
        colors=_colors(labels, n, known),
    )


def _colors(labels: IntVector, n: int, known: _Clustering) -> tuple[int, ...]:
    """Give clusters of a layer the colours of the clusters they share most rows with, each colour once."""
    both = (labels >= 0) & (known.labels >= 0)
    shared = np.zeros((n, known.n_clusters))
    np.add.at(shared, (labels[both], known.labels[both]), 1)
    mine, theirs = linear_sum_assignment(-shared)
    colors = np.full(n, -1)
    colors[mine] = theirs
    free = colors < 0
    colors[free] = known.n_clusters + np.arange(free.sum())
    return tuple(int(color) for color in colors)


def _firmness(layers: Sequence[ReportLayer], labels: IntVector) -> FloatVector | None:
    """Firmness of the clusters themselves, where they are a layer."""
    for layer in layers:
        if layer.firmness and np.array_equal(layer.labels, labels):
            return np.array(layer.firmness)
    return None


def _choice(selection: Selection) -> Choice:
    best = selection.best
    return Choice(
        metric=f"{best.metric}, preparation “{best.preparation}”, {best.n_components} columns",
        head=best.head,
        headings=("preparation", "metric", "head", "columns", "modularity", "agreement with the chosen"),
        trials=tuple(
            (t.preparation, t.metric, t.head, str(t.n_components), f"{t.modularity:.3f}", f"{t.agreement:.2f}")
            for t in selection.trials
        ),
        chosen=next(place for place, trial in enumerate(selection.trials) if trial.chosen),
        steps=selection.steps,
        count=None if selection.count is None else _curve(selection.count),
    )


def _curve(count: Any) -> CountCurve:
    """What is told of each number of clusters; a merge that leaves c of them tells of the split that makes c + 1."""
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
