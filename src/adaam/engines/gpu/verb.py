"""How a verb of the GPU engine runs: on its device, in full precision, with a word on memory where that runs out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

Given = ParamSpec("Given")
Result = TypeVar("Result")


def verb(work: Callable[Given, Result]) -> Callable[Given, Result]:
    """Run a verb on its device in full float32 precision; for want of memory, name the number and the remedy."""

    @wraps(work)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        engine = cast(Any, args[0])
        try:
            with _full_precision(engine._place().device):
                return work(*args, **kwargs)
        except Exception as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            raise MemoryError(engine._memory_message(work.__name__, args[1:], error)) from error

    return run


@contextmanager
def _full_precision(device: Any) -> Iterator[None]:
    """Work on a device without rounding float32 products to tf32, whatever the caller has set."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            yield
    finally:
        torch.set_float32_matmul_precision(before)
