"""Loops over given pairs of rows of two blocks: their distances, and the nearest of each row."""

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.kernels.compiling import compiled, compiled_in_lanes


@compiled_in_lanes
def squared_distance(A: FloatMatrix, i: int, B: FloatMatrix, j: int) -> float:
    """Squared distance of two rows, from differences."""
    total = 0.0
    for k in range(A.shape[1]):
        difference = A[i, k] - B[j, k]
        total += difference * difference
    return total


@compiled
def measure_pairs(
    A: FloatMatrix,
    B: FloatMatrix,
    bounds: FloatVector,
    other_bounds: FloatVector,
    n_pairs: int,
    rows: IntVector,
    columns: IntVector,
    squares: FloatVector,
) -> int:
    """Keep the pairs whose squared distance, from differences, is within the bound of the row they are for.

    Rows of B are numbered after those of A, and the first of a pair is the row that it is for. What is kept moves to
    the front; return its number.
    """
    n = len(A)
    n_kept = 0
    for q in range(n_pairs):
        row, column = rows[q], columns[q]
        if row < n:
            square, bound = squared_distance(A, row, B, column - n), bounds[row]
        else:
            square, bound = squared_distance(A, column, B, row - n), other_bounds[row - n]
        rows[n_kept] = row
        columns[n_kept] = column
        squares[n_kept] = square
        n_kept += square <= bound
    return n_kept


@compiled
def keep_best(
    rows: IntVector, others: IntVector, squares: FloatVector, pairs: IntMatrix, numbers: IntMatrix, nearest: FloatMatrix
) -> None:
    """Put pairs into the lists of their rows, sorted by squared distance, the lower number first on a tie.

    Of each place in a list the number of the pair is kept, that of the other row, and the squared distance.
    """
    k = pairs.shape[1]
    for q in range(len(rows)):
        i, other, square = rows[q], others[q], squares[q]
        place = k
        while place > 0 and (
            square < nearest[i, place - 1] or (square == nearest[i, place - 1] and other < numbers[i, place - 1])
        ):
            place -= 1
            if place + 1 < k:
                nearest[i, place + 1] = nearest[i, place]
                numbers[i, place + 1] = numbers[i, place]
                pairs[i, place + 1] = pairs[i, place]
        if place < k:
            nearest[i, place] = square
            numbers[i, place] = other
            pairs[i, place] = q
