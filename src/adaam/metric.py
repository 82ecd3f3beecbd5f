"""The learned Mahalanobis metric: distances, and what each input feature contributes to them."""

from dataclasses import dataclass

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, RowScaling
from adaam.prepare import scaled_rows


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity, so that estimators can hash it
class Mahalanobis:
    """The metric d(u, v) = |C (u - v)|, on rows scaled to unit length if the preparation does so.

    A callable of two vectors that scikit-learn's estimators accept as `metric`; it keeps a copy of the components, so
    later fits do not change it.
    """

    components: FloatMatrix
    row_scaling: RowScaling

    def __call__(self, u: FloatVector, v: FloatVector) -> float:
        """Distance between two vectors."""
        pair = scaled_rows(np.vstack([u, v]).astype(np.float64), self.row_scaling)
        # hypot avoids overflow of squares.
        return float(np.hypot.reduce(self.components @ (pair[0] - pair[1])))

    def matrix(self) -> FloatMatrix:
        """M = C'C, positive semi-definite of rank at most n_components."""
        return self.components.T @ self.components


@dataclass(frozen=True, slots=True, repr=False)
class FeatureContributions:
    """What each input feature contributes to a metric or to one distance.

    `share` sums to 1: the part of the (mean) squared distance that is due to the feature. It can be slightly negative
    for a feature that offsets another. `sensitivity` is the distance moved if the feature alone changes by one unit.
    """

    names: tuple[str, ...]
    share: FloatVector
    sensitivity: FloatVector

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """Return the n features of largest share, largest first."""
        order = np.argsort(self.share)[::-1][:n]
        return [(self.names[i], float(self.share[i])) for i in order]

    def __repr__(self) -> str:
        rows = [f"  {share:7.2%}  {name}" for name, share in self.top()]
        more = len(self.names) - len(rows)
        return "\n".join(["share of squared distance, by feature", *rows] + ([f"  ... {more} more"] if more else []))


def contributions(names: tuple[str, ...], components: FloatMatrix, covariance: FloatMatrix) -> FeatureContributions:
    """Contributions from C and C Σ, where Σ holds the second moments of the differences; both are (m, d).

    The mean squared distance is trace(C Σ C') = Σ_j (C'CΣ)_jj, one term per feature.
    """
    terms = np.einsum("ij,ij->j", components, covariance)
    total = terms.sum()
    share = terms / total if total > 0 else np.zeros_like(terms)
    return FeatureContributions(names, share, np.linalg.norm(components, axis=0))
