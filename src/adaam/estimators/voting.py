"""New rows take the cluster that most of their nearest known rows have."""

import numpy as np
from sklearn.neighbors import NearestNeighbors

from adaam._typing import FloatMatrix, FloatVector, IntVector

# A nearest row this much nearer than the farthest voter is the same row: mapped twice, it differs by rounding.
SAME_ROW = 1e-6


def voted_labels(Z: FloatMatrix, known: FloatMatrix, labels: IntVector, n_voters: int) -> IntVector:
    """Cluster of each row by the votes of its nearest known rows; the nearest decides between equals.

    A row that is known keeps its own cluster.
    """
    n_voters = min(n_voters, len(known))
    distances, voters = NearestNeighbors(n_neighbors=n_voters).fit(known).kneighbors(Z)
    votes = labels[voters]
    n_labels = int(labels.max()) + 1
    counts = np.zeros((len(Z), n_labels))
    np.add.at(counts, (np.arange(len(Z))[:, None], votes), place_values(n_voters))
    same = distances[:, 0] <= SAME_ROW * distances[:, -1]
    return np.asarray(np.where(same, votes[:, 0], counts.argmax(axis=1)))


def place_values(n_voters: int) -> FloatVector:
    """Worth of a vote by place, nearest first: a little less each time, which decides ties and nothing else."""
    return np.asarray(1.0 - np.arange(n_voters) / (2.0 * n_voters**2))
