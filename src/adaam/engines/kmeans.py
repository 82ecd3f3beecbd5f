"""Random numbers of k-means++ starts, in the order in which scikit-learn draws them."""

import numpy as np

from adaam._typing import FloatMatrix


def start_draws(n_clusters: int, n_init: int, seed: int) -> FloatMatrix:
    """Random numbers in [0, 1): for each start one for the first centre and several candidates for each other."""
    n_trials = trials_per_center(n_clusters)
    source = np.random.RandomState(seed)  # the stream that scikit-learn draws from
    return np.stack([source.random_sample(1 + (n_clusters - 1) * n_trials) for _ in range(n_init)])


def trials_per_center(n_clusters: int) -> int:
    """Candidates for each further centre, as scikit-learn has it."""
    return 2 + int(np.log(n_clusters))
