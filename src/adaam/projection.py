"""Locality preserving projection: from an affinity to a linear map."""

from dataclasses import dataclass

import numpy as np

from adaam._typing import ColumnScaling, FloatMatrix, FloatVector, Tall
from adaam.affinity import Affinity, laplacian_gram
from adaam.engines import Engine
from adaam.linalg import smallest_eigenpairs, unit_columns


@dataclass(frozen=True, slots=True)
class Projection:
    """A linear map of prepared rows: components (m, d) and the eigenvalues (m,) they belong to, ascending."""

    components: FloatMatrix
    eigenvalues: FloatVector


def lpp(
    X: Tall, affinity: Affinity, n_components: int, *, engine: Engine, scaling: ColumnScaling = "unit"
) -> Projection:
    """Directions in which strongly linked rows stay together.

    Solves X'(D - A)X a = λ X'DX a for the smallest λ, inside the range of X'DX.

    Parameters
    ----------
    X : tall array of shape (n, d)
        Rows as they are: LPP is not invariant to a shift, so centring is the caller's choice.
    affinity : Affinity
        The affinity A with degrees D.
    n_components : int
        Number of directions; fewer come back when X'DX has a smaller rank.
    engine : Engine
        Where X lives.
    scaling : {"unit", "orthonormal"}, default="unit"
        Length of each component: Euclidean length 1, or length 1 under X'DX.

    Returns
    -------
    Projection
        Eigenvalues ascending.
    """
    laplacian = laplacian_gram(affinity, X, engine)
    degree_gram = engine.cross(X, X, affinity.degrees())
    # Eigenvalues of the degree term alone are 1.
    pairs = smallest_eigenpairs(laplacian, degree_gram, n_components, X.shape[0], scale=1.0, eigh=engine.eigh)
    vectors = unit_columns(pairs.vectors) if scaling == "unit" else pairs.vectors
    return Projection(np.ascontiguousarray(vectors.T), pairs.values)
