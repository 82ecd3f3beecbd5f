"""Displays of metrics and clusterers in scikit-learn's style; matplotlib is imported when one is drawn."""

from adaam.displays.affinities import GraphComponentsDisplay, MagnitudeDisplay
from adaam.displays.clusterers import ClusterCountDisplay, ClusterLayersDisplay, SelectionDisplay
from adaam.displays.maps import ComponentsDisplay, ContributionsDisplay, EigenvalueDisplay, ProjectionDisplay

__all__ = [
    "ClusterCountDisplay",
    "ClusterLayersDisplay",
    "ComponentsDisplay",
    "ContributionsDisplay",
    "EigenvalueDisplay",
    "GraphComponentsDisplay",
    "MagnitudeDisplay",
    "ProjectionDisplay",
    "SelectionDisplay",
]
