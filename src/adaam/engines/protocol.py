"""The verbs an engine provides: all work whose size grows with the number of rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector, Sparse, Tall
from adaam.engines.neighbors.graph import NeighborGraph

Result = TypeVar("Result")

# Neighbours of each row, where the engine works.
Graph: TypeAlias = NeighborGraph


@dataclass(frozen=True, slots=True)
class Clusters:
    """The best of several k-means runs: centres on the host, a label for every row."""

    centers: FloatMatrix
    labels: IntVector
    inertia: float


class ClusterSums(NamedTuple):
    """Of labelled rows: weighted sums and weights of clusters, sums of squares of columns, and largest coordinate."""

    sums: FloatMatrix
    weights: FloatVector
    squares: FloatVector
    largest: float


class Half(Protocol):
    """Half H of a symmetric affinity H + H', sparse, where the engine works."""

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
    """Where the n-sized work happens: what a verb returns as a matrix is small and on the host.

    What has one number a row stays with the engine, as a column: a vector of its own kind, or a plain float where all
    rows have the same number. `weights` is a column of how many coincident rows each row stands for.
    """

    @property
    def name(self) -> str:
        """What `engine_` says."""
        ...

    def own(self, X: Any, at_least: int | None = None) -> Any | None:
        """Return X if it is an array of the engine's own kind, which scikit-learn cannot check; else None.

        With `at_least`, it is checked to be rows: two dimensions, so many rows, floating point, finite.
        """
        ...

    def each(self, work: Callable[[int], Result], items: Sequence[int]) -> Iterator[Result]:
        """Do work that calls the engine for each item, side by side where that is faster; results in order."""
        ...

    def asarray(self, value: Any) -> Any:
        """Bring a value to where the engine works, without changing the caller's.

        Rows; one number a row, in float64, where a float stays one; a `NeighborGraph`, such as one that the caller
        computed; or a half affinity of the host, as a `HostHalf`.
        """
        ...

    def to_host(self, value: Any, like: Any = None) -> Any:
        """Bring a tall array or a column to the host as NumPy, or to the kind of array that `like` is, where it is."""
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

        `between_rows` gives the n x n inner products of root * z instead, of the same eigenvalues; asked for only when
        n < d.
        """
        ...

    def project(self, X: Tall, scale: Column, mean: FloatVector, components: FloatMatrix) -> Tall:
        """Return (scale * x - mean) @ components.T for each row, in the wider precision of X and components.

        An engine may keep many float32 rows in float32.
        """
        ...

    def neighbor_graph(self, X: Tall, n_neighbors: int, weights: Column) -> Graph:
        """Return the graph of nearest others, rows tied at the last place sharing it."""
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
        """Prune PP' to its t entries of largest magnitude; return the cut, X'(D - A)X and the row sums of the pruned.

        The cut is the t-th largest magnitude, where entry (i, j) counts weights[i] * weights[j] times for i != j, and
        diagonal[i] times for i == j; a `cut` that is known is taken in place of t. S holds the off-diagonal entries
        that are kept, from the magnitude `kept_from` the cut on, and W the weights. A is WSW, or with a `half` H,
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
        """Return what centres, sizes and spreads of clusters follow from, in float64, with rows taken from a centre."""
        ...

    def nearest_known(self, Z: Tall, known: FloatMatrix, n_nearest: int) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest of some known points of each row, nearest first; on the host.

        Of a single nearest point, the first one on a tie.
        """
        ...


def pruned_laplacian(engine: Engine, gram: FloatMatrix, degrees: Column, X: Tall, half: Half | None) -> FloatMatrix:
    """X'(D - A)X from X'WSWX and WSw, as `Engine.cut_laplacian` has it."""
    if half is None:
        return engine.cross(X, X, degrees) - gram
    links = half.gram(X)
    return engine.cross(X, X, degrees + half.degrees()) - gram - links - links.T
