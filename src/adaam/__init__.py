"""Unsupervised metric learning: a linear map in which clusters separate, learned from unlabelled rows."""

from adaam import scores
from adaam._version import __version__
from adaam.affinity import AdaptiveAffinity, HeatKernel, KNNAffinity
from adaam.engines import CPUEngine
from adaam.estimators import LPP, AdaAM, AdaAMClustering
from adaam.graph import DisconnectedGraphWarning
from adaam.prepare import Preparation, ZeroRowWarning
from adaam.storage import ModelFileError, load, save

__all__ = [
    "LPP",
    "AdaAM",
    "AdaAMClustering",
    "AdaptiveAffinity",
    "CPUEngine",
    "DisconnectedGraphWarning",
    "HeatKernel",
    "KNNAffinity",
    "ModelFileError",
    "Preparation",
    "ZeroRowWarning",
    "__version__",
    "load",
    "save",
    "scores",
]
