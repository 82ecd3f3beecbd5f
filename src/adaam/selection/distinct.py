"""Distinct rows for the search: ranked independently of the caller's order, and sampled if there are very many."""

from dataclasses import dataclass

import numpy as np

from adaam._typing import Column, FloatVector, IntVector, Tall
from adaam.engines import Engine
from adaam.engines.blocks import at, spread
from adaam.partition import View
from adaam.prepare import LinearMap, unit_rows
from adaam.selection.count import ClusterCount, count_clusters
from adaam.selection.family import prepared_rows, random_rows, row_ranks

# Above this number of distinct rows, the search uses a sample of this size.
SEARCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class DistinctRows:
    """Distinct rows where the engine computes, their weights, and ranks that do not depend on the caller's order."""

    X: Tall
    weights: Column
    engine: Engine
    ranks: IntVector

    @classmethod
    def of(cls, X: Tall, weights: Column, engine: Engine) -> "DistinctRows":
        """Return the rows with their ranks."""
        return cls(X, weights, engine, row_ranks(X, engine))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def some(self, at_most: int) -> "DistinctRows":
        """Return all rows, or a random sample of `at_most` if there are more."""
        if self.n_rows <= at_most:
            return self
        chosen = random_rows(self.ranks, at_most, seed=0)
        return DistinctRows.of(self.X[chosen], at(self.weights, chosen), self.engine)

    def host_weights(self) -> FloatVector:
        """Weights as a vector on the host."""
        return np.array(spread(self.engine.to_host(self.weights), self.n_rows))

    def view(self, mapped_by: LinearMap, *, cosine: bool = False) -> View:
        """Rows mapped by a linear map, and scaled to unit length if `cosine`."""
        Z = mapped_by.apply(self.X, self.engine)
        Z = unit_rows(Z, self.engine) if cosine else Z
        return View(Z, self.host_weights(), self.engine, self.ranks)


def counted_clusters(rows: DistinctRows) -> ClusterCount:
    """Estimate the number of clusters from the rows, or from a sample of them."""
    tried = rows.some(SEARCH_ROWS)
    return count_clusters(prepared_rows(tried.X, tried.weights, tried.ranks, tried.engine))
