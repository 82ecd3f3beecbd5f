"""Rows whose clusters are directions, for which neighbours by cosine distance are better than by Euclidean distance."""

import numpy as np


def direction_clusters(n_rows):
    """Return rows at any distance from the origin, so that noise turns some more than others, and their clusters."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 10
    centers = rng.standard_normal((10, 40))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    shift = rng.standard_normal(40)
    shift /= np.linalg.norm(shift)
    return rng.uniform(0.4, 2.5, (n_rows, 1)) * centers[y] + 0.3 * rng.standard_normal((n_rows, 40)) + shift, y
