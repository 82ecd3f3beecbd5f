"""CAN and PCAN: clustering with adaptive neighbours, and projected clustering with them.

Each row distributes a weight of 1 over its neighbours, in closed form given squared distances. The graph and the
eigenvectors of its Laplacian's smallest eigenvalues are learned together, until it has c connected components.
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array, vstack
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_clusters, check_components, check_whole, host_rows, in_kind, warn_caller
from adaam._typing import BoolArray, FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.affinity import SparseAffinity, laplacian_gram
from adaam.engines import Engine, resolve_engine
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.phases import CallbackSupportMixin, fit_phases, with_callbacks
from adaam.graph import check_neighbors
from adaam.linalg import Projection, unit_columns, whitened_eigenpairs, whitening
from adaam.prepare import LinearMap, Preparation, Sample, prepared_sample, resolve_preparation

# Default number of neighbours, that of the authors' code.
USUAL_NEIGHBORS = 15
# Edges up to this weight are dropped: Nie's code takes eigenvalue sums below it as zero, and such an edge adds no more.
WEAKEST_EDGE = 1e-11
BLOCK_BYTES = 1 << 25  # memory for the distances of one block of rows to all others

# Lanczos needs many more rows than wanted vectors; with fewer, a dense eigensolver is used.
FEWEST_ROWS = 64
ROWS_PER_VECTOR = 4

# Error of an eigenvalue relative to twice the largest degree. Vectors only guide a graph that is rebuilt many times.
TOLERANCE = 1e-10

# Maps the last graph, c spectral vectors and the penalty on distances between them to the rows of the next graph.
Rebuild: TypeAlias = Callable[[csr_array, FloatMatrix, float], csr_array]
Keep: TypeAlias = Callable[[csr_array], None]  # stores attributes that follow from the final graph


class Start(NamedTuple):
    """The initial graph of k nearest neighbours, and its gamma."""

    indices: IntMatrix  # (n, k)
    squared_distances: FloatMatrix  # (n, k)
    weights: csr_array  # symmetric, (n, n)
    gamma: float


@dataclass(eq=False, repr=False)
class CAN(CallbackSupportMixin, ClusterMixin, BaseEstimator):
    """Cluster rows by learning a neighbour graph with as many connected components as there are clusters.

    The weights of the graph and its spectral vectors are updated alternately: each row distributes a weight of 1 over
    its nearest neighbours, by a distance that includes the distance between spectral vectors. The connected components
    of the final graph are the clusters, so neither k-means nor random numbers are needed.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters c.
    n_neighbors : int, default=None
        Neighbours of each row; None means 15, the value of the authors' code, or n_samples - 2 if that is smaller.
    max_iter : int, default=30
        Maximum number of graphs built.
    preparation : {"center", "unit", "linear"} or Preparation, default="center"
        How rows are prepared; centring changes no distance.
    engine, verbose
        As in `AdaAM`; each iteration is logged with its penalty, number of connected components and time.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row: its connected component of the graph, numbered in order of first appearance.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The learned graph, symmetric.
    n_iter_ : int
        Number of graphs built.
    engine_, n_features_in_, feature_names_in_
        As in `AdaAM`.

    See Also
    --------
    PCAN : The same in a projection learned together with the graph; it can also assign new rows.

    Notes
    -----
    Equal rows are not merged: each is a node of the graph. The neighbours of a row are always the k nearest prepared
    rows, so a neighbour graph of more than c connected components cannot be joined; a larger `n_neighbors` helps. If
    the final graph does not have c components, a `ConvergenceWarning` is given and the labels are its components.

    References
    ----------
    F. Nie, X. Wang, H. Huang, "Clustering and Projected Clustering with Adaptive Neighbors", KDD 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> from adaam import CAN
    >>> X, _ = make_blobs(60, centers=3, random_state=0, cluster_std=0.4)
    >>> np.bincount(CAN(n_clusters=3).fit_predict(X))
    array([20, 20, 20])
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_neighbors: int | None = None
    max_iter: int = 30
    preparation: str | Preparation = "center"
    engine: str | Engine = "auto"
    verbose: int = 0

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows and return the clusterer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Ignored.
        """
        n_clusters = check_whole("n_clusters", self.n_clusters)
        max_iter = check_whole("max_iter", self.max_iter)
        preparation = resolve_preparation(self.preparation)
        engine = resolve_engine(self.engine)
        X = self._rows(X, reset=True)
        check_clusters(n_clusters, X.shape[0])
        if self.n_neighbors is None:
            n_neighbors = max(1, min(USUAL_NEIGHBORS, X.shape[0] - 2))
        else:
            n_neighbors = check_whole("n_neighbors", self.n_neighbors)
            check_neighbors(n_neighbors, X.shape[0])

        prepared, sample = prepared_sample(X, None, preparation, engine, rows_are_nodes=True)
        with fit_phases(self, max_iter, X) as phase:
            start = nearest_start(sample, n_neighbors)
            rebuild, keep = self._rules(X, prepared, sample, start)
            for n_iter, found in enumerate(islice(alternation(start, rebuild, n_clusters), max_iter), 1):
                penalty, weights, pieces = found
                n_pieces = int(pieces.max()) + 1
                phase.step(f"iteration {n_iter}", f": lambda {penalty:.3g}, {n_pieces} components")
            if n_pieces != n_clusters:
                remedy = "larger" if n_pieces > n_clusters else "smaller"
                warn_caller(
                    f"The learned graph has {n_pieces} connected components after {n_iter} iterations, not "
                    f"n_clusters={n_clusters}; labels_ are those components. Try a {remedy} n_neighbors, or more "
                    "max_iter.",
                    ConvergenceWarning,
                )
            self.labels_, self.affinity_matrix_, self.n_iter_ = pieces, weights, n_iter
            self.engine_ = engine.name
            keep(weights)
        return self

    def _rows(self, X: Any, *, reset: bool) -> Any:
        return host_rows(self, X, reset=reset)[0]

    def _rules(self, X: Any, prepared: LinearMap, sample: Sample, start: Start) -> tuple[Rebuild, Keep]:
        """Rows distribute weight over their k nearest neighbours; nothing but the graph is stored."""

        def rebuild(_: csr_array, F: FloatMatrix, penalty: float) -> csr_array:
            apart = np.column_stack([np.square(F - F[near]).sum(axis=1) for near in start.indices.T])
            distances = start.squared_distances + penalty * apart
            return spread_rows(start.indices, distances, start.gamma, len(F))[0]

        return rebuild, lambda weights: None

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False)
class PCAN(LinearMetric, CAN):
    """Learn a linear map and, in it, a neighbour graph with as many connected components as there are clusters.

    Graph, map and spectral vectors are updated alternately: each row distributes a weight of 1 over the rows near it in
    the map, by a distance that includes the distance between spectral vectors, until the graph has exactly `n_clusters`
    connected components. These are the clusters.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters c.
    n_neighbors : int, default=None
        Neighbours of each row in the first graph; they determine how widely rows distribute weight in all later ones.
        None means as in `CAN`.
    max_iter, preparation, engine, verbose
        As in `CAN`. The preparation "center" removes nothing but directions in which the rows do not vary.
    n_components : int, default=None
        Dimension of the learned space; None means `n_clusters`, or the rank of the data if that is smaller.
        (The authors' code takes one less.)

    Attributes
    ----------
    labels_, affinity_matrix_, n_iter_
        As in `CAN`.
    embedding_ : ndarray of shape (n_samples, n_components_)
        Training rows in the learned space, to which `predict` compares new ones.
    components_, eigenvalues_, mean_, covariance_, n_components_, n_neighbors_, preparation_, engine_
        As in `AdaAM`, like `n_features_in_` and `feature_names_in_`.

    Notes
    -----
    From the same paper as `CAN`: equal rows are not merged, and a `ConvergenceWarning` is given. Memory is that of the
    rows, the graph and one block of distances; there is no n x n array and no full eigendecomposition. If there are
    about as many dimensions as rows, a linear map can separate rows in any way, and once there are too many connected
    components no penalty joins them again; fewer principal components, `preparation=Preparation("none", 0.95)`, help.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> from adaam import PCAN
    >>> X, _ = make_blobs(60, 5, centers=3, random_state=0)
    >>> model = PCAN(n_clusters=3).fit(X)
    >>> np.bincount(model.labels_)
    array([20, 20, 20])
    >>> model.transform(X).shape
    (60, 3)
    """

    _: KW_ONLY
    n_components: int | None = None

    def _rules(self, X: Any, prepared: LinearMap, sample: Sample, start: Start) -> tuple[Rebuild, Keep]:
        """Rows distribute weight over all rows, by distance in a projection learned from the last graph and stored."""
        rows, engine, n = sample.X, sample.engine, sample.n_rows
        n_components = check_components(self.n_components, self.n_clusters, rows.shape[1])
        white = whitening(sample.gram, n)

        def projection(weights: csr_array) -> Projection:
            roughness = laplacian_gram(SparseAffinity(weights, engine), rows, engine)
            pairs = whitened_eigenpairs(roughness, white, n_components)
            # Unit length, as in the authors' code. Components orthonormal under the scatter, as in the paper, would
            # shrink distances to 1/n of those that gamma was computed from, and the graph would become dense.
            return Projection(np.ascontiguousarray(unit_columns(pairs.vectors).T), pairs.values)

        def rebuild(weights: csr_array, F: FloatMatrix, penalty: float) -> csr_array:
            Z = engine.project(rows, 1.0, np.zeros(rows.shape[1]), projection(weights).components)
            Y = np.hstack([np.asarray(engine.to_host(Z), np.float64), np.sqrt(penalty) * F])
            # The next graph will have about as many neighbours per row as the last one.
            return neighbors_among_all(Y, start.gamma, n_candidates=max(64, weights.nnz // n))

        def keep(weights: csr_array) -> None:
            self._store_map(prepared, projection(weights), sample.moments, X.dtype, engine)
            self.n_neighbors_ = start.indices.shape[1]
            self.embedding_ = engine.to_host(self._map().apply(X, engine))

        return rebuild, keep

    @in_kind
    def predict(self, X: Any) -> IntVector:
        """Return the cluster of each row: that of the training row nearest to it in the learned space.

        Clusters are connected components of a graph and need not be convex, so nearest centres would be a worse guide.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to assign.
        """
        check_is_fitted(self)
        engine = self._engine()
        Z = self._map().apply(self._rows(X, reset=False), engine)
        nearest, _ = engine.nearest_known(Z, self.embedding_, 1)
        return np.asarray(self.labels_[nearest[:, 0]])


def nearest_start(sample: Sample, k: int) -> Start:
    """Graph of exactly k neighbours per row, and the mean of the rows' gammas.

    The gamma of a row is the one for which the (k+1)-th nearest row is the first to get weight 0,
    (k d_{k+1} - sum of d_1..d_k) / 2: then s_j = (d_{k+1} - d_j) / (2 gamma).
    """
    n = sample.n_rows
    width = min(k + 1, n - 1)
    graph = sample.engine.neighbor_graph(sample.X, width, 1.0).host()
    nearest = graph.starts[:-1, None] + np.arange(width)  # of rows tied at the last place, the first ones
    indices, squared = graph.indices[nearest], graph.distances[nearest] ** 2
    # If there is no row beyond the k-th, the k-th is used in its place.
    near, beyond = squared[:, :k], squared[:, -1:]
    gammas = (beyond - near).sum(axis=1, keepdims=True) / 2
    weights = simplex_rows(near, gammas)
    directed = csr_array((weights.ravel(), indices[:, :k].ravel(), np.arange(n + 1) * k), shape=(n, n))
    return Start(indices[:, :k], near, csr_array((directed + directed.T) / 2), float(gammas.mean()))


def alternation(start: Start, rebuild: Rebuild, n_clusters: int) -> Iterator[tuple[float, csr_array, IntVector]]:
    """Rebuild a symmetric graph from its own spectral vectors until it has exactly c connected components.

    Yields each penalty, the resulting graph, and the component of each row. The penalty is doubled while there are too
    few components and halved while there are too many. The authors count the zero eigenvalues of the Laplacian, with a
    tolerance; there are as many as components.
    """
    weights = start.weights
    # If gamma is zero (k + 1 nearest all equally far), the penalty may start at any scale.
    penalty = start.gamma or float(start.squared_distances.mean()) or 1.0
    n_pieces = 0
    while n_pieces != n_clusters:
        if n_pieces < n_clusters:
            F = spectral_vectors(weights, n_clusters)
        # The vectors of a graph with too many components would keep them apart, so the previous ones are used.
        directed = rebuild(weights, F, penalty)
        weights = csr_array((directed + directed.T) / 2)
        pieces = graph_pieces(weights)
        yield penalty, weights, pieces
        n_pieces = int(pieces.max()) + 1
        penalty *= 2 if n_pieces < n_clusters else 0.5


def simplex_rows(squared_distances: FloatMatrix, gamma: Any) -> FloatMatrix:
    """Minimise sum_j (d_j s_j + gamma s_j²) over the probability simplex, row by row; each row of d ascends.

    The minimiser is s_j = max(0, t - d_j) / (2 gamma) with t such that the row sums to 1: the projection of
    -d / (2 gamma) onto the simplex. With a gamma of 0 the nearest get equal weights. Gamma is a number, or a
    column with one for each row.
    """
    # Relative to the nearest, so that a small gamma is not lost in the rounding of large distances.
    beyond = squared_distances - squared_distances[:, :1]
    reach = (2.0 * gamma + np.cumsum(beyond, axis=1)) / np.arange(1, beyond.shape[1] + 1)
    n_taken = np.count_nonzero(reach > beyond, axis=1)
    reach = reach[np.arange(len(reach)), np.maximum(n_taken, 1) - 1]
    # n_taken is 0 if gamma is 0 or lost in rounding.
    weights = np.where((n_taken > 0)[:, None], np.maximum(reach[:, None] - beyond, 0.0), beyond == 0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def spread_rows(
    candidates: IntMatrix, squared_distances: FloatMatrix, gamma: float, n: int
) -> tuple[csr_array, BoolArray]:
    """Rows of a graph that distribute weight over given candidates only, and whether the farthest one got any.

    Candidates and their distances have shape (b, k). Edges up to `WEAKEST_EDGE` are dropped.
    """
    order = np.argsort(squared_distances, axis=1, kind="stable")
    columns = np.take_along_axis(candidates, order, axis=1)
    weights = simplex_rows(np.take_along_axis(squared_distances, order, axis=1), gamma)
    kept = weights > WEAKEST_EDGE
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    graph = csr_array((weights[kept], columns[kept], starts), shape=(len(columns), n))
    graph.sort_indices()
    return graph, weights[:, -1] > 0


def neighbors_among_all(Y: FloatMatrix, gamma: float, *, n_candidates: int = 64) -> csr_array:
    """Graph of rows that distribute weight over all rows, themselves included, by squared distance in Y.

    Exact without an n x n array: the neighbours of a row are its nearest rows, so m candidates suffice if the last of
    them gets no weight; other rows are processed again with twice as many. Rows of the graph are non-negative and sum
    to 1 up to the weakest edges, which are dropped; the graph is not symmetric.
    """
    squares = np.einsum("ij,ij->i", Y, Y)
    # Distances within the rounding of the product are set to zero, so that coincident rows have distance zero.
    floor = 32 * float(np.finfo(np.float64).eps) * float(squares.max())

    def block_graph(rows: slice) -> csr_array:
        distances = squares[rows, None] + squares - 2.0 * (Y[rows] @ Y.T)
        distances[distances < floor] = 0.0
        return _spread(distances, gamma, n_candidates)

    height = max(1, BLOCK_BYTES // (8 * len(Y)))
    return csr_array(vstack(list(ordered_map(block_graph, row_blocks(len(Y), height)))))


def _spread(distances: FloatMatrix, gamma: float, n_candidates: int) -> csr_array:
    """Rows of the graph for a block of squared distances to all n rows."""
    n = distances.shape[1]
    width = min(n_candidates + 1, n)
    columns = np.argpartition(distances, width - 1, axis=1)[:, :width]
    graph, is_full = spread_rows(columns, np.take_along_axis(distances, columns, axis=1), gamma, n)
    # If the last candidate gets no weight, no farther row would.
    cut_short = np.flatnonzero(is_full)
    if width == n or len(cut_short) == 0:
        return graph
    place = np.arange(len(distances))
    place[cut_short] = len(distances) + np.arange(len(cut_short))
    return csr_array(vstack([graph, _spread(distances[cut_short], gamma, 2 * n_candidates)]))[place]


def graph_pieces(weights: csr_array) -> IntVector:
    """Connected component of each row, numbered in order of first appearance."""
    _, piece = connected_components(weights, directed=False)
    _, first, piece = np.unique(piece, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[piece], dtype=np.intp)


def spectral_vectors(weights: csr_array, n_vectors: int) -> FloatMatrix:
    """Eigenvectors of the smallest eigenvalues of D - A for a symmetric, non-negative sparse A with row sums D.

    The eigenvalue zero has the multiplicity of the number of connected components, which Lanczos iteration from one
    start vector finds only through rounding. So the null space is constructed (a constant on each component), and only
    the other vectors are computed. If there are more components than `n_vectors`, the largest components are used.
    """
    piece = graph_pieces(weights)
    sizes = np.bincount(piece)
    largest = np.argsort(-sizes, kind="stable")[:n_vectors]
    constant: FloatMatrix = (piece[:, None] == largest) / np.sqrt(sizes[largest])
    if len(largest) == n_vectors:
        return constant
    return np.hstack([constant, _vectors_beyond_pieces(weights, piece, sizes, n_vectors - len(largest))])


def _vectors_beyond_pieces(weights: csr_array, piece: IntVector, sizes: IntVector, n_vectors: int) -> FloatMatrix:
    """Eigenvectors of the smallest eigenvalues that are orthogonal to the constants on the connected components."""
    n = weights.shape[0]
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    # No eigenvalue exceeds twice the largest degree. Subtracted from this bound, the smallest become the largest, and
    # the constants are moved to the other end of the spectrum.
    bound = 2.0 * float((degrees - weights.diagonal()).max())
    if n <= max(FEWEST_ROWS, ROWS_PER_VECTOR * n_vectors):
        same = (piece[:, None] == piece) / sizes[piece]
        return np.asarray(eigh((diags_array(degrees) - weights).toarray() + 2.0 * bound * same)[1][:, :n_vectors])

    def without_constants(v: FloatVector) -> FloatVector:
        return np.asarray(v - (np.bincount(piece, v) / sizes)[piece])

    def multiply(v: FloatVector) -> FloatVector:
        u = without_constants(v.ravel())
        return without_constants(bound * u - degrees * u + weights @ u)

    operator = LinearOperator((n, n), matvec=multiply, dtype=np.float64)
    # A fixed start makes the result the same from run to run.
    start = without_constants(np.random.default_rng(0).standard_normal(n))
    n_steps = min(n, max(4 * n_vectors, 48))
    values, vectors = eigsh(operator, k=n_vectors, ncv=n_steps, v0=start, tol=TOLERANCE, maxiter=100 * n, which="LA")
    return np.asarray(vectors[:, np.argsort(-values, kind="stable")])
