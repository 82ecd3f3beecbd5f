"""Small dense symmetric algebra: generalised eigenpairs on data of deficient rank, left singular vectors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import linalg
from threadpoolctl import ThreadpoolController

from adaam._typing import ColumnScaling, FloatMatrix, FloatVector

# Rounding in X'DX grows with the number of rows it sums over, so the floor does too. Measured on 180 clouds
# with a redundant or constant feature: "<= 0" keeps a null direction in 115, d * eps in 27, this rule in none.
SMALLEST_FLOOR = 1e-12

# Eigenvalues closer than this share of the spectrum count as equal; their own vectors are rounding.
TIE_TOLERANCE = 1e-11

ONE_THREAD_SIZE = 2048

# Below this reciprocal condition a Cholesky factor is not trusted with whitening.
LEAST_RCOND = 1e-8

# Least share of the mean degree that a direction counts with: directions of ordinary rows have far more, and with less
# its eigenvalue would be so large that all others looked equal beside it.
LEAST_DEGREE = 1e-6


class Eigenpairs(NamedTuple):
    """Eigenvalues (r,) and the matching eigenvectors as columns (d, r)."""

    values: FloatVector
    vectors: FloatMatrix


class Projection(NamedTuple):
    """A linear map of prepared rows: components (m, d), and the eigenvalues (m,) they belong to."""

    components: FloatMatrix
    eigenvalues: FloatVector


# All eigenpairs of a symmetric matrix, values ascending: `eigh` below, or an engine's own.
SymmetricSolver: TypeAlias = Callable[[FloatMatrix], tuple[FloatVector, FloatMatrix]]


def rank_floor(n_samples: int) -> float:
    """Eigenvalues of a Gram matrix at or below this share of the largest one count as zero."""
    return max(SMALLEST_FLOOR, n_samples * float(np.finfo(np.float64).eps))


@cache
def thread_pools() -> ThreadpoolController:
    """Thread pools of the libraries loaded here, BLAS among them; looking for them costs milliseconds."""
    return ThreadpoolController()


_LIMITS_LOCK = Lock()
_LIMITS: list[Any] = []  # an entry for each thread inside `one_blas_thread`; the first one in has set the limit


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while any thread is inside: the first one in sets the limit, the last one out lifts it.

    The limit is that of the process: if each thread restored what it had found, the last one could restore a limit that
    another has long left.
    """
    with _LIMITS_LOCK:
        if _LIMITS:
            _LIMITS.append(None)
        else:
            _let_any_thread_limit()
            _LIMITS.append(thread_pools().select(user_api="blas").limit(limits=1))
            _let_any_thread_limit()
    try:
        yield
    finally:
        with _LIMITS_LOCK:
            set_here = _LIMITS.pop()
            if not _LIMITS:
                _let_any_thread_limit()
                set_here.restore_original_limits()
                _let_any_thread_limit()


def _let_any_thread_limit() -> None:
    """Forget which thread set a limit: from threadpoolctl 3.8 on, limits set by other threads are ignored silently."""
    for library in thread_pools().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


def eigh(A: FloatMatrix) -> tuple[FloatVector, FloatMatrix]:
    """All eigenpairs of a symmetric matrix, values ascending.

    Up to moderate sizes on one thread: a second one gains little, waits in a spin on a busy machine (ten times slower
    there), and would make the bits depend on the number of threads. Divide and conquer takes half the time of LAPACK's
    default when all pairs are wanted. Features that are zero throughout, and principal components, are coupled to no
    other: each has a pair of its own, and LAPACK need not see it.
    """
    values, vectors = np.diagonal(A).astype(np.float64), np.eye(len(A))
    coupled = np.flatnonzero(np.count_nonzero(A, axis=0) > (values != 0))
    if len(coupled):  # LAPACK refuses nothing at all
        within = np.ix_(coupled, coupled)
        with nullcontext() if len(coupled) > ONE_THREAD_SIZE else one_blas_thread():
            values[coupled], vectors[within] = linalg.eigh(A[within], driver="evd")
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


def symmetric(A: FloatMatrix) -> FloatMatrix:
    """Return the symmetric part of A in float64."""
    A = np.asarray(A, dtype=np.float64)
    return (A + A.T) / 2


def range_eigenpairs(B: FloatMatrix, n_samples: int, eigh: SymmetricSolver = eigh) -> Eigenpairs:
    """Eigenpairs of a Gram matrix above the rank floor, largest first."""
    values, vectors = eigh(symmetric(B))
    kept = values > max(values[-1], 0.0) * rank_floor(n_samples)
    return Eigenpairs(values[kept][::-1], vectors[:, kept][:, ::-1])


def whitening(B: FloatMatrix, n_samples: int, eigh: SymmetricSolver = eigh) -> FloatMatrix:
    """Return the d x r matrix W with W'BW = I that spans the range of B, directions of large variance first."""
    pairs = range_eigenpairs(B, n_samples, eigh)
    return np.asarray(pairs.vectors / np.sqrt(pairs.values))


def _cholesky_whitening(B: FloatMatrix, n_samples: int) -> FloatMatrix | None:
    """Whitening by the inverse Cholesky factor of B; None where B is not positive definite or close to singular.

    A matrix far from singular has its whole space as range, and its Cholesky factor is had in a tenth of the time of
    its eigenpairs.
    """
    if len(B) == 0:
        return np.empty((0, 0))
    with one_blas_thread():
        factor, failed = linalg.lapack.dpotrf(B, lower=1)
        if failed:
            return None
        rcond, _ = linalg.lapack.dpocon(factor, np.abs(B).sum(axis=0).max(), uplo="L")
        # Two orders of magnitude above the floor no eigenvalue can be below it.
        if not rcond > max(LEAST_RCOND, 100 * rank_floor(n_samples)):
            return None
        inverse, _ = linalg.lapack.dtrtri(factor, lower=1)
    return np.asarray(np.tril(inverse).T)


def degree_whitening(
    B: FloatMatrix, even: Callable[[], FloatMatrix], n_samples: int, eigh: SymmetricSolver = eigh
) -> tuple[FloatMatrix, FloatMatrix | None]:
    """Whiten B = X'DX also where degrees D of a signed affinity make it indefinite, or vanishing ones singular.

    An affinity with negative entries can give a row, such as an outlier, a degree below zero, and a row whose heat
    weights underflow has none. B then has no positive length for the directions of such rows, which would be lost. The
    degree of a direction is a'Ba / a'Ea, where E is what B would be if all rows had the mean degree; `even` gives it,
    and is asked for only where B is not far from singular. Below `LEAST_DEGREE` it is raised to that by a matrix R: as
    if the rows that set it apart had so much more degree and no more links. R belongs to the Laplacian X'(D - A)X too,
    so that a direction without any degree has eigenvalue 1.

    Returned are W with W'(B + R)W = I, of as many columns as X has rank, and R; or None, as for every affinity of
    ordinary rows, where nothing had to be raised.
    """
    B = symmetric(B)
    W = _cholesky_whitening(B, n_samples)
    if W is not None:
        return W, None
    E = symmetric(even())
    if not np.trace(E) > 0:
        raise ValueError(
            "The degrees of the affinity have no positive sum: it links no two rows, or its negative entries outweigh "
            "the positive ones. Use a wider HeatKernel, more neighbours, or an affinity with positive row sums."
        )
    # Columns of rows that were prepared are independent of each other, however unlike their spreads.
    spreads = np.sqrt(np.where(np.diagonal(E) > 0, np.diagonal(E), 1.0))
    white = whitening(E / np.outer(spreads, spreads), n_samples, eigh) / spreads[:, None]
    degrees, directions = eigh(symmetric(white.T @ B @ white))
    raised = np.maximum(degrees, LEAST_DEGREE)
    W = white @ (directions / np.sqrt(raised))
    if raised[0] == degrees[0]:
        return W, None
    # white' E white = I, so that directions are taken back by E itself.
    along = directions.T @ white.T @ E
    return W, symmetric(along.T @ ((raised - degrees)[:, None] * along))


def degree_projection(
    laplacian: FloatMatrix,
    degree_gram: FloatMatrix,
    n_components: int,
    n_samples: int,
    even: Callable[[], FloatMatrix],
    eigh: SymmetricSolver = eigh,
    scaling: ColumnScaling = "unit",
) -> Projection:
    """Directions of the smallest eigenvalues of X'(D - A)X a = lambda X'DX a: as many as asked for or as X has rank.

    Both matrices are raised as `degree_whitening` says where X'DX is not positive definite.
    """
    W, raised = degree_whitening(degree_gram, even, n_samples, eigh)
    scale = 1.0  # eigenvalues of the degree term alone
    if raised is not None:
        laplacian = laplacian + raised
        # Rounding of the laplacian, divided by the least degree, must not tell apart what is equal: 1 for all
        # directions without degree.
        scale = 10 * float(np.finfo(np.float64).eps) / LEAST_DEGREE / TIE_TOLERANCE
    values, vectors = whitened_eigenpairs(laplacian, W, n_components, scale=scale, eigh=eigh)
    return Projection(np.ascontiguousarray((unit_columns(vectors) if scaling == "unit" else vectors).T), values)


def whitened_eigenpairs(
    A: FloatMatrix, W: FloatMatrix, n_pairs: int, *, scale: float = 0.0, eigh: SymmetricSolver = eigh
) -> Eigenpairs:
    """Smallest eigenpairs of A a = lambda B a inside the range of B, whose `whitening` is W.

    Values ascend; vectors are orthonormal under B, with no part in its null space, so that there are no more than its
    rank. Where eigenvalues are equal, directions of larger variance a'Ba / a'a come first, so that the answer is
    defined there too. `scale` is the size of eigenvalues that count as large, unless a larger one is found.
    """
    values, vectors = eigh(symmetric(W.T @ symmetric(A) @ W))
    vectors = W @ vectors
    tolerance = TIE_TOLERANCE * max(scale, float(np.abs(values).max(initial=0.0)))
    start = 0
    for stop in [*(np.flatnonzero(np.diff(values) > tolerance) + 1), len(values)]:
        if start < n_pairs and stop - start > 1:
            # Under B all tied vectors have length 1, so the shortest one has the largest variance.
            tied = vectors[:, start:stop]
            vectors[:, start:stop] = tied @ eigh(symmetric(tied.T @ tied))[1]
        start = stop
    return Eigenpairs(values[:n_pairs], vectors[:, :n_pairs])


def unit_columns(A: FloatMatrix) -> FloatMatrix:
    """Scale each column to unit Euclidean length; zero columns stay zero."""
    lengths = np.linalg.norm(A, axis=0)
    return np.asarray(A / np.where(lengths == 0, 1.0, lengths))


def projected_left_vectors(
    laplacian: FloatMatrix, white: FloatMatrix, gram: FloatMatrix, rank: int, n_samples: int, eigh: SymmetricSolver
) -> FloatMatrix:
    """Map of rows X onto the left singular vectors of XC, where C solves a pencil of this Laplacian.

    `white` is the `whitening` of its other matrix, and `gram` is X'X. With Y'Y = V S² V', those of Y are Y V / S.
    """
    C = whitened_eigenpairs(laplacian, white, rank, eigh=eigh).vectors
    return C @ whitening(C.T @ gram @ C, n_samples)
