"""The verbs an engine provides: all work whose size grows with the number of rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector, Sparse, Tall


@dataclass(frozen=True, slots=True)
class Clusters:
    """The best of several k-means runs: centres on the host, a label for every row."""

    centers: FloatMatrix
    labels: IntVector
    inertia: float


class Engine(Protocol):
    """Where the n-sized work happens; everything an engine returns as a matrix is small and on the host.

    Vectors named `weights` hold one non-negative number a row: how many coincident rows it stands for.
    """

    @property
    def name(self) -> str:
        """What `engine_` says."""
        ...

    def accepts(self, X: Any) -> bool:
        """Whether X is an array of the engine's own kind, which the engine and not scikit-learn must check."""
        ...

    def check_rows(self, X: Any, at_least: int) -> Tall:
        """Check rows of the engine's own kind: two dimensions, `at_least` rows, floating point, finite."""
        ...

    def like(self, Z: Tall, X: Any) -> Any:
        """Return Z as the kind of array that X is: what `transform` gives back."""
        ...

    def first_equal(self, X: Tall) -> IntVector:
        """Index of the first row equal to each row."""
        ...

    def asarray(self, X: Tall) -> Tall:
        """Bring rows to where the engine works, without changing the caller's array."""
        ...

    def to_host(self, X: Tall) -> FloatMatrix:
        """Return a tall array as NumPy."""
        ...

    def row_norms(self, X: Tall) -> FloatVector:
        """Euclidean length of each row."""
        ...

    def cross(self, A: Tall, B: Tall, weights: FloatVector | None = None) -> FloatMatrix:
        """Return the sum over rows of weight * a b', in float64."""
        ...

    def scatter(self, X: Tall, scale: FloatVector, mean: FloatVector, weights: FloatVector) -> FloatMatrix:
        """Return the d x d sum over rows of weight * z z' with z = scale * x - mean."""
        ...

    def row_scatter(self, X: Tall, scale: FloatVector, mean: FloatVector) -> FloatMatrix:
        """Return the n x n inner products of scale * x - mean; asked for only when n < d."""
        ...

    def project(self, X: Tall, scale: FloatVector, mean: FloatVector, components: FloatMatrix) -> Tall:
        """Return (scale * x - mean) @ components.T for each row, in the wider precision of X and components.

        An engine may keep many float32 rows in float32.
        """
        ...

    def neighbors(self, X: Tall, n_neighbors: int, rows: IntVector | None = None) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest others of each row, or of chosen rows, nearest first."""
        ...

    def reverse_entries(self, starts: IntVector, indices: IntVector) -> IntVector:
        """Position of entry (j, i) for each entry (i, j) of compressed rows without repeated entries; -1 if absent."""
        ...

    def sparse_gram(self, weights: Sparse, X: Tall) -> FloatMatrix:
        """Return X' W X for a sparse W, in float64."""
        ...

    def cut(self, P: Tall, t: float, weights: FloatVector, diagonal: FloatVector) -> float:
        """Return the t-th largest magnitude of PP', counted with multiplicity.

        Entry (i, j) of PP' counts weights[i] * weights[j] times for i != j, and diagonal[i] times for i == j.
        """
        ...

    def pruned_gram(self, P: Tall, threshold: float, X: Tall, weights: FloatVector) -> tuple[FloatMatrix, FloatVector]:
        """Return X'WSWX and WSw, where S holds the off-diagonal entries of PP' of magnitude >= threshold."""
        ...

    def eigh(self, A: FloatMatrix) -> tuple[FloatVector, FloatMatrix]:
        """All eigenpairs of a small symmetric matrix in float64, values ascending; both on the host."""
        ...

    def kmeans(self, Z: Tall, n_clusters: int, n_init: int, seed: int, weights: FloatVector) -> Clusters:
        """Best of `n_init` k-means++ runs by inertia; independent of the order of rows."""
        ...

    def kmeans_rounds(
        self, Z: Tall, n_clusters: int, n_init: int, seeds: Sequence[int], weights: FloatVector
    ) -> list[Clusters]:
        """Return what `kmeans` gives for each seed."""
        ...

    def nearest(self, Z: Tall, centers: FloatMatrix) -> IntVector:
        """Index of the nearest centre of each row."""
        ...
