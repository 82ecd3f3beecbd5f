"""Estimators: validate, call the numerics, store."""

from adaam.estimators.adaam import AdaAM
from adaam.estimators.clustering import AdaAMClustering
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.lpp import LPP

__all__ = ["LPP", "AdaAM", "AdaAMClustering", "LinearMetric"]
