"""The methods ("verbs") that an engine provides: all work that grows with the number of rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector, Sparse, Tall
from adaam.engines.neighbors.graph import NeighborGraph

Result = TypeVar("Result")

# Neighbours of each row, stored where the engine works.
Graph: TypeAlias = NeighborGraph


@dataclass(frozen=True, slots=True)
class Clusters:
    """The best of several k-means runs: centres on the host, a label for every row."""

    centers: FloatMatrix
    labels: IntVector
    inertia: float


class ClusterSums(NamedTuple):
    """Weighted sum of the rows and weight of each cluster, sum of squares of each feature, largest magnitude."""

    sums: FloatMatrix
    weights: FloatVector
    squares: FloatVector
    largest: float


class Half(Protocol):
    """Half H of a symmetric affinity H + H', sparse, stored where the engine works."""

    def host(self) -> Sparse:
        """Bring the entries of H to the host."""
        ...

    def degrees(self) -> Column:
        """Row sums of H + H'."""
        ...

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X' H X for the engine's rows, in float64 on the host."""
        ...


class Engine(Protocol):
    """Backend for all work that grows with the number of rows; matrices that it returns are small and on the host.

    One number per row stays with the engine, as a column: a vector of its own kind, or a plain float if all rows have
    the same number. `weights` is a column: how many equal rows each row stands for.
    """

    @property
    def name(self) -> str:
        """Name of the engine, the value of `engine_`."""
        ...

    def own(self, X: Any, at_least: int | None = None) -> Any | None:
        """Return X if it is an array of the engine's own kind, which scikit-learn cannot check; else None.

        With `at_least`, X is checked: two dimensions, at least so many rows, floating point, finite.
        """
        ...

    def each(self, work: Callable[[int], Result], items: Sequence[int]) -> Iterator[Result]:
        """Call `work`, which uses the engine, for each item, in parallel if that is faster; results in order."""
        ...

    def asarray(self, value: Any) -> Any:
        """Bring a value to where the engine works; the caller's value is not modified.

        A value is rows; a column, which becomes float64 (a float stays a float); a `NeighborGraph`, for example one
        that the caller computed; or a half affinity on the host, as a `HostHalf`.
        """
        ...

    def to_host(self, value: Any, like: Any = None) -> Any:
        """Bring a tall array or a column to the host as NumPy, or to the kind of array and the device of `like`."""
        ...

    def distinct(self, X: Tall, weights: Column) -> tuple[Tall, Column]:
        """Return the distinct rows of positive weight, in order of first appearance, and the total weight of each."""
        ...

    def row_norms(self, X: Tall) -> Column:
        """Euclidean length of each row."""
        ...

    def cross(self, A: Tall | None, B: Tall, weights: Column = 1.0) -> FloatMatrix:
        """Return the sum over rows of weight * a b', in float64; None stands for a column of ones."""
        ...

    def scatter(
        self, X: Tall, scale: Column, mean: FloatVector, weights: Column, *, between_rows: bool = False
    ) -> FloatMatrix:
        """Return the d x d sum over rows of weight * z z' with z = scale * x - mean.

        `between_rows` returns the n x n inner products of sqrt(weight) * z instead, with the same nonzero eigenvalues;
        used only if n < d.
        """
        ...

    def project(self, X: Tall, scale: Column, mean: FloatVector, components: FloatMatrix) -> Tall:
        """Return (scale * x - mean) @ components.T for each row, in the wider precision of X and components.

        An engine may keep many float32 rows in float32.
        """
        ...

    def neighbor_graph(self, X: Tall, n_neighbors: int, weights: Column) -> Graph:
        """Return the graph of the nearest other rows; rows tied at the k-th place share it."""
        ...

    def cut_laplacian(
        self,
        P: Tall,
        t: float,
        X: Tall,
        weights: Column,
        diagonal: Column,
        half: Half | None = None,
        *,
        cut: float | None = None,
    ) -> tuple[float, FloatMatrix, Column]:
        """Prune PP' to its t entries of largest magnitude; return the cut, X'(D - A)X and the row sums of WSW.

        The cut is the t-th largest magnitude, with multiplicity: entry (i, j) counts weights[i] * weights[j] times for
        i != j, and diagonal[i] times for i == j; a known `cut` replaces t. S holds the off-diagonal entries that are
        kept, those of magnitude at least `kept_from(cut)`, and W the weights. A is WSW, or with a `half` H,
        WSW + H + H'. D holds the row sums of A; those returned are WSw.
        """
        ...

    def eigh(self, A: FloatMatrix) -> tuple[FloatVector, FloatMatrix]:
        """All eigenpairs of a small symmetric matrix in float64, values ascending; both on the host."""
        ...

    def kmeans(self, Z: Tall, n_clusters: int, n_init: int, seed: int, weights: Column) -> Clusters:
        """Best of `n_init` k-means++ runs by inertia; independent of the order of rows."""
        ...

    def cluster_sums(
        self, Z: Tall, labels: IntVector, weights: Column, n_clusters: int, center: FloatVector | None = None
    ) -> ClusterSums:
        """Return the sums behind centres, sizes and spreads of clusters, in float64; rows minus `center`, if given."""
        ...

    def nearest_known(self, Z: Tall, known: FloatMatrix, n_nearest: int) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the known points nearest to each row, nearest first; on the host.

        If `n_nearest` is 1, the first of several points at the same distance.
        """
        ...


def pruned_laplacian(engine: Engine, gram: FloatMatrix, degrees: Column, X: Tall, half: Half | None) -> FloatMatrix:
    """Return X'(D - A)X as defined in `Engine.cut_laplacian`, from X'WSWX (`gram`) and WSw (`degrees`)."""
    if half is None:
        return engine.cross(X, X, degrees) - gram
    links = half.gram(X)
    return engine.cross(X, X, degrees + half.degrees()) - gram - links - links.T
