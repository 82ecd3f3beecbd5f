"""What tasks of a process make of a row block, such as its copy in float32, kept for the next task that wants it."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar
from weakref import ref

from adaam._typing import FloatMatrix

Made = TypeVar("Made")

MOST_BYTES = 1 << 27  # of all that is kept; what was not wanted for longest goes first


class Kept:
    """Values made of arrays, for as long as these live and there is room."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._lock = Lock()
        self._held: OrderedDict[Hashable, tuple[Any, Any, int]] = OrderedDict()  # the array, the value, its bytes
        self._n_bytes = 0

    def made(self, block: FloatMatrix, kind: Hashable, make: Callable[[], Made], n_bytes: int) -> Made:
        """Return what `make` gives for a block, kept from an earlier call where there was one of the same kind."""
        key = (id(block), kind)
        with self._lock:
            held = self._held.get(key)
            if held is not None and held[0]() is block:
                self._held.move_to_end(key)
                known: Made = held[1]
                return known
        value = make()
        if n_bytes > self.most_bytes:
            return value
        with self._lock:
            for dead in [other for other, entry in self._held.items() if entry[0]() is None]:
                self._drop(dead)
            self._drop(key)
            self._held[key] = (ref(block, lambda _: self._forget(key)), value, n_bytes)
            self._n_bytes += n_bytes
            while self._n_bytes > self.most_bytes:
                self._drop(next(iter(self._held)))
        return value

    def _forget(self, key: Hashable) -> None:
        """Let go of what was made of an array that is gone, unless another one has taken its place."""
        # Arrays may end at any moment, also inside one of these methods on the same thread: then it is left for later.
        if self._lock.acquire(blocking=False):
            try:
                if key in self._held and self._held[key][0]() is None:
                    self._drop(key)
            finally:
                self._lock.release()

    def _drop(self, key: Hashable) -> None:
        _, _, n_bytes = self._held.pop(key, (None, None, 0))
        self._n_bytes -= n_bytes

    def __len__(self) -> int:
        return len(self._held)


KEPT = Kept(MOST_BYTES)
