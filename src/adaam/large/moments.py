"""Preparation learned in one pass over rows that are read block by block."""

import numpy as np

from adaam._checks import check_lengths, check_magnitude, largest_magnitude, warn_caller
from adaam._typing import FloatVector
from adaam.engines import Engine
from adaam.engines.blocks import spread
from adaam.linalg import range_eigenpairs
from adaam.prepare import (
    FULL_SPECTRUM_LIMIT,
    LinearMap,
    Preparation,
    ZeroRowWarning,
    above_rounding,
    column_units,
    kept_pairs,
    principal_map,
    row_scale,
)
from adaam.progress import Teller
from adaam.rows import RowSource, checked_blocks


def stream_preparation(
    source: RowSource, weights: FloatVector | None, settings: Preparation, engine: Engine, tell: Teller
) -> LinearMap:
    """Mean and scatter of all rows, none of weight zero, in one pass, and from them the map onto kept components.

    Each block is centred on its own mean and joined to those before it (Chan, Golub and LeVeque), so that nothing is
    lost where the mean is large beside the spread.
    """
    d = source.n_features
    if d > FULL_SPECTRUM_LIMIT:
        raise ValueError(
            f"{source.label}: {d} features need a scatter matrix of {d} x {d}; rows that are read block by block are "
            f"limited to {FULL_SPECTRUM_LIMIT} features."
        )
    total, n_rows, n_zero = 0.0, 0, 0
    mean, scatter = np.zeros(d), np.zeros((d, d))
    eps, largest = 0.0, 0.0
    for start, block in checked_blocks(source):
        rows = engine.asarray(block)
        held = np.ones(len(block)) if weights is None else weights[start : start + len(block)]
        n_rows, eps = start + len(block), max(eps, float(np.finfo(block.dtype).eps))
        added = float(held.sum())
        scale = row_scale(rows, settings.row_scaling, engine)
        largest = max(largest, largest_magnitude(block))
        if settings.row_scaling == "none":
            check_magnitude(source.label, largest, block.dtype, learning=False)
        else:
            check_lengths(source.label, largest * float(np.sqrt(d)))
            # Zero rows are left as they are, at a scale of 1, which few others have.
            unscaled = np.flatnonzero(spread(engine.to_host(scale), len(block)) == 1.0)
            n_zero += int((~block[unscaled].any(axis=1)).sum())
        row_weights = engine.asarray(held)
        own_mean = engine.cross(None, rows, row_weights * scale)[0] / added
        shift = own_mean - mean
        scatter += engine.scatter(rows, scale, own_mean, row_weights)
        scatter += np.outer(shift, shift) * (total * added / (total + added))
        mean += shift * (added / (total + added))
        total += added
        tell(f"{source.label}: mean and scatter of {n_rows} rows")
    if n_zero:
        warn_caller(
            f"{n_zero} row(s) of {source.label} are all zero and cannot be scaled to unit length; they stay zero.",
            ZeroRowWarning,
        )
    if settings.row_scaling == "none":
        check_magnitude(source.label, largest, np.float32 if source.dtype == np.float32 else np.float64, learning=True)
    units = np.ones(d)
    if settings.column_scaling == "standard":
        units = column_units(above_rounding(np.diag(scatter) / total, mean, eps, total), mean)
    pairs, _ = kept_pairs(range_eigenpairs(scatter / np.outer(units, units), n_rows, engine.eigh), settings.keep)
    return principal_map(pairs, mean / units, total, (n_rows, d), eps, settings).in_units(units)
