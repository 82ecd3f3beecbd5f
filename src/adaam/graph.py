"""The nearest-neighbour graph of a sample: computed by the engine, or given by the caller."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from adaam._checks import warn_caller
from adaam._typing import FloatVector, IntVector
from adaam.engines import Graph, NeighborGraph
from adaam.prepare import Sample


class DisconnectedGraphWarning(UserWarning):
    """The neighbour graph falls into several pieces."""


def neighbor_graph(sample: Sample, n_neighbors: int) -> Graph:
    """Find the k nearest neighbours of each row; a row of weight w counts as w coincident rows.

    Rows tied at the last places share them, so that neither the order of rows nor the last bits of a distance decide
    which are neighbours. The graph stays where the engine works.
    """
    return sample.engine.neighbor_graph(sample.X, n_neighbors, sample.engine_weights)


def paper_neighbors(size: float, n_clusters: int) -> int:
    """Neighbours of each row by the paper's rule, round(log2(n / c)), limited to 1..n - 1."""
    return int(np.clip(round(np.log2(max(size / n_clusters, 1.0))), 1, max(1, int(size) - 1)))


def given_graph(neighbors: Any, n_rows: int, n_neighbors: int) -> NeighborGraph:
    """Read a neighbour graph that the caller computed.

    It is (indices, distances), each of shape (n, k); or a sparse n x n array of distances, as `kneighbors_graph` and
    `KNeighborsTransformer` make it; or an object fitted on the same rows with scikit-learn's `kneighbors`, which is
    called with `n_neighbors`: the other two forms have their own number.
    """
    if issparse(neighbors):
        graph = csr_array(neighbors)
        if graph.shape != (n_rows, n_rows):
            raise ValueError(f"neighbors has shape {graph.shape}, but X has {n_rows} rows.")
        return _tidy(graph.indptr, graph.indices, graph.data, n_rows)
    if hasattr(neighbors, "kneighbors"):
        fitted_rows = getattr(neighbors, "n_samples_fit_", n_rows)
        if fitted_rows != n_rows:
            raise ValueError(
                f"neighbors was fitted on {fitted_rows} rows, but X has {n_rows}. Fit it on the same rows."
            )
        distances, indices = neighbors.kneighbors(n_neighbors=n_neighbors)
        return given_graph((indices, distances), n_rows, n_neighbors)
    if not (isinstance(neighbors, tuple | list) and len(neighbors) == 2):
        raise TypeError(
            f"neighbors={type(neighbors).__name__} is not a neighbour graph. Pass (indices, distances), a sparse "
            "array of distances, or a fitted object with kneighbors()."
        )
    indices, distances = np.asarray(neighbors[0]), np.asarray(neighbors[1], dtype=np.float64)
    if indices.ndim != 2 or indices.shape != distances.shape or len(indices) != n_rows:
        raise ValueError(
            f"neighbors holds indices of shape {indices.shape} and distances of shape {distances.shape}; "
            f"both must be ({n_rows}, k) for X of {n_rows} rows."
        )
    starts = np.arange(n_rows + 1) * indices.shape[1]
    return _tidy(starts, indices.ravel(), distances.ravel(), n_rows)


def _tidy(starts: IntVector, indices: IntVector, distances: FloatVector, n_rows: int) -> NeighborGraph:
    """Check a given graph, drop self entries and repeated ones (the nearest stays), and sort each row by distance."""
    if not np.issubdtype(indices.dtype, np.integer):
        raise TypeError(f"neighbors has indices of type {indices.dtype}; they must be integers.")
    if len(indices) and (indices.min() < 0 or indices.max() >= n_rows):
        raise ValueError(
            f"neighbors names row {indices.min() if indices.min() < 0 else indices.max()}, but rows are "
            f"0..{n_rows - 1}. Approximate searches mark missing neighbours by -1: ask them for higher accuracy."
        )
    if not (np.isfinite(distances).all() and (distances >= 0).all()):
        raise ValueError("neighbors holds distances that are negative or not finite.")
    rows = np.repeat(np.arange(n_rows), np.diff(starts))
    order = np.lexsort((distances, rows))
    order = order[rows[order] != indices[order]]
    _, first = np.unique(rows[order] * n_rows + indices[order], return_index=True)
    order = order[np.sort(first)]
    counts = np.bincount(rows[order], minlength=n_rows)
    new_starts = np.concatenate([[0], np.cumsum(counts)])
    found = indices[order].astype(np.intp)
    return NeighborGraph(new_starts, found, distances[order], np.ones(len(order)), np.zeros(n_rows))


@dataclass(slots=True)
class Neighbors:
    """Return the caller's graph, or compute one on demand; warn if it is disconnected."""

    sample: Sample
    given: Any
    recall: float | None = None  # 1.0 once neighbours were searched, which every engine does exactly

    def __call__(self, n_neighbors: int) -> Graph:
        """Return the graph with `n_neighbors` neighbours of each row."""
        sample, remark = self.sample, ""
        graph: Graph
        if self.given is not None:
            graph = sample.engine.asarray(given_graph(self.given, sample.n_rows, n_neighbors))
        else:
            check_neighbors(n_neighbors, sample.size)
            graph = neighbor_graph(sample, n_neighbors)
            self.recall = 1.0
            weights = sample.engine_weights
            least = weights if isinstance(weights, float) else float(weights.min())
            if least > n_neighbors:
                remark = (
                    f" Each row counts as {least:g} equal rows or more, which leave no place for others among its "
                    f"{n_neighbors} neighbours. Where sample_weight is meant to be relative, divide it by its mean."
                )
        sizes = graph.piece_sizes()
        if len(sizes) > 1:
            shown = ", ".join(str(size) for size in sizes[:8]) + (", ..." if len(sizes) > 8 else "")
            warn_caller(
                f"The neighbour graph falls into {len(sizes)} pieces of {shown} distinct rows. The map stays well "
                f"defined, but no neighbour edge links the pieces; a larger n_neighbors would join them.{remark}",
                DisconnectedGraphWarning,
            )
        return graph


def check_neighbors(n_neighbors: int, size: float) -> None:
    """Raise if there are too few rows for `n_neighbors` neighbours."""
    if n_neighbors > size - 1:
        raise ValueError(
            f"n_neighbors={n_neighbors} needs more than {n_neighbors} samples, but X has {size:g} "
            f"(weights counted). Use n_neighbors <= {max(1, int(size - 1))}."
        )
