"""The cluster engine: `DaskEngine` is its public class; Dask is imported only when a verb first runs."""

from adaam.engines.cluster.engine import DaskEngine
from adaam.engines.cluster.plan import ClusterPlan
from adaam.engines.cluster.workers import ClusterError

__all__ = ["ClusterError", "ClusterPlan", "DaskEngine"]
