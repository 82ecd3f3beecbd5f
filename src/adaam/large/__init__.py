"""Very many rows: pairs within random row blocks in place of all pairs, and rows that are not in memory."""

from adaam.large.blocked import BlockedRows, dealt_array, taken_rows
from adaam.large.deal import Deal
from adaam.large.moments import stream_preparation
from adaam.large.row_blocks import RowBlocks
from adaam.large.spread import SpreadBlocks
from adaam.large.stability import Stability, principal_angles, stability

__all__ = [
    "BlockedRows",
    "Deal",
    "RowBlocks",
    "SpreadBlocks",
    "Stability",
    "dealt_array",
    "principal_angles",
    "stability",
    "stream_preparation",
    "taken_rows",
]
