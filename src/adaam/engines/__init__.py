"""Engines: backends for all work that grows with the number of rows."""

from adaam._checks import check_number, check_object, check_whole
from adaam.engines.cluster import ClusterError, ClusterPlan, DaskEngine
from adaam.engines.cpu import CPUEngine
from adaam.engines.gpu import GPUEngine
from adaam.engines.neighbors.graph import FittedHeat, NeighborGraph
from adaam.engines.protocol import Engine, Graph

__all__ = [
    "CPUEngine",
    "ClusterError",
    "ClusterPlan",
    "DaskEngine",
    "Engine",
    "FittedHeat",
    "GPUEngine",
    "Graph",
    "NeighborGraph",
    "resolve_engine",
]


def resolve_engine(engine: "str | Engine") -> Engine:
    """Return the engine for the `engine` parameter: a name, "auto" (the CPU), or an engine with its own settings."""
    if isinstance(engine, str):
        if engine in ("auto", "cpu"):
            return CPUEngine()
        if engine == "gpu":
            return GPUEngine()
        if engine == "dask":
            return DaskEngine()
        raise ValueError(
            f'engine={engine!r} is not known. Use "auto", "cpu", "gpu", "dask" or an engine such as CPUEngine().'
        )
    check_object("engine", engine)
    if not hasattr(engine, "neighbor_graph"):
        raise TypeError(
            f'engine={engine!r} is a {type(engine).__name__}; use "auto", "cpu", "gpu", "dask" or an engine.'
        )
    if isinstance(engine, CPUEngine):
        check_whole("tile_bytes", engine.tile_bytes)
        check_number("recall", engine.recall, above=0.0, up_to=1.0)
    return engine
