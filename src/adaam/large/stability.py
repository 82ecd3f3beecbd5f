"""Stability of the directions of a map: comparison of fits on two disjoint halves of the rows."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import subspace_angles

from adaam._typing import FloatMatrix, FloatVector
from adaam.linalg import eigh, symmetric

FIRM_DEGREES = 30.0  # largest angle between the halves in a direction that counts as firm


@dataclass(frozen=True, slots=True, eq=False)
class Stability:
    """Angles in degrees between the maps learned from two disjoint halves of the rows.

    Both are angles between columns of mapped rows, so that the length of a component does not matter. The fit itself
    uses twice the rows of a half: if angles are small, its own error is about half of them. They do not measure how far
    pairs within blocks are from all pairs.

    Attributes
    ----------
    angles : ndarray of shape (n_components,)
        Principal angles between the spaces that the two halves learn, ascending: how many directions they share.
    directions : ndarray of shape (n_components,)
        Angle of each component of the fit to the space that a half learns, the larger of the two; small for components
        to trust.
    n_rows : int
        Rows in a half.
    """

    angles: FloatVector
    directions: FloatVector
    n_rows: int

    @property
    def n_firm(self) -> int:
        """Number of directions on which the halves agree within 30 degrees."""
        return int((self.angles < FIRM_DEGREES).sum())

    def __str__(self) -> str:
        lines = [
            f"{self.n_firm} of {len(self.angles)} directions are firm: two halves of {self.n_rows} rows agree on them "
            f"within {FIRM_DEGREES:.0f} degrees"
        ]
        for name, values in (("shared", self.angles), ("components", self.directions)):
            lines.append(f"  {name:<11}" + " ".join(f"{value:5.1f}" for value in values))
        return "\n".join(lines)


def stability(components: FloatMatrix, halves: list[FloatMatrix], gram: FloatMatrix, n_rows: int) -> Stability:
    """Compare the maps of two halves, and each component with both; components are rows, `gram` is X'X."""
    stacked = np.vstack([components, *halves])
    products = stacked @ gram @ stacked.T
    lengths = np.sqrt(np.diag(products))
    values, vectors = eigh(symmetric(products / np.outer(lengths, lengths)))
    # Columns with the same pairwise angles as the columns of mapped rows.
    columns = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    fit, first, second = np.split(columns, [len(components), len(components) + len(halves[0])], axis=1)
    directions = [max(subspace_angles(column[:, None], half)[0] for half in (first, second)) for column in fit.T]
    return Stability(np.degrees(subspace_angles(first, second)[::-1]), np.degrees(directions), n_rows)
