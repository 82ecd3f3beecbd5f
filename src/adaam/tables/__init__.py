"""Tables with columns of every kind: read, recognised and encoded as numbers, with a reason for each column."""

from adaam.tables.columns import Column
from adaam.tables.delimited import TextForm, read_delimited
from adaam.tables.encoder import TableEncoder, check_names
from adaam.tables.features import numbers_of
from adaam.tables.frame import CellError, Frame, TableError, counted, frame_of, missing_cells
from adaam.tables.nested import is_vector_part
from adaam.tables.reading import ENDINGS, read_frame

__all__ = [
    "ENDINGS",
    "CellError",
    "Column",
    "Frame",
    "TableEncoder",
    "TableError",
    "TextForm",
    "check_names",
    "counted",
    "frame_of",
    "is_vector_part",
    "missing_cells",
    "numbers_of",
    "read_delimited",
    "read_frame",
]
