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
    n_tiles, n_words = -(-n // width), -(-width // WORD)
    balls = Balls(zeros((n_tiles, rank, MOST_WORDS), np.float32), zeros((n_tiles, MOST_WORDS), np.float32))
    starts = np.concatenate([np.arange(tile.start, tile.stop, WORD) for tile in row_blocks(n, width)])
    sizes = np.diff(np.append(starts, n))
    centers = (np.add.reduceat(narrow, starts, axis=0, dtype=np.float64) / sizes[:, None]).astype(np.float32)
    squares = np.square(narrow.astype(np.float64) - np.repeat(centers, sizes, axis=0)).sum(axis=1)
    tile, word = np.divmod(np.arange(len(starts)), n_words)
    balls.centers[tile, :, word] = centers
    balls.radii[tile, word] = np.sqrt(np.maximum.reduceat(squares, starts)) * (1.0 + 1e-6)
    return balls
