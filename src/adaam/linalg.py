"""Small dense symmetric problems: generalised eigenpairs of rank-deficient data, left singular vectors."""

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

# Eigenvalues closer than this share of the spectrum count as equal; their individual vectors are set by rounding.
TIE_TOLERANCE = 1e-11

ONE_THREAD_SIZE = 2048  # largest eigenproblem that is solved on one thread

# Smallest reciprocal condition number for which a Cholesky factor is used for whitening.
LEAST_RCOND = 1e-8

# Smallest degree of a direction, as a share of the mean degree: directions of ordinary rows have far more, and with
# less its eigenvalue would be so large that all others would look equal in comparison.
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
    """Thread pools of the loaded libraries, BLAS among them; cached, since finding them takes milliseconds."""
    return ThreadpoolController()


_LIMITS_LOCK = Lock()
_LIMITS: list[Any] = []  # an entry for each thread inside `one_blas_thread`; the first one in has set the limit


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while any thread is inside: the first one in sets the limit, the last one out lifts it.

    The limit holds for the whole process: if each thread restored the limit it had found, the last one could restore
    that of a thread that has left already.
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

    Up to `ONE_THREAD_SIZE` on one thread: a second one gains little, spins while it waits on a busy machine (ten times
    slower there), and would make the bits depend on the number of threads. Divide and conquer takes half the time of
    LAPACK's default if all pairs are wanted. Rows without off-diagonal entries (features that are all zero, principal
    components) have eigenpairs of their own and are not passed to LAPACK.
    """
    values, vectors = np.diagonal(A).astype(np.float64), np.eye(len(A))
    coupled = np.flatnonzero(np.count_nonzero(A, axis=0) > (values != 0))
    if len(coupled):  # LAPACK rejects empty matrices
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
    """Whitening by the inverse Cholesky factor of B; None if B is close to singular or not positive definite.

    A matrix far from singular has full rank, and its Cholesky factor takes a tenth of the time of its eigenpairs.
    """
    if len(B) == 0:
        return np.empty((0, 0))
    with one_blas_thread():
        factor, failed = linalg.lapack.dpotrf(B, lower=1)
        if failed:
            return None
        rcond, _ = linalg.lapack.dpocon(factor, np.abs(B).sum(axis=0).max(), uplo="L")
        # A reciprocal condition number two orders of magnitude above the floor rules out eigenvalues below it.
        if not rcond > max(LEAST_RCOND, 100 * rank_floor(n_samples)):
            return None
        inverse, _ = linalg.lapack.dtrtri(factor, lower=1)
    return np.asarray(np.tril(inverse).T)


def degree_whitening(
    B: FloatMatrix, even: Callable[[], FloatMatrix], n_samples: int, eigh: SymmetricSolver = eigh
) -> tuple[FloatMatrix, FloatMatrix | None]:
    """Whiten B = X'DX, also if negative degrees D of a signed affinity make it indefinite, or zero ones singular.

    An affinity with negative entries can give a row, such as an outlier, a negative degree, and a row whose heat
    weights underflow has degree zero. B is then not positive in the directions of such rows, which would be lost. The
    degree of a direction a is a'Ba / a'Ea, where E is what B would be if all rows had the mean degree; `even` computes
    E, and is called only if B is close to singular. Degrees below `LEAST_DEGREE` are raised to it by a matrix R, as if
    the rows behind such a direction had more degree but no more links. R must be added to the Laplacian X'(D - A)X too,
    so that a direction of degree zero has eigenvalue 1.

    Returns W with W'(B + R)W = I, which has as many columns as X has rank, and R; instead of R None if nothing had to
    be raised, as for every affinity of ordinary rows.
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
    # Scaled to equal spread: columns of prepared rows are linearly independent, however different their spreads.
    spreads = np.sqrt(np.where(np.diagonal(E) > 0, np.diagonal(E), 1.0))
    white = whitening(E / np.outer(spreads, spreads), n_samples, eigh) / spreads[:, None]
    degrees, directions = eigh(symmetric(white.T @ B @ white))
    raised = np.maximum(degrees, LEAST_DEGREE)
    W = white @ (directions / np.sqrt(raised))
    if raised[0] == degrees[0]:
        return W, None
    # white' E white = I, so that multiplication by E maps directions back.
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
    """Directions of the smallest eigenvalues of X'(D - A)X a = lambda X'DX a, at most as many as X has rank.

    If X'DX is not positive definite, both matrices are raised as described in `degree_whitening`.
    """
    W, raised = degree_whitening(degree_gram, even, n_samples, eigh)
    scale = 1.0  # eigenvalues without links, where both matrices are X'DX
    if raised is not None:
        laplacian = laplacian + raised
        # Directions of degree zero all have eigenvalue 1, and rounding of the Laplacian, divided by the least degree,
        # must not separate them.
        scale = 10 * float(np.finfo(np.float64).eps) / LEAST_DEGREE / TIE_TOLERANCE
    values, vectors = whitened_eigenpairs(laplacian, W, n_components, scale=scale, eigh=eigh)
    return Projection(np.ascontiguousarray((unit_columns(vectors) if scaling == "unit" else vectors).T), values)


def whitened_eigenpairs(
    A: FloatMatrix, W: FloatMatrix, n_pairs: int, *, scale: float = 0.0, eigh: SymmetricSolver = eigh
) -> Eigenpairs:
    """Smallest eigenpairs of A a = lambda B a inside the range of B, whose `whitening` is W.

    Values ascend; vectors are orthonormal under B and have no part in its null space, so that there are at most as many
    as its rank. Among equal eigenvalues, directions of larger variance a'Ba / a'a come first, so that the result is
    defined there too. Differences are compared with the largest magnitude of all eigenvalues, or `scale` if larger.
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
    """Map from rows X to the left singular vectors of Y = XC, where C are eigenvectors of a pencil of this Laplacian.

    `white` is the `whitening` of its other matrix, and `gram` is X'X. With Y'Y = V S² V', the vectors are Y V / S.
    """
    C = whitened_eigenpairs(laplacian, white, rank, eigh=eigh).vectors
    return C @ whitening(C.T @ gram @ C, n_samples)
