"""How firm the directions of a map are: fits of two disjoint halves of the rows, compared."""

from dataclasses import dataclass

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.linalg import eigh, symmetric

FIRM_DEGREES = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class Stability:
    """Angles in degrees between what two disjoint halves of the rows teach.

    Both are angles between columns of mapped rows, so that the length of a component does not count. The fit itself
    rests on twice the rows of a half: where angles are small, its own error is about half of what is told here. What it
    does not tell is how far pairs within blocks are from all pairs.

    Attributes
    ----------
    angles : ndarray of shape (n_components,)
        Principal angles between the spaces that the two halves learn, ascending: how many directions they share.
    directions : ndarray of shape (n_components,)
        Angle of each component of the fit to the space that a half learns, the larger of the two: which components
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
        def line(name: str, values: FloatVector) -> str:
            return f"  {name:<11}" + " ".join(f"{value:5.1f}" for value in values)

        return "\n".join(
            [
                f"{self.n_firm} of {len(self.angles)} directions are firm: two halves of {self.n_rows} rows agree on "
                f"them within {FIRM_DEGREES:.0f} degrees",
                line("shared", self.angles),
                line("components", self.directions),
            ]
        )


def stability(components: FloatMatrix, halves: list[FloatMatrix], gram: FloatMatrix, n_rows: int) -> Stability:
    """Compare the maps of two halves, and each component with both; components are rows, `gram` is X'X."""
    bases = [orthonormal_rows(half, gram) for half in halves]
    unit = [orthonormal_rows(component[None], gram) for component in components]
    width = min(len(basis) for basis in bases)
    angles = principal_angles(bases[0], bases[1], gram)[:width]
    directions = [max(principal_angles(one, basis, gram)[0] for basis in bases) for one in unit]
    return Stability(angles, np.array(directions), n_rows)


def orthonormal_rows(components: FloatMatrix, gram: FloatMatrix) -> FloatMatrix:
    """Turn rows into others of the same span that are orthonormal under X'X."""
    values, vectors = eigh(symmetric(components @ gram @ components.T))
    kept = values > values[-1] * 1e-12
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T @ components)


def principal_angles(A: FloatMatrix, B: FloatMatrix, gram: FloatMatrix) -> FloatVector:
    """Principal angles in degrees between XA' and XB', ascending, for rows that are orthonormal under X'X."""
    if len(A) > len(B):
        A, B = B, A
    across = A @ gram @ B.T
    cosines = np.linalg.svd(across, compute_uv=False)
    # Sines from what is left of A beside B: a small angle is lost in the rounding of its cosine.
    rest = A - across @ B
    squares = eigh(symmetric(rest @ gram @ rest.T))[0]
    sines = np.sqrt(np.clip(squares, 0.0, 1.0))
    angles = np.where(cosines > np.sqrt(0.5), np.arcsin(sines), np.arccos(np.clip(cosines, 0.0, 1.0)))
    return np.asarray(np.degrees(np.sort(angles)))
