"""Very many rows: pairs within random row blocks in place of all pairs, and rows that are not in memory."""

from adaam.large.row_blocks import RowBlocks
from adaam.large.stability import Stability

__all__ = ["RowBlocks", "Stability"]
