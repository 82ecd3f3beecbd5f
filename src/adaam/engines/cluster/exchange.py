"""Pieces sent from every block to every block: by a task for each piece, or whole where there is little to send."""

from collections.abc import Callable, Sequence
from typing import Any

from adaam.engines.cluster.pairs import pick
from adaam.engines.cluster.workers import Future, Workers

WHOLE_BYTES = 1 << 26  # of all pieces: then each receiver may as well get all of them


def exchanged(
    workers: Workers,
    name: str,
    pieces: Sequence[Future],
    n_receivers: int,
    n_bytes: float,
    join: Callable[..., Any],
    given: Callable[[int], Sequence[Any]],
) -> list[Future]:
    """Let each receiver `join` its pieces: the list of piece `index` of every sender, with what else it is given."""
    if n_bytes <= WHOLE_BYTES:
        return [
            workers.call(name, join_whole, join, index, list(pieces), *given(index)) for index in range(n_receivers)
        ]
    return [
        workers.call(name, join, [workers.call(f"{name}-send", pick, piece, index) for piece in pieces], *given(index))
        for index in range(n_receivers)
    ]


def join_whole(join: Callable[..., Any], index: int, pieces: list[Sequence[Any]], *given: Any) -> Any:
    """Join one's own pieces out of all."""
    return join([sent[index] for sent in pieces], *given)
