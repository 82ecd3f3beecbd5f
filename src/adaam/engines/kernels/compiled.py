"""The compiled loops, together; importing this module imports numba."""

from adaam.engines.kernels.away import rows_away
from adaam.engines.kernels.measuring import keep_best, measure_pairs
from adaam.engines.kernels.pruning import add_listed, add_survivors, magnitudes, tally_tile
from adaam.engines.kernels.ranking import by_row, keep_nearest, nearest_few, rank
from adaam.engines.kernels.screening import within_near
from adaam.engines.kernels.searching import within_bounds
from adaam.engines.kernels.skipping import add_scatter, centred_scatter, project_rows

__all__ = [
    "add_listed",
    "add_scatter",
    "add_survivors",
    "by_row",
    "centred_scatter",
    "keep_best",
    "keep_nearest",
    "magnitudes",
    "measure_pairs",
    "nearest_few",
    "project_rows",
    "rank",
    "rows_away",
    "tally_tile",
    "within_bounds",
    "within_near",
]
