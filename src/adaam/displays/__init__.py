"""Looking at a metric: displays in scikit-learn's style, drawn with matplotlib, which is loaded when one is drawn."""

from adaam.displays.components import ComponentsDisplay
from adaam.displays.contributions import ContributionsDisplay
from adaam.displays.eigenvalues import EigenvalueDisplay
from adaam.displays.graph_components import GraphComponentsDisplay
from adaam.displays.layers import ClusterLayersDisplay
from adaam.displays.magnitudes import MagnitudeDisplay
from adaam.displays.projection import ProjectionDisplay
from adaam.displays.selection import ClusterCountDisplay, SelectionDisplay

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
