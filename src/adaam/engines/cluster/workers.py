"""Execution on Dask workers: named tasks, their results and sums, and conversion of Dask collections.

No other file imports Dask.
"""

import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from inspect import signature
from itertools import islice
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np

from adaam.engines.blocks import on_one_thread
from adaam.engines.compiled import MANY_ROWS, chosen_kernels, compile_once
from adaam.engines.cpu import CPUEngine
from adaam.progress import LOGGER, ChangingLine

Future: TypeAlias = Any
HOST = CPUEngine(kernels="numpy")  # processes a block inside a task
TURNS = 3  # tasks of a pass for each thread that are running, or finished but not yet fetched
FOLD = 8  # results added up by one task
TASK_BYTES = 1 << 28  # of rows that a task may hold, if workers have the memory
TASK_SHARE = 10  # these rows take at most 1 / TASK_SHARE of a worker's memory
ROOM = 2  # memory that a fit on all pairs takes, relative to that of the rows
CHECK_SECONDS = 5.0  # between two checks whether any worker is running
CLIENTS: dict[str, Any] = {}  # clients of schedulers given by address: one connection each


class ClusterError(RuntimeError):
    """The cluster could not finish a task: no partial result is returned, and the fit can be repeated."""


@dataclass(frozen=True, eq=False)
class Workers:
    """A Dask client, and settings for its use; the cluster's number of threads and memory are read once."""

    client: Any
    in_flight: int | None  # most tasks of a pass running, or finished but not yet fetched; None means by the threads
    patience: float
    progress: bool
    given_bytes: int | None = None  # of rows that a task may hold, if set by the caller

    def call(self, name: str, work: Callable[..., Any], *given: Any) -> Future:
        """Run `work` on one thread of a worker; futures among the arguments, also in lists, stand for their results.

        The dashboard shows the name. The scheduler keeps the arguments, so that each result can be recomputed if a
        worker is lost.
        """
        import dask

        key = f"adaam-{name}-0{uuid4().hex}"
        with self._clear_errors(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):
            return self.client.submit(on_one_thread, work, *given, key=key, pure=False)

    def share(self, name: str, value: Any) -> Future:
        """Send a value once, for many tasks."""
        return self.call(name, as_it_is, value)

    def fetch(self, futures: Sequence[Future]) -> list[Any]:
        """Wait for results and fetch them."""
        with self._clear_errors():
            self._wait(futures)
            return list(self.client.gather(list(futures)))

    def computed(self, array: Any) -> Any:
        """Compute a Dask array and fetch it."""
        with self._clear_errors():
            return self.fetch([self.client.compute(array)])[0]

    def summed(self, name: str, parts: Sequence[Future]) -> Any:
        """Sum of results in their order, added up on the workers, a few at a time."""
        while len(parts) > 1:
            parts = [self.call(f"{name}-sum", sum, parts[i : i + FOLD]) for i in range(0, len(parts), FOLD)]
        return self.fetch(parts)[0]

    def in_turn(self, name: str, calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield the results of calls in order, with a bounded number in flight; a call is a function and arguments."""
        line = ChangingLine(sys.stderr) if self.progress else None
        most, waiting, total = self.in_flight or TURNS * self.n_threads, deque[Future](), len(calls)
        tasks = (self.call(name, *call) for call in calls)
        for done in range(1, total + 1):
            waiting.extend(islice(tasks, most - len(waiting)))
            result = self.fetch([waiting.popleft()])[0]
            LOGGER.debug("%s: %d of %d tasks", name, done, total)
            if line is not None and (line.changes or done == total):
                filled = 30 * done // total
                line.show(f"{name:<20} [{'#' * filled}{'.' * (30 - filled)}] {done} of {total} tasks")
            yield result
        if line is not None:
            line.end()

    @cached_property
    def n_threads(self) -> int:
        """Threads of all workers."""
        return max(1, int(sum(self.client.nthreads().values())))

    @cached_property
    def task_bytes(self) -> int:
        """Bytes of rows that a task may hold."""
        if self.given_bytes is not None:
            return self.given_bytes
        limits = [worker["memory_limit"] or np.inf for worker in self._known().values()]
        return int(min(TASK_BYTES, min(limits, default=np.inf) / TASK_SHARE))

    def n_workers(self) -> int:
        """Number of workers."""
        return max(1, len(self.client.nthreads()))

    def blocks_of(self, array: Any) -> list[Future]:
        """Compute the row blocks of a Dask array that has all columns in one chunk."""
        return list(self.client.compute(list(array.to_delayed().ravel()), optimize_graph=True))

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Turn errors of Dask about lost workers or a lost scheduler into one that says what to do."""
        from distributed.scheduler import KilledWorker

        try:
            yield
        except KilledWorker as error:
            raise ClusterError(
                f"The cluster gave up a task: {error}. A task that ends so often usually needs more memory than "
                "its worker has; use DaskEngine(task_bytes=...) or (block_rows=...) with smaller numbers, or workers "
                "with more memory. Nothing was kept, and the fit can be repeated."
            ) from error
        except ClusterError:
            raise
        except Exception as error:
            if not self._is_cut_off(error):
                raise
            raise ClusterError(
                f"The connection to the Dask scheduler was lost while tasks were under way ({error!r}). Nothing was "
                "kept: repeat the fit once a client is connected again."
            ) from error

    def _is_cut_off(self, error: Exception) -> bool:
        """Whether an error means that the scheduler was lost, and was not raised by a task."""
        from distributed import CancelledError
        from distributed.comm import CommClosedError

        return isinstance(error, CancelledError | CommClosedError) or self.client.status != "running"

    def _wait(self, futures: Sequence[Future]) -> None:
        """Wait for tasks, but no longer than `patience` if no worker can run them."""
        from distributed import wait

        idle_since: float | None = None
        while True:
            try:
                wait(list(futures), timeout=min(CHECK_SECONDS, self.patience))
            except TimeoutError:
                stopped = self._stopped()
                if stopped is None:
                    idle_since = None
                    continue
                idle_since = idle_since or time.monotonic()
                if time.monotonic() - idle_since > self.patience:
                    raise ClusterError(stopped) from None
            else:
                return

    def _stopped(self) -> str | None:
        """Return why no worker makes progress; None if one does."""
        known = self._known()
        if not known:
            return (
                f"The Dask cluster has had no worker for {self.patience:g} seconds. Start workers and repeat the fit; "
                "nothing was kept."
            )
        paused = [address for address, worker in known.items() if worker["status"] != "running"]
        working = {address for address, tasks in self.client.processing().items() if tasks}
        if not paused or working - set(paused):
            return None
        return (
            f"Workers that are paused have held up the fit for {self.patience:g} seconds: {', '.join(paused)}. A "
            "worker is paused while it is short of memory; use DaskEngine(task_bytes=...) or (block_rows=...) with "
            "smaller numbers, workers with more memory, or close these with client.retire_workers([...]), also while "
            "a fit waits. Nothing was kept, and the fit can be repeated."
        )

    def _known(self) -> dict[str, Any]:
        """Return the scheduler's information about each worker."""
        # Some versions return five workers unless asked for all; older ones do not have the parameter.
        asked = signature(self.client.scheduler_info).parameters
        given = {"n_workers": -1} if "n_workers" in asked else {}
        known: dict[str, Any] = self.client.scheduler_info(**given)["workers"]
        return known


def as_it_is(value: Any) -> Any:
    """Return the value: a task whose result is what was sent."""
    return value


def task_engine(kernels: str, n_rows: int, block_rows: int) -> CPUEngine:
    """Return the CPU engine for blocks of `block_rows` out of `n_rows` rows, with its loops compiled."""
    try:
        chosen = chosen_kernels(kernels, n_rows)
    except ImportError as error:
        raise ClusterError(
            f'DaskEngine(kernels="numba") needs numba on every worker, and the one on {platform.node()} has none. '
            'Install it there with: pip install adaam[fast], or use kernels="auto", which is NumPy on such workers.'
        ) from error
    if chosen == "numba":
        compile_once(np.float32 if block_rows >= MANY_ROWS else np.float64)
    return CPUEngine(kernels=chosen)


def check_room(n_rows: int, n_columns: int, itemsize: int) -> None:
    """Raise if all pairs of the rows cannot be processed in the memory of this process."""
    from distributed.system import MEMORY_LIMIT

    n_bytes = n_rows * n_columns * itemsize
    if n_bytes * ROOM > MEMORY_LIMIT:
        raise MemoryError(
            f"All pairs of rows are worked on in this process, and {n_rows} rows x {n_columns} columns "
            f"({n_bytes / 1e9:.1f} GB) need about {n_bytes * ROOM / 1e9:.1f} GB of memory, of which it has "
            f"{MEMORY_LIMIT / 1e9:.1f} GB. Use AdaAM(pairs=RowBlocks()), whose pairs are worked on by the workers, or "
            "fit a sample of the rows."
        )


def connected(
    client: Any, in_flight: int | None, patience: float, progress: bool, task_bytes: int | None = None
) -> Workers:
    """Workers of the given client, or of the current one."""
    if find_spec("distributed") is None:
        raise ImportError('engine="dask" needs dask and distributed. Install them with: pip install adaam[dask]')
    if client is None:
        from distributed import get_client

        try:
            client = get_client()
        except ValueError as error:
            raise RuntimeError(
                'engine="dask" uses your Dask client, and there is none. Start one first: from distributed import '
                "Client; client = Client() for workers on this machine, or Client(address) for a cluster."
            ) from error
    elif isinstance(client, str):
        client = _client_at(client)
    elif not hasattr(client, "scheduler_info"):
        raise TypeError(
            f"client={client!r} is a {type(client).__name__}; pass a distributed.Client, the address of a scheduler "
            "such as 'tcp://127.0.0.1:8786', or None for the current client."
        )
    return Workers(client, in_flight, patience, progress, task_bytes)


def _client_at(address: str) -> Any:
    """Client of the scheduler at an address: the current one if its scheduler is the same, else a cached one."""
    from distributed import Client, get_client

    try:
        current = get_client()
    except ValueError:
        current = None
    if current is not None and current.scheduler.address == address:
        return current
    known = CLIENTS.get(address)
    if known is None or known.status != "running":
        try:
            known = CLIENTS[address] = Client(address, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"client={address!r}: no Dask scheduler answers at this address ({error}). Check it against "
                "`client.scheduler.address` of a client that works, or what `dask scheduler` shows when it starts."
            ) from error
    return known


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection; does not import Dask."""
    return "dask" in sys.modules and bool(sys.modules["dask"].is_dask_collection(X))


def as_dask_array(X: Any) -> Any:
    """Return a Dask array or DataFrame as an array whose chunk sizes are known, all columns in one chunk.

    When chunks are computed, they are compared with the array's metadata, which Dask itself does not verify.
    """
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    if any(np.isnan(size) for sizes in X.chunks for size in sizes):
        X = X.compute_chunk_sizes()
    name = f"adaam-announced-0{uuid4().hex}"
    X = X.map_blocks(as_announced, dtype=X.dtype, meta=X._meta, chunks=X.chunks, name=name)
    return X.rechunk({1: -1}) if X.ndim == 2 else X


def as_announced(chunk: Any, block_info: Any = None) -> Any:
    """Return a chunk in the dtype that its array announces; raise if its shape or dtype does not fit."""
    announced = block_info[None]
    shape, dtype = tuple(announced["chunk-shape"]), np.dtype(announced["dtype"])
    found = chunk if hasattr(chunk, "dtype") and hasattr(chunk, "shape") else np.asarray(chunk)
    where = f"chunk {tuple(int(place) for place in announced['chunk-location'])} of a Dask array"
    if tuple(found.shape) != shape:
        raise ValueError(
            f"X or sample_weight: {where} holds {tuple(found.shape)} numbers, but {shape} were announced. Let Dask "
            "measure its chunks first: X.compute_chunk_sizes()."
        )
    if found.dtype == dtype:
        return found
    if not np.can_cast(found.dtype, dtype, "safe"):
        raise ValueError(
            f"X or sample_weight: {where} holds {found.dtype}, but {dtype} was announced, which cannot hold all such "
            f"values. Announce what the chunks hold, as dask.array.from_delayed(..., dtype={str(found.dtype)!r}) does."
        )
    return found.astype(dtype)


def dask_array(parts: Sequence[Future], shapes: Sequence[tuple[int, ...]], dtype: Any) -> Any:
    """Concatenate row blocks on the workers to a Dask array."""
    import dask.array as da

    return da.concatenate([da.from_delayed(part, shape, dtype) for part, shape in zip(parts, shapes, strict=True)])


def mapped_array(
    array: Any, work: Callable[..., Any], n_columns: int | None, dtype: Any, name: str, *beside: Any
) -> Any:
    """Apply `work` to each row block of a Dask array, lazily; it returns one number per row if `n_columns` is None."""
    import dask.array as da

    meta = np.empty((0,) if n_columns is None else (0, 0), dtype)
    chunks = (array.chunks[0],) if n_columns is None else (array.chunks[0], (n_columns,))
    drop = [1] if n_columns is None else None
    name = f"{name}-0{uuid4().hex}"
    work = partial(_of_some_rows, work, (0,) if n_columns is None else (0, n_columns), np.dtype(dtype))
    return da.map_blocks(work, array, *beside, dtype=dtype, chunks=chunks, drop_axis=drop, meta=meta, name=name)


def _of_some_rows(work: Callable[..., Any], shape: tuple[int, ...], dtype: Any, block: Any, *beside: Any) -> Any:
    """Apply `work` to a block; one that a filter has left without rows gives an empty result."""
    return work(block, *beside) if block.shape[0] else np.empty(shape, dtype)
