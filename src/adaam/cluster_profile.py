"""What sets each cluster apart: effect sizes of features, cluster against the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.stats import rankdata

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector, Tall
from adaam.engines import CPUEngine, Engine
from adaam.engines.blocks import total

N_PRINTED = 5  # features of a cluster


@dataclass(frozen=True, slots=True)
class FeatureEffect:
    """How one feature sets a cluster apart."""

    name: str
    effect: float  # Cohen's d
    mean: float  # in the cluster
    rest_mean: float  # of all other rows
    feature: int = 0  # its index


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterProfiles:
    """What sets each cluster apart from all other rows, feature by feature.

    Attributes
    ----------
    names : tuple of str
        The features.
    sizes : ndarray of shape (n_clusters,)
        Rows of each cluster, or the sum of their weights.
    means, rest_means : ndarray of shape (n_clusters, n_features)
        Mean of each feature in the cluster, and in all other rows.
    effects : ndarray of shape (n_clusters, n_features)
        Cohen's d: difference of the two means in pooled standard deviations. 0.2 is called small, 0.5 medium, 0.8
        large. Infinite if a feature is constant in the cluster and, at another value, in the rest; 0 if either is
        empty.
    """

    names: tuple[str, ...]
    sizes: IntVector
    means: FloatMatrix
    rest_means: FloatMatrix
    effects: FloatMatrix

    def top(self, cluster: int, n: int = 10) -> list[FeatureEffect]:
        """Return the n features that set a cluster apart most, the largest effect first."""
        order = np.argsort(-np.abs(self.effects[cluster]), kind="stable")[:n]
        return [
            FeatureEffect(
                self.names[j],
                float(self.effects[cluster, j]),
                float(self.means[cluster, j]),
                float(self.rest_means[cluster, j]),
                int(j),
            )
            for j in order
        ]

    def __str__(self) -> str:
        return "\n".join(line for cluster in range(len(self.sizes)) for line in self._lines(cluster))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{head}</th>" for head in ("cluster", "rows", "feature", "d", "mean", "elsewhere"))
        lines = []
        for cluster, size in enumerate(self.sizes):
            top = self.top(cluster, N_PRINTED)
            for place, each in enumerate(top):
                own = (
                    f'<td rowspan="{len(top)}">{cluster}</td><td rowspan="{len(top)}">{size:,g}</td>'
                    if not place
                    else ""
                )
                numbers = f"<td>{each.effect:+.2f}</td><td>{each.mean:.4g}</td><td>{each.rest_mean:.4g}</td>"
                lines.append(f'<tr>{own}<td style="text-align:left">{escape(each.name)}</td>{numbers}</tr>')
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"

    def _lines(self, cluster: int) -> list[str]:
        top = self.top(cluster, N_PRINTED)
        width = max((len(each.name) for each in top), default=0)
        size = self.sizes[cluster]
        return [
            f"cluster {cluster}: {size:,g} {'row' if size == 1 else 'rows'}",
            *(
                f"  {each.name.ljust(width)}  d = {each.effect:+6.2f}   "
                f"mean {each.mean:.4g}, elsewhere {each.rest_mean:.4g}"
                for each in top
            ),
        ]


def cluster_profiles(
    X: Any, labels: Any, n_clusters: int, names: Sequence[str] | None = None, sample_weight: Any = None
) -> ClusterProfiles:
    """Compare each cluster with all other rows, feature by feature.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows.
    labels : array-like of shape (n_samples,)
        Cluster of each row, from 0; rows of label -1 belong to no cluster, but to the rest of each.
    n_clusters : int
        Number of clusters; some may be empty.
    names : sequence of str, default=None
        Names of the features; None means x0, x1, ...
    sample_weight : array-like of shape (n_samples,), default=None
        A row of weight w counts as w equal rows.

    Returns
    -------
    ClusterProfiles
        Sizes, means and effect sizes.
    """
    labels = np.asarray(labels)
    X = csr_array(X) if issparse(X) else np.asarray(X)
    weights: Any = 1.0 if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    found = engine_profiles(X, np.where(labels >= 0, labels, n_clusters), n_clusters, weights, CPUEngine())
    return found if names is None else replace(found, names=tuple(map(str, names)))


def engine_profiles(X: Tall, labels: IntVector, n_clusters: int, weights: Column, engine: Engine) -> ClusterProfiles:
    """Compare each cluster with all other rows, feature by feature, on the engine that holds the rows.

    Rows with the label `n_clusters` belong to no cluster.
    """
    if isinstance(X, np.ndarray) or issparse(X):  # the GPU engine also leaves rows here, if sparse or too many
        weights, engine = weights if isinstance(weights, float) else engine.to_host(weights), CPUEngine()
    n_rows, d = X.shape
    n = total(weights, n_rows)
    # Squares around the mean of all rows lose no digits to it; sparse rows are not centred, to stay sparse.
    center = np.zeros(d) if issparse(X) else engine.cross(None, X, weights)[0] / n
    found = engine.cluster_sums(X, labels, weights, n_clusters + 1, None if issparse(X) else center)
    counted, sums = found.weights[:n_clusters], found.sums[:n_clusters]
    inside, outside = counted[:, None], n - counted[:, None]
    means = sums / np.where(inside > 0, inside, 1.0)
    rest_means = (found.sums.sum(axis=0) - sums) / np.where(outside > 0, outside, 1.0)
    within = found.squares - inside * means**2 - outside * rest_means**2
    # Sums of squares below their own rounding, or below that of the values, count as zero.
    eps = np.finfo(np.float64).eps
    floor = 8 * eps * found.squares + n * (8 * eps * np.abs(center)) ** 2
    pooled = np.sqrt(np.where(within > floor, within, 0.0) / max(n - 2, 1))
    return ClusterProfiles(
        tuple(f"x{j}" for j in range(d)),
        counted.astype(np.int64) if isinstance(weights, float) else counted,
        means + center,
        rest_means + center,
        np.where((inside > 0) & (outside > 0), _ratio(means - rest_means, pooled, np.sqrt(floor / n)), 0.0),
    )


def incomplete_profiles(X: FloatMatrix, labels: Any, n_clusters: int, names: Sequence[str]) -> ClusterProfiles:
    """Compare each cluster with all other rows, feature by feature, over the rows that have a value (not NaN)."""
    labels = np.asarray(labels)
    present = ~np.isnan(X)
    found = [cluster_profiles(X[has, j][:, None], labels[has], n_clusters) for j, has in enumerate(present.T)]
    means, rest_means, effects = (
        np.hstack([np.empty((n_clusters, 0)), *(getattr(each, name) for each in found)])
        for name in ("means", "rest_means", "effects")
    )
    sizes = np.bincount(labels[labels >= 0], minlength=n_clusters)
    return ClusterProfiles(tuple(map(str, names)), sizes, means, rest_means, effects)


def superiority(values: FloatVector, members: Any) -> float:
    """Probability that a row of a cluster has a larger value than one outside, ties counted half: the ROC AUC."""
    members = np.asarray(members, dtype=bool)
    inside, outside = int(members.sum()), int((~members).sum())
    if inside == 0 or outside == 0:
        return 0.5
    ranks = rankdata(values)[members].sum()
    return float((ranks - inside * (inside + 1) / 2) / (inside * outside))


def _ratio(difference: FloatMatrix, pooled: FloatMatrix, rounding: FloatVector) -> FloatMatrix:
    """Differences in standard deviations; if these are zero, infinite, or 0 for a difference within rounding."""
    sure = np.where(np.abs(difference) > rounding, np.copysign(np.inf, difference), 0.0)
    return np.where(pooled > 0, difference / np.where(pooled > 0, pooled, 1.0), sure)
