"""Plan of a fit before it runs: all pairs or pairs within row blocks, memory, and a class of time."""

from dataclasses import dataclass, replace
from typing import Any

from adaam._checks import check_whole
from adaam.engines import ClusterPlan, CPUEngine, DaskEngine, Engine, GPUEngine, resolve_engine
from adaam.engines.cluster.plan import cluster_plan
from adaam.graph import paper_neighbors
from adaam.large import RowBlocks

# Most seconds, by the rates below, and memory for which a fit on all pairs is planned. The rates are those of one
# machine and are not measured on each, so that the same call gives the same map everywhere.
ALL_PAIRS_SECONDS = 120.0
ALL_PAIRS_BYTES = 16 << 30

# Rows that are not in memory are read completely up to this size; of larger sources, about this much is kept.
LOADED_BYTES = 1 << 30

# Seconds per pair of rows and feature in the neighbour search, per pair in the two pruned passes, and per row (equal
# rows, ranking of candidates, entries of the graph). CPU: two cores, n = 20,000 and 326 columns (decision 0004).
# GPU: one H200, a million rows of 784 features.
RATES = {"cpu": (1.4e-11, 7.7e-9, 4e-5), "gpu": (1.0e-14, 9.0e-12, 1e-6)}
RATE_THREADS = 2  # threads that the rates of the CPU were measured with
SCATTER_RATE = 3e10  # multiplications per second in means, scatter and projections


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a fit and its estimated cost.

    Parameters
    ----------
    n_samples, n_features, n_clusters : int
        Shape of the rows, and number of clusters.
    engine : str
        Name of the engine.
    n_blocks : int
        Number of row blocks; 1 means a single one.
    n_used : int
        Rows whose pairs are used; all of them, or those in the blocks.
    memory_bytes : int
        Approximate peak memory without the rows; for all pairs with engine="dask", that of this process with the rows.
    seconds : float
        Rough estimate of the time, no more precise than `time_class`.
    cluster : ClusterPlan or None
        Blocks, tasks, bytes moved and memory of a worker, for engine="dask".
    """

    n_samples: int
    n_features: int
    n_clusters: int
    engine: str
    n_blocks: int
    n_used: int
    memory_bytes: int
    seconds: float
    cluster: ClusterPlan | None = None

    @property
    def exact(self) -> bool:
        """Whether all pairs of rows are used."""
        return self.n_blocks == 1 and self.n_used == self.n_samples

    @property
    def block_rows(self) -> int:
        """Rows in the largest block."""
        return -(-self.n_used // self.n_blocks)

    @property
    def n_pairs(self) -> int:
        """Number of pairs of rows that are used, including each row with itself."""
        return self.n_used**2 // self.n_blocks

    @property
    def time_class(self) -> str:
        """Return "seconds", "minutes" or "hours", on two cores, one GPU or the workers of a cluster."""
        return "seconds" if self.seconds < 60 else "minutes" if self.seconds < 3600 else "hours"

    def __str__(self) -> str:
        if self.exact:
            pairs = f"all {self.n_pairs:.2g}"
        else:
            blocks = "one random sample" if self.n_blocks == 1 else f"{self.n_blocks} random blocks"
            pairs = f"{self.n_pairs:.2g} of {self.n_samples**2:.2g}, within {blocks} of {self.block_rows} rows"
            if self.n_used < self.n_samples:
                pairs += f" ({self.n_used / self.n_samples:.1%} of all rows)"
        lines = [
            f"{self.n_samples} rows x {self.n_features} features, {self.n_clusters} clusters, engine {self.engine}",
            f"  pairs   {pairs}",
        ]
        # On a cluster, all pairs take memory of the client, and row blocks that of the workers.
        if self.cluster is not None:
            lines.append(str(self.cluster))
        if self.cluster is None or self.exact:
            where = "beside the rows" if self.cluster is None else "of this process"
            lines.append(f"  memory  up to {self.memory_bytes / 1e9:.1f} GB {where}")
        return "\n".join([*lines, f"  time    {self.time_class}"])


def plan(
    n_samples: int,
    n_features: int,
    n_clusters: int = 8,
    *,
    pairs: Any = "auto",
    engine: str | Engine = "auto",
    itemsize: int = 8,
    stored: bool = False,
    workers: int | None = None,
    memory: float | None = None,
) -> Plan:
    """Describe what `AdaAM(n_clusters, pairs=pairs).fit` would do with so many rows, and estimate its cost.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of the rows.
    n_clusters : int, default=8
        Number of clusters.
    pairs : {"auto", "all"} or RowBlocks, default="auto"
        As in `AdaAM`.
    engine : {"auto", "cpu", "gpu", "dask"} or engine, default="auto"
        As in `AdaAM`.
    itemsize : int, default=8
        Bytes of a number: 8 for float64, 4 for float32.
    stored : bool, default=False
        Whether the rows are in a file and not in memory.
    workers : int, default=None
        Workers of one thread each, for engine="dask"; None means those of the current client.
    memory : float, default=None
        Memory of each of these workers, in bytes.

    Returns
    -------
    Plan
        The plan; print it, or use its `exact`, `n_pairs`, `memory_bytes` and `time_class`.

    Examples
    --------
    >>> import adaam
    >>> print(adaam.plan(1_000_000, 100, 10))
    1000000 rows x 100 features, 10 clusters, engine cpu
      pairs   5e+09 of 1e+12, within 200 random blocks of 5000 rows
      memory  up to 0.7 GB beside the rows
      time    minutes
    """
    n, d = check_whole("n_samples", n_samples), check_whole("n_features", n_features)
    c = check_whole("n_clusters", n_clusters)
    if not isinstance(engine, CPUEngine | GPUEngine | DaskEngine):  # a fit passes a resolved one
        engine = resolve_engine(engine)
    check_pairs(pairs)
    found = _plan(n, d, c, engine.name, 1, n)
    affordable = found.seconds <= ALL_PAIRS_SECONDS and found.memory_bytes <= ALL_PAIRS_BYTES
    too_large = stored and n * d * itemsize > LOADED_BYTES
    if pairs != "all" and (pairs != "auto" or too_large or not affordable):
        settings = pairs if isinstance(pairs, RowBlocks) else RowBlocks()
        block_rows, n_blocks = settings.block_rows(c), settings.n_blocks
        if n_blocks is None:
            n_blocks = -(-n // block_rows)
            if stored:  # as many as fit into the memory for rows
                n_blocks = min(n_blocks, max(2, LOADED_BYTES // (d * itemsize * block_rows)))
        n_blocks = min(n_blocks, n)
        n_used = min(n, n_blocks * block_rows)
        kept = n_used * d * itemsize if stored or n_used < n else 0
        found = _plan(n, d, c, engine.name, n_blocks, n_used, kept)
    if not isinstance(engine, DaskEngine):
        return found
    spread = None if found.exact else (found.n_blocks, found.n_used)
    cluster = cluster_plan(engine, (n, d), workers, memory, itemsize, spread)
    # All pairs are processed by the client, to which the rows are sent; row blocks by the workers.
    if found.exact:
        return replace(found, cluster=cluster, memory_bytes=found.memory_bytes + 8 * n * d)
    return replace(found, cluster=cluster, seconds=found.seconds * RATE_THREADS / cluster.n_threads)


def check_pairs(pairs: Any) -> None:
    """Raise if `pairs` is not a valid choice of pairs."""
    if isinstance(pairs, RowBlocks):
        pairs.check()
    elif not (isinstance(pairs, str) and pairs in ("auto", "all")):
        raise ValueError(f'pairs={pairs!r} is not known; use "auto", "all" or a RowBlocks(...).')


def _plan(n: int, d: int, c: int, engine: str, n_blocks: int, n_used: int, kept: int = 0) -> Plan:
    """Estimate the cost of a fit; d is also taken for the number of kept components, which is smaller."""
    height = -(-n_used // n_blocks)
    k = paper_neighbors(n_used, c)
    # Prepared rows with a float32 copy, neighbours and their candidates, tiles, small matrices.
    prepared = min(8 * n_used * d, 1 << 29) if n_blocks > 1 else 0
    memory = kept + prepared + height * (12 * d + 200 * k) + (1 << 27) + 80 * d * d
    by_feature, by_pair, by_row = RATES.get(engine, RATES["cpu"])
    # With blocks, each of the two halves also computes a final affinity.
    per_pair = by_feature * d + by_pair * (1.4 if n_blocks > 1 else 1.0)
    seconds = n_used * (height * per_pair + by_row) + n * d * (d + c) * 2 / SCATTER_RATE
    return Plan(n, d, c, engine, n_blocks, n_used, int(memory), float(seconds))
