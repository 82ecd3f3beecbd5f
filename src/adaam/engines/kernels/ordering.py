"""An order of rows in which those that point alike are side by side."""

import numpy as np

from adaam._typing import FloatMatrix, IntVector
from adaam.engines.kernels.guesses import leaves
from adaam.engines.kernels.near_clusters import nearest_center

GROUP_ROWS = 192  # rows of a group, about


def by_likeness(P: FloatMatrix) -> IntVector:
    """Order rows by the leaf of a tree whose mean is nearest; near leaves follow one another."""
    narrow = (P / (np.abs(P).max(initial=0.0) or 1.0)).astype(np.float32)
    centers = np.array([narrow[leaf].mean(axis=0) for leaf in leaves(narrow, GROUP_ROWS)])
    return np.argsort(nearest_center(narrow, centers), kind="stable")
