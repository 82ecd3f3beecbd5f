"""Locality preserving projection: from an affinity to a linear map."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from adaam._typing import ColumnScaling, FloatMatrix, FloatVector, Tall
from adaam.affinity import Affinity, laplacian_gram
from adaam.engines import Engine
from adaam.engines.columns import total
from adaam.linalg import degree_eigenpairs, unit_columns


@dataclass(frozen=True, slots=True)
class Projection:
    """A linear map of prepared rows: components (m, d) and the eigenvalues (m,) they belong to, ascending."""

    components: FloatMatrix
    eigenvalues: FloatVector


def lpp(
    X: Tall,
    affinity: Affinity,
    n_components: int,
    *,
    engine: Engine,
    scaling: ColumnScaling = "unit",
    moments: Callable[[], FloatMatrix] | None = None,
) -> Projection:
    """Directions in which strongly linked rows stay together.

    Solves X'(D - A)X a = λ X'DX a for the smallest λ. Where degrees below or near zero leave X'DX without a positive
    length for some directions, these are given one, as `adaam.linalg.degree_whitening` says.

    Parameters
    ----------
    X : tall array of shape (n, d)
        Rows as they are: LPP is not invariant to a shift, so centring is the caller's choice.
    affinity : Affinity
        The affinity A with degrees D.
    n_components : int
        Number of directions; fewer come back when X has a smaller rank.
    engine : Engine
        Where X lives.
    scaling : {"unit", "orthonormal"}, default="unit"
        Length of each component: Euclidean length 1, or length 1 under X'DX.
    moments : callable, default=None
        Gives X'X over the number of rows, copies counted; asked for only where X'DX is not far from singular.

    Returns
    -------
    Projection
        Eigenvalues ascending.
    """
    laplacian = laplacian_gram(affinity, X, engine)
    n, degrees = X.shape[0], affinity.degrees()

    def even() -> FloatMatrix:
        return total(degrees, n) * (engine.cross(X, X) / n if moments is None else moments())

    pairs = degree_eigenpairs(laplacian, engine.cross(X, X, degrees), n_components, n, even, engine.eigh)
    vectors = unit_columns(pairs.vectors) if scaling == "unit" else pairs.vectors
    return Projection(np.ascontiguousarray(vectors.T), pairs.values)
