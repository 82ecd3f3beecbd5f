"""Unsupervised metric learning: a linear map in which clusters separate, learned from unlabelled rows."""

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
from adaam.engines import CPUEngine, GPUEngine
from adaam.estimators import CAN, LPP, LSC, PCAN, AdaAM, AdaAMClustering
from adaam.graph import DisconnectedGraphWarning
from adaam.large import RowBlocks
from adaam.planning import plan
from adaam.prepare import Preparation, ZeroRowWarning
from adaam.storage import ModelFileError, load, save

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
    "DisconnectedGraphWarning",
    "DominantAffinity",
    "ForestAffinity",
    "GPUEngine",
    "HeatKernel",
    "KNNAffinity",
    "ModelFileError",
    "Preparation",
    "RowBlocks",
    "ZeroRowWarning",
    "__version__",
    "load",
    "plan",
    "rows",
    "save",
    "scores",
]
