"""Balls that hold the columns of a tile, 64 in each: what none of them can reach need not be looked at."""

from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.blocks import row_blocks
from adaam.engines.kernels.panels import WORD, zeros

MOST_WORDS = 16  # of a tile, side by side as vector code reads them


class Balls(NamedTuple):
    """Of each tile the centres, (tiles, rank, balls), and radii, (tiles, balls), in float32."""

    centers: FloatMatrix
    radii: FloatVector


def everywhere(n_tiles: int, rank: int) -> Balls:
    """Balls that hold all columns there can be: none is passed over."""
    radii = zeros((n_tiles, MOST_WORDS), np.float32)
    radii[:] = np.finfo(np.float32).max
    return Balls(zeros((n_tiles, rank, MOST_WORDS), np.float32), radii)


def word_balls(narrow: FloatMatrix, width: int) -> Balls:
    """Smallest balls around the means of each 64 rows of a factor, which are the columns of its tiles."""
    n, rank = narrow.shape
    tiles = row_blocks(n, width)
    balls = Balls(zeros((len(tiles), rank, MOST_WORDS), np.float32), zeros((len(tiles), MOST_WORDS), np.float32))
    for tile, rows in enumerate(tiles):
        for word, some in enumerate(row_blocks(rows.stop - rows.start, WORD)):
            block = narrow[rows][some]
            center = block.mean(axis=0)
            distances = np.sqrt(np.square(block.astype(np.float64) - center).sum(axis=1))
            balls.centers[tile, :, word] = center
            balls.radii[tile, word] = distances.max() * (1.0 + 1e-6)
    return balls
