"""The steps around learning an affinity that all metric learners share."""

from typing import Any

import numpy as np

from adaam._checks import check_kind, check_number, check_weights, check_whole, check_word, row_counts
from adaam._typing import Column, Tall
from adaam.engines import Engine, Graph
from adaam.estimators.linear_metric import LinearMetric
from adaam.graph import given_graph, neighbor_graph, sampled_recall, warn_if_disconnected
from adaam.linalg import row_signs
from adaam.prepare import PREPARATIONS, LinearMap, Preparation, fit_preparation
from adaam.projection import Projection
from adaam.sample import Sample

# Entries of a map whose squares float32 can hold.
LARGEST_FLOAT32 = 1e18


def resolve_preparation(preparation: Any) -> Preparation:
    """Turn the `preparation` parameter into settings: a name or a `Preparation`."""
    if isinstance(preparation, str):
        return PREPARATIONS[check_word("preparation", preparation, tuple(PREPARATIONS))]
    settings: Preparation = check_kind(
        "preparation", preparation, Preparation, "'unit', 'linear', 'center', 'standard' or a Preparation"
    )
    check_word("row_scaling", settings.row_scaling, ("unit", "none"))
    check_word("column_scaling", settings.column_scaling, ("none", "standard"))
    if settings.column_scaling == "standard" and settings.row_scaling == "unit":
        raise ValueError(
            "column_scaling='standard' goes with row_scaling='none' alone, since rows are scaled first. "
            "Standardise X beforehand to have both."
        )
    if isinstance(settings.keep, int | np.integer):
        check_whole("keep", settings.keep)
    else:
        check_number("keep", settings.keep, above=0.0, up_to=1.0)
    return settings


def row_weights(sample_weight: Any, n_rows: int, engine: Engine) -> Column:
    """How many equal rows each row counts as, where the engine works, as `row_counts` reads weights; None means 1."""
    if sample_weight is None:
        return 1.0
    if not engine.accepts(sample_weight):
        return engine.asarray(check_weights(sample_weight, n_rows))
    return row_counts(engine.asarray(sample_weight), n_rows)


def prepared_sample(
    X: Tall, sample_weight: Any, preparation: Preparation, engine: Engine, *, rows_are_nodes: bool
) -> tuple[LinearMap, Sample]:
    """Learn the preparation and apply it to the distinct rows.

    Where the caller brings a graph or an affinity, its rows are nodes: none are merged or dropped.
    """
    weights = row_weights(sample_weight, X.shape[0], engine)
    rows = engine.asarray(X)
    if not rows_are_nodes:
        rows, weights = engine.distinct(rows, weights)
    elif not isinstance(weights, float) and (weights == 0).any():
        raise ValueError("sample_weight holds zeros, which would leave nodes of the given graph without a row.")
    prepared = fit_preparation(rows, weights, preparation, engine)
    return prepared, Sample(prepared.apply(rows, engine), weights, engine, prepared.spreads)


class Neighbors:
    """Give the caller's graph, or find one on demand; warn where it is disconnected.

    `recall` is that of the searches so far, as `sampled_recall` measures it; None where there was none.
    """

    def __init__(self, sample: Sample, given: Any) -> None:
        self._sample = sample
        self._given = given
        self.recall: float | None = None

    def __call__(self, n_neighbors: int) -> Graph:
        """Return the graph of so many neighbours."""
        sample = self._sample
        graph: Graph
        if self._given is not None:
            graph = sample.engine.asarray(given_graph(self._given, sample.n_rows, n_neighbors))
        else:
            check_neighbors(n_neighbors, sample.size)
            graph = neighbor_graph(sample, n_neighbors)
            recall = sampled_recall(sample, graph, n_neighbors)
            self.recall = recall if self.recall is None else min(recall, self.recall)
        warn_if_disconnected(graph, "" if self._given is not None else _remark_on_weights(sample, n_neighbors))
        return graph


def _remark_on_weights(sample: Sample, n_neighbors: int) -> str:
    """Say so where every row counts as so many equal rows that it has no other neighbours."""
    weights = sample.engine_weights
    least = weights if isinstance(weights, float) else float(weights.min())
    if least <= n_neighbors:
        return ""
    return (
        f" Each row counts as {least:g} equal rows or more, which leave no place for others among its "
        f"{n_neighbors} neighbours. Where sample_weight is meant to be relative, divide it by its mean."
    )


def check_neighbors(n_neighbors: int, size: float) -> None:
    """Each row needs that many others."""
    if n_neighbors > size - 1:
        raise ValueError(
            f"n_neighbors={n_neighbors} needs more than {n_neighbors} samples, but X has {size:g} "
            f"(weights counted). Use n_neighbors <= {max(1, int(size - 1))}."
        )


def check_clusters(n_clusters: int, n_samples: int) -> None:
    """There are no more clusters than rows."""
    if n_clusters > n_samples:
        raise ValueError(f"n_clusters={n_clusters} exceeds n_samples={n_samples}. Use n_clusters <= {n_samples}.")


def check_components(n_components: Any, default: int, rank: int) -> int:
    """Number of components to learn; a default gives way to a smaller rank, an explicit number does not."""
    if n_components is None:
        return min(default, rank)
    wanted = check_whole("n_components", n_components)
    if wanted > rank:
        raise ValueError(
            f"n_components={wanted} exceeds the rank {rank} of the prepared rows. Use n_components <= {rank}, or None."
        )
    return wanted


def store(model: LinearMetric, prepared: LinearMap, projection: Projection, sample: Sample, X: Tall) -> None:
    """Fold projection and preparation into one map with fixed signs, kept in the precision of X."""
    store_map(model, prepared, projection, sample.moments(), X.dtype)
    model.engine_ = sample.engine.name


def store_map(model: LinearMetric, prepared: LinearMap, projection: Projection, moments: Any, dtype: Any) -> None:
    """Fold the map, given the second moments of the prepared rows."""
    signs = row_signs(prepared.then(projection.components).components)[:, None]

    def folded(coefficients: Any) -> Any:
        return prepared.then(coefficients).components * signs

    components = folded(projection.components)
    # Covariances are with the features as they are: twice the units that the folded components were divided by.
    covariance = folded(projection.components @ moments) * np.square(prepared.column_units)
    if not max(np.abs(components).max(), np.abs(covariance).max()) <= LARGEST_FLOAT32:
        dtype = np.float64  # units of columns so small or large that float32 has no room for what is made of them
    model.components_, model.covariance_ = components.astype(dtype), covariance.astype(dtype)
    model.mean_ = prepared.mean.astype(dtype)
    model.eigenvalues_ = projection.eigenvalues
    model.n_components_ = len(projection.components)
