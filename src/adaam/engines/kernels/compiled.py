"""The compiled loops, together; importing this module imports numba."""

from adaam.engines.kernels.measuring import keep_best, measure_pairs
from adaam.engines.kernels.pruning import add_listed, add_survivors, magnitudes, tally_tile
from adaam.engines.kernels.searching import keep_nearest, rank, within_bounds

__all__ = [
    "add_listed",
    "add_survivors",
    "keep_best",
    "keep_nearest",
    "magnitudes",
    "measure_pairs",
    "rank",
    "tally_tile",
    "within_bounds",
]
