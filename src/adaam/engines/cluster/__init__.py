"""The cluster engine: `DaskEngine` is its door, and Dask is imported behind it when a verb first runs."""

from adaam.engines.cluster.engine import DaskEngine

__all__ = ["DaskEngine"]
