"""Distinct rows as the search sees them: a sample where there are very many, in an order that is not the caller's."""

from dataclasses import dataclass

import numpy as np

from adaam._typing import Column, FloatVector, IntVector, Tall
from adaam.engines import Engine
from adaam.engines.blocks import at, spread
from adaam.partition import View
from adaam.prepare import LinearMap
from adaam.selection.count import ClusterCount, count_clusters
from adaam.selection.family import prepared_rows, random_rows, row_ranks

# Above so many distinct rows the search looks at a sample of them.
SEARCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class DistinctRows:
    """Distinct rows where an engine works, what they weigh, and an order that is not that of the caller."""

    X: Tall
    weights: Column
    engine: Engine
    ranks: IntVector

    @classmethod
    def of(cls, X: Tall, weights: Column, engine: Engine) -> "DistinctRows":
        """Rank the rows."""
        return cls(X, weights, engine, row_ranks(X, engine))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def some(self, at_most: int) -> "DistinctRows":
        """Return these rows, or a random sample of more than so many."""
        if self.n_rows <= at_most:
            return self
        chosen = random_rows(self.ranks, at_most, seed=0)
        return DistinctRows.of(self.X[chosen], at(self.weights, chosen), self.engine)

    def host_weights(self) -> FloatVector:
        """Weights as a vector on the host."""
        return np.array(spread(self.engine.to_host(self.weights), self.n_rows))

    def view(self, mapped_by: LinearMap) -> View:
        """Rows in the metric of a map."""
        return View(mapped_by.apply(self.X, self.engine), self.host_weights(), self.engine, self.ranks)


def counted_clusters(rows: DistinctRows) -> ClusterCount:
    """Estimate the number of clusters from the rows, or from a sample of them."""
    tried = rows.some(SEARCH_ROWS)
    return count_clusters(prepared_rows(tried.X, tried.weights, tried.ranks, tried.engine))
