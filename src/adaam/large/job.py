"""What a pass does with some of the row blocks."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from adaam.sample import Sample


class Job(NamedTuple):
    """Blocks, and what is made of each and added up in their order."""

    blocks: Sequence[int]
    work: Callable[[Sample], Any]
