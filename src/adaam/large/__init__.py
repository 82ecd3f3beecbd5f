"""Very many rows: pairs within random row blocks in place of all pairs, and rows that are not in memory."""

from adaam.large.blocked import BlockedRows, SpreadBlocks, dealt_array, engine_of_blocks, taken_rows
from adaam.large.row_blocks import Deal, RowBlocks
from adaam.large.stability import Stability, stability

__all__ = [
    "BlockedRows",
    "Deal",
    "RowBlocks",
    "SpreadBlocks",
    "Stability",
    "dealt_array",
    "engine_of_blocks",
    "stability",
    "taken_rows",
]
