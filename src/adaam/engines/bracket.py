"""A bracket of the cut, guessed from sampled pairs: whatever it misses costs a pass, never exactness."""

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import ordered_map

MAX_SAMPLED = 1 << 22  # pairs looked at, at most


def guess_bracket(P: FloatMatrix, t: float, weights: FloatVector, diagonal: FloatVector) -> tuple[float, float]:
    """Bracket the t-th largest magnitude of PP' from sampled pairs and the whole diagonal, four errors either way.

    Entries have multiplicity weights[i] * weights[j] off the diagonal, diagonal[i] on it. Rows are shuffled once, and
    each is then paired with the few that follow it: as good as pairs drawn one by one, and read in order.
    """
    n = len(P)
    order = np.random.default_rng(0).permutation(n)  # the guess affects speed alone, so its seed is nobody's business
    rows, w = P[order], weights[order]
    uniform = bool(np.all(w == 1.0))
    steps = range(1, max(2, min(MAX_SAMPLED, n * n // 512 + 4096) // n))
    total = float(weights.sum()) ** 2 - float((weights**2).sum())
    n_sampled = sum(n - step for step in steps)
    slack = 4.0 * total * np.sqrt(max(t / total, 1.0 / n_sampled) / n_sampled)

    def sampled(step: int) -> tuple[FloatVector, FloatVector]:
        values = np.abs(np.einsum("ij,ij->i", rows[:-step], rows[step:]))
        return values, w[: n - step] if uniform else w[:-step] * w[step:]

    def largest(step: int) -> tuple[FloatVector, FloatVector, float]:
        values, shares = sampled(step)
        kept = np.flatnonzero(values >= least)
        return values[kept], shares[kept], float(shares.sum())

    first = sampled(1)[0]
    n_top = int(2.0 * n * (t + slack) / total) + 64
    # Only the largest are put in order, unless they weigh so little that the cut lies below them.
    least = float(np.partition(first, -n_top)[-n_top]) if n_top < len(first) else 0.0
    while True:
        parts = list(ordered_map(largest, steps))
        unit = total / sum(share for _, _, share in parts)
        squares = np.einsum("ij,ij->i", P, P)
        above = squares >= least
        values = np.concatenate([*(part[0] for part in parts), squares[above]])
        counts = np.concatenate([*(part[1] * unit for part in parts), diagonal[above]])
        if least == 0.0 or counts.sum() >= t + slack:
            return _around(values, counts, t, slack)
        least = 0.0


def _around(values: FloatVector, counts: FloatVector, t: float, slack: float) -> tuple[float, float]:
    """Values at which `t` entries are reached, with room either way."""
    order: IntVector = np.argsort(values)[::-1]
    reached = np.cumsum(counts[order])
    first, last = np.searchsorted(reached, [t - slack, t + slack])
    bracket = values[order[np.clip([last, first], 0, len(order) - 1)]]
    return float(bracket[0]), float(bracket[1])
