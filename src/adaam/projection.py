"""From an affinity, or from a partition, to a linear map."""

import numpy as np
from scipy.linalg import eigh

from adaam._typing import ColumnScaling, FloatMatrix, IntVector
from adaam.affinity import Affinity, laplacian_gram
from adaam.engines.blocks import total
from adaam.linalg import Projection, degree_projection
from adaam.prepare import Sample


def lpp(sample: Sample, affinity: Affinity, n_components: int, scaling: ColumnScaling = "unit") -> Projection:
    """Directions in which strongly linked rows stay together.

    Solves X'(D - A)X a = λ X'DX a for the smallest λ. If degrees below or near zero make X'DX not positive definite,
    both matrices are raised as described in `adaam.linalg.degree_whitening`. Rows are used as they are: LPP is not
    invariant to shifts, so centring is the caller's choice. Fewer directions are returned if X has a smaller rank.
    Components have Euclidean length 1 ("unit"), or length 1 under X'DX ("orthonormal").
    """
    X, n, engine = sample.X, sample.n_rows, sample.engine
    laplacian, degrees = laplacian_gram(affinity, X, engine), affinity.degrees()

    def even() -> FloatMatrix:
        return total(degrees, n) * sample.moments

    return degree_projection(laplacian, engine.cross(X, X, degrees), n_components, n, even, engine.eigh, scaling)


def discriminant(sample: Sample, labels: IntVector, n_clusters: int) -> Projection:
    """Directions in which the clusters of a partition lie farthest apart, relative to their spread.

    Linear discriminant analysis: B a = λ W a for the largest λ, where B is the covariance of the cluster means and W
    that within clusters, shrunk towards a multiple of the identity by the oracle approximating rule (Chen et al.
    2010). Components, at most one fewer than clusters, have length 1 under W, so that distances count in standard
    deviations within clusters. Labels, 0..n_clusters-1, are on the host.
    """
    found = sample.engine.cluster_sums(sample.X, labels, sample.engine_weights, n_clusters)
    size, d = sample.size, sample.X.shape[1]
    root = np.sqrt(np.maximum(found.weights, np.finfo(np.float64).tiny))[:, None]
    scaled = found.sums / root
    total = found.sums.sum(axis=0)
    within = (sample.gram - scaled.T @ scaled) / size
    between = (scaled.T @ scaled - np.outer(total, total) / size) / size
    values, vectors = eigh(between, _shrunk(within, size, float(np.trace(between))))
    n_components = max(1, min(n_clusters - 1, d))
    return Projection(np.ascontiguousarray(vectors[:, ::-1][:, :n_components].T), values[::-1][:n_components])


def _shrunk(covariance: FloatMatrix, size: float, spread_between: float) -> FloatMatrix:
    """Covariance shrunk towards its mean eigenvalue; clusters without any spread get a little of that between them."""
    d = len(covariance)
    trace = max(float(np.trace(covariance)), np.finfo(np.float64).eps * spread_between, np.finfo(np.float64).tiny)
    # Scaled to trace 1: squares of variances are fourth powers of the rows, and may overflow or underflow.
    squares = float(np.square(covariance / trace).sum())
    spread = squares - 1.0 / d
    rule = ((1.0 - 2.0 / d) * squares + 1.0) / ((size + 1.0 - 2.0 / d) * spread) if spread > 0 else 1.0
    amount = float(np.clip(rule, 1e-6, 1.0))
    return np.asarray((1.0 - amount) * covariance + amount * trace / d * np.eye(d))
