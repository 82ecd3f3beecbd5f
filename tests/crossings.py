"""Count transfers between host and device, and operations that make the host wait, for tensors of any device."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Transfers from a tensor to the host, each of which waits for the device, and from the host to a tensor.
TO_HOST = ("__bool__", "__float__", "__int__", "__index__", "item", "tolist")
FROM_HOST = ("as_tensor", "from_numpy", "tensor")
# The size of their results is known only on the device, so the host waits for it.
WAITING = ("nonzero", "masked_select", "unique_dim", "_unique2")


@dataclass
class Crossings:
    """Numbers of elements of each transfer, and how often the host waited for the device otherwise."""

    to_host: list[int] = field(default_factory=list)
    from_host: list[int] = field(default_factory=list)
    other_waits: int = 0

    @property
    def waits(self) -> int:
        """Number of waits of the host, those of transfers to it included."""
        return len(self.to_host) + self.other_waits


class _Waits(TorchDispatchMode):
    def __init__(self, seen: Crossings) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        masks = args[1] if name in ("index", "index_put", "index_put_") else ()
        if name in WAITING or any(mask is not None and mask.dtype == torch.bool for mask in masks):
            self.seen.other_waits += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def counted_crossings() -> Iterator[Crossings]:
    """Record each transfer; reading a tensor as if it were on the host raises, as for a tensor on a GPU."""
    seen = Crossings()
    on_host: list[torch.Tensor] = []

    def noting(kept, original, size):
        def run(*args, **kwargs):
            out = original(*args, **kwargs)
            if not any(args[0] is tensor for tensor in on_host):
                kept.append(size(args[0], out))
            return out

        return run

    def cpu(tensor):
        seen.to_host.append(tensor.numel())
        on_host.append(tensor.view_as(tensor))
        return on_host[-1]

    def read(original):
        def run(tensor, *args, **kwargs):
            if not any(tensor is known for known in on_host):
                raise TypeError("can't convert a device tensor to numpy; use Tensor.cpu() first")
            return original(tensor, *args, **kwargs)

        return run

    patches = [
        patch.object(torch.Tensor, name, noting(seen.to_host, getattr(torch.Tensor, name), lambda x, _: x.numel()))
        for name in TO_HOST
    ]
    patches += [
        patch.object(torch, name, noting(seen.from_host, getattr(torch, name), lambda _, out: out.numel()))
        for name in FROM_HOST
    ]
    patches += [patch.object(torch.Tensor, name, read(getattr(torch.Tensor, name))) for name in ("__array__", "numpy")]
    patches.append(patch.object(torch.Tensor, "cpu", cpu))
    for each in patches:
        each.start()
    try:
        with _Waits(seen):
            yield seen
    finally:
        for each in patches:
            each.stop()
