"""Unsupervised metric learning: a linear map in which clusters separate, learned from unlabelled rows."""

from importlib import import_module
from typing import Any

from adaam import rows, scores
from adaam._version import __version__
from adaam.affinity import (
    AdaptiveAffinity,
    ConsensusAffinity,
    DominantAffinity,
    ForestAffinity,
    HeatKernel,
    KNNAffinity,
)
from adaam.engines import CPUEngine, DaskEngine, GPUEngine
from adaam.estimators import CAN, LPP, LSC, PCAN, AdaAM, AdaAMClustering, DiscriminantMetric, PreparedMetric
from adaam.graph import DisconnectedGraphWarning
from adaam.large import RowBlocks
from adaam.planning import plan
from adaam.prepare import Preparation, TruncatedSpectrumWarning, UnlikeUnitsWarning, ZeroRowWarning
from adaam.storage import ModelFileError, load, save
from adaam.tables import TableEncoder

__all__ = [
    "CAN",
    "LPP",
    "LSC",
    "PCAN",
    "AdaAM",
    "AdaAMClustering",
    "AdaptiveAffinity",
    "CPUEngine",
    "ConsensusAffinity",
    "DaskEngine",
    "DisconnectedGraphWarning",
    "DiscriminantMetric",
    "DominantAffinity",
    "ForestAffinity",
    "GPUEngine",
    "HeatKernel",
    "KNNAffinity",
    "ModelFileError",
    "Preparation",
    "PreparedMetric",
    "RowBlocks",
    "TableEncoder",
    "TruncatedSpectrumWarning",
    "UnlikeUnitsWarning",
    "ZeroRowWarning",
    "__version__",
    "load",
    "plan",
    "rows",
    "save",
    "scores",
]


def __getattr__(name: str) -> Any:
    """Import optional submodules when they are first accessed."""
    if name in ("displays", "export"):
        return import_module(f"adaam.{name}")
    raise AttributeError(f"module 'adaam' has no attribute {name!r}")
