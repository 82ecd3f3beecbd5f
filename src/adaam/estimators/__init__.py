"""Estimators: validate, call the numerics, store."""

from adaam.estimators.adaam import AdaAM
from adaam.estimators.can import CAN, PCAN
from adaam.estimators.clustering import AdaAMClustering
from adaam.estimators.discriminant import DiscriminantMetric
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.lpp import LPP
from adaam.estimators.lsc import LSC
from adaam.estimators.prepared import PreparedMetric

__all__ = [
    "CAN",
    "LPP",
    "LSC",
    "PCAN",
    "AdaAM",
    "AdaAMClustering",
    "DiscriminantMetric",
    "LinearMetric",
    "PreparedMetric",
]
