"""A candidate of the search as the estimator that learns it."""

from adaam._typing import Tall
from adaam.estimators.adaam import AdaAM, store_all_pairs
from adaam.estimators.fitting import store
from adaam.estimators.prepared import PreparedMetric, as_they_are
from adaam.prepare import PREPARATIONS
from adaam.selection import FittedCandidate, paper_neighbors


def unfitted_metric(fitted: FittedCandidate, n_clusters: int) -> AdaAM | PreparedMetric:
    """Return the estimator with the candidate's settings; of very many rows it learns from what is affordable."""
    candidate, engine = fitted.candidate, fitted.sample.engine
    preparation = PREPARATIONS[candidate.preparation]
    if fitted.projection is None:
        return PreparedMetric(preparation, engine=engine)
    return AdaAM(
        n_clusters,
        n_components=len(fitted.projection.components),
        preparation=preparation,
        affinity=candidate.affinity,
        engine=engine,
    )


def candidate_metric(fitted: FittedCandidate, X: Tall, n_clusters: int) -> AdaAM | PreparedMetric:
    """Return the estimator as if fitted on the rows that the candidate was learned from."""
    metric = unfitted_metric(fitted, n_clusters)
    if fitted.projection is None or fitted.learned is None:
        store(metric, fitted.prepared, as_they_are(fitted.prepared, fitted.sample), fitted.sample, X)
    else:
        assert isinstance(metric, AdaAM)
        store(metric, fitted.prepared, fitted.projection, fitted.sample, X)
        store_all_pairs(metric, fitted.learned, paper_neighbors(fitted.sample.size, n_clusters), X)
    metric.preparation_ = PREPARATIONS[fitted.candidate.preparation]
    metric.n_features_in_ = int(X.shape[1])
    return metric
