"""What a fit saw on its way, made again from the training rows: fitted models keep none of it."""

from typing import Any

import numpy as np

from adaam.affinity.adaptive import Learned, adaptive_affinity
from adaam.displays.axes import fitted_metric, learner_of
from adaam.estimators import AdaAM
from adaam.estimators.fitting import Neighbors, prepared_sample
from adaam.sample import Sample

# Cuts of the same rows agree but for rounding in another order of rows; other rows move them by far more.
SAME_CUT = 1e-3


def prepared_rows(model: Any, X: Any, sample_weight: Any, neighbors: Any) -> tuple[Sample, Any]:
    """Rows as the fit prepared them, and the source of neighbour graphs it used."""
    learner = learner_of(fitted_metric(model))
    rows = learner._rows(X, reset=False)
    rows_are_nodes = neighbors is not None
    _, sample = prepared_sample(
        rows, sample_weight, learner.preparation_, learner._engine(), rows_are_nodes=rows_are_nodes
    )
    return sample, Neighbors(sample, neighbors)


def relearned_graph(
    model: Any, X: Any, n_neighbors: int | None, sample_weight: Any, neighbors: Any
) -> tuple[Sample, Any]:
    """The neighbour graph of the training rows in the prepared space."""
    sample, source = prepared_rows(model, X, sample_weight, neighbors)
    count = getattr(learner_of(model), "n_neighbors_", None) if n_neighbors is None else n_neighbors
    if count is None:
        raise ValueError(
            f"n_neighbors=None, but {type(learner_of(model)).__name__} does not keep the number of neighbours "
            "its affinity used. Pass n_neighbors."
        )
    return sample, source(int(count))


def relearned_affinity(model: Any, X: Any, sample_weight: Any, neighbors: Any) -> Learned:
    """The adaptive affinity of the training rows."""
    learner = learner_of(fitted_metric(model))
    if not isinstance(learner, AdaAM):
        raise TypeError(f"{type(learner).__name__} learns no adaptive affinity, so there is none to draw. Use AdaAM.")
    sample, graph = relearned_graph(model, X, None, sample_weight, neighbors)
    learned = adaptive_affinity(sample, graph, learner.n_clusters_, learner.n_iter, learner._affinity_settings())
    cuts = (learned.intermediate.cut, learned.final.cut)
    if not np.allclose(cuts, learner.cuts_, rtol=SAME_CUT):
        raise ValueError(
            f"X gives the cuts {cuts[0]:.3g} and {cuts[1]:.3g}, but the fit found {learner.cuts_[0]:.3g} and "
            f"{learner.cuts_[1]:.3g}. Pass the rows, weights and neighbours the model was fitted on."
        )
    return learned
