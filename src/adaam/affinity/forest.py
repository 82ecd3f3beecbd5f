"""ClustRF-Bi: rows are similar if many trees of a forest send them to the same leaf."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state

from adaam._checks import check_whole
from adaam._typing import BoolArray, FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.affinity.heat import BLOCK_BYTES
from adaam.affinity.values import NeighborSource, SparseAffinity
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.neighbors.graph import MAX_WIDENING, NeighborGraph
from adaam.graph import neighbor_graph
from adaam.prepare import Sample


@dataclass(eq=False, repr=False)
class ForestAffinity(BaseEstimator):
    """ClustRF-Bi: the share of trees of a clustering forest in which two rows fall into the same leaf.

    The forest is trained to discriminate the rows from synthetic ones whose features are drawn independently of each
    other: its trees must find how features depend on each other, and their leaves collect rows that are similar in
    this. Each row keeps its k most similar rows; the larger of the two directions counts.

    Parameters
    ----------
    n_neighbors : int, default=20
        Most similar rows that each row keeps; fewer if it shares leaves with fewer.
    n_trees : int, default=1000
        Trees of the forest.
    n_features : int or None, default=30
        Leading principal components of the prepared rows that the forest is trained on; None means all.
    min_leaf : int, default=1
        Minimum number of drawn rows in a leaf; 1 grows trees until their leaves are pure.
    random_state : int, RandomState instance or None, default=0
        Seed of the synthetic rows and of the forest. The default makes results the same from run to run.

    Notes
    -----
    **Defaults.** 1000 trees and 30 components are the paper's; k = 20 and leaves of a single row are those of the
    authors' code (the paper chooses leaf sizes by cross-validation, which needs labels). As there, synthetic rows are
    drawn once, as many as there are rows, each feature from its values in the data. Each tree is trained on a bootstrap
    sample of both kinds together, with as many draws as there are rows; each split considers the square root of the
    number of features, by the Gini gain. Of rows tied at the k-th place any may be kept.

    **Preparation.** The forest splits on principal components, largest variance first, and never on single input
    features, even with `LPP(preparation="center")`. It treats all features alike, and components of little variance are
    many and mostly noise: hence `n_features`, the 30 components to which the paper reduces high-dimensional features.
    The map itself is learned on all components that the preparation keeps: `LPP(preparation="unit")` in the reference,
    `LPP(preparation="center")` in the paper. For a forest on the input features themselves, learn the affinity on a
    sample of them and pass it to `LPP.fit(X, affinity=...)`.

    **Weights.** A row of weight w is drawn like w equal rows, and its copies are among its most similar rows. There are
    as many synthetic rows as distinct rows, each of the mean weight; if repeated rows were not merged, there would be
    more of them. The two forests then differ tree by tree, but are of the same kind.

    **Cost.** Trees are grown on all threads and discarded once their leaves are known, which take 16 bytes times n
    times `n_trees`; no n x n array is created. The first 10,000 rows of MNIST with 1000 trees: 70 s on one thread, and
    a peak of 472 MB for the whole process, rows included.

    References
    ----------
    X. Zhu, C. C. Loy, S. Gong, "Constructing Robust Affinity Graphs for Spectral Clustering", CVPR 2014.
    A. Criminisi, J. Shotton, E. Konukoglu, "Decision Forests: A Unified Framework for Classification, Regression,
    Density Estimation, Manifold Learning and Semi-Supervised Learning", Foundations and Trends in Computer Graphics and
    Vision 7(2-3), 2012.
    """

    n_neighbors: int = 20
    n_trees: int = 1000
    n_features: int | None = 30
    min_leaf: int = 1
    random_state: Any = 0

    def learn(self, sample: Sample, neighbors: NeighborSource) -> SparseAffinity:
        """Grow the forest and link each row to its most similar ones; `neighbors` is not used.

        The affinity is symmetric, with entries in [0, 1] (times the weights of the two rows). The diagonal is zero
        except for rows with copies. A row that shares no leaf with another is linked to its nearest one as if they
        shared a leaf in one tree.
        """
        k = check_whole("n_neighbors", self.n_neighbors)
        n_trees = check_whole("n_trees", self.n_trees)
        n_features = None if self.n_features is None else check_whole("n_features", self.n_features)
        min_leaf = check_whole("min_leaf", self.min_leaf)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

        X = unit_features(sample.engine.to_host(sample.X)[:, :n_features])
        # Rows are drawn, split and compared in the order of their coordinates: the given order has no effect.
        order = np.lexsort(X.T[::-1])
        weights = sample.weights[order]
        leaves = forest_leaves(X[order], weights, n_trees, min_leaf, np.random.default_rng(seed))
        graph = alike_graph(leaves, weights, k)
        half = graph.half(1.0 - graph.distances, weights, same_both_ways=False)
        place = np.argsort(order)
        affinity = csr_array(half + half.T)[place][:, place]
        lonely = affinity.sum(axis=1) == 0
        if lonely.any():
            affinity = affinity + nearest_links(sample, lonely) / n_trees
        return SparseAffinity(csr_array(affinity), sample.engine)


def unit_features(X: FloatMatrix) -> FloatMatrix:
    """Scale each feature to [-1, 1], constant ones to 0, in float32, the type that trees work in.

    The sign of a principal component is arbitrary; here the values farther from 0 are made positive.
    """
    most, least = X.max(axis=0).astype(np.float64), X.min(axis=0).astype(np.float64)
    middle, reach = most / 2 + least / 2, most / 2 - least / 2
    reach = np.where(reach == 0, 1.0, reach) * np.where(middle < 0, -1.0, 1.0)
    return np.asarray((X - middle) / reach, np.float32, order="C")


def forest_leaves(
    X: FloatMatrix, weights: FloatVector, n_trees: int, min_leaf: int, rng: np.random.Generator
) -> IntMatrix:
    """Grow a forest that discriminates rows from synthetic ones; return the leaf of each row in each tree.

    Leaf numbers are unique across trees.
    """
    n, d = X.shape
    made_up = np.empty_like(X)
    for feature in range(d):
        made_up[:, feature] = rng.choice(X[:, feature], n, p=weights / weights.sum())
    both = np.concatenate([X, made_up])
    kind = np.repeat([0.0, 1.0], n)
    chance = np.concatenate([weights / weights.sum(), np.full(n, 1.0 / n)]) / 2
    n_draws = max(n, round(weights.sum()))

    def tree_leaves(seed: int) -> IntVector:
        drawn = np.random.default_rng(seed).multinomial(n_draws, chance)
        seen = np.flatnonzero(drawn)
        tree = DecisionTreeClassifier(max_features="sqrt", min_samples_leaf=min_leaf, random_state=seed)
        tree.fit(both[seen], kind[seen], sample_weight=drawn[seen].astype(np.float64), check_input=False)
        return np.unique(tree.apply(X, check_input=False), return_inverse=True)[1]

    leaves = np.empty((n, n_trees), np.int32 if n * n_trees < 2**31 else np.int64)
    n_leaves = 0
    seeds = [int(seed) for seed in rng.integers(np.iinfo(np.int32).max, size=n_trees)]
    for tree, found in enumerate(ordered_map(tree_leaves, seeds)):
        leaves[:, tree] = n_leaves + found
        n_leaves += int(found.max()) + 1
    return leaves


def alike_graph(leaves: IntMatrix, weights: FloatVector, n_neighbors: int) -> NeighborGraph:
    """Find the k rows that share most leaves with each row; the distance is the share of trees that separate the two.

    A row of weight w counts as w coincident rows, as in `neighbor_graph`. Rows that share no leaf are not neighbours.
    """
    n, n_trees = leaves.shape
    k = n_neighbors
    starts = np.arange(n + 1, dtype=leaves.dtype) * n_trees
    member = csr_array((np.ones(leaves.size, np.float32), leaves.ravel(), starts))
    members = csr_array(member.T)
    own = np.clip(weights - 1.0, 0.0, k)
    # More than k rows may be needed to fill a neighbourhood if weights are below one.
    width = min(n - 1, k * int(np.clip(np.ceil(1.0 / weights.min()), 1, MAX_WIDENING)))

    def most_alike(rows: slice) -> tuple[FloatMatrix, IntMatrix, FloatMatrix]:
        together = (member[rows] @ members).toarray()
        here = np.arange(len(together))
        together[here, here + rows.start] = 0.0
        indices = np.argpartition(-together, width - 1, axis=1)[:, :width]
        counts = np.take_along_axis(together, indices, axis=1)
        order = np.argsort(-counts, axis=1, kind="stable")
        indices, counts = np.take_along_axis(indices, order, axis=1), np.take_along_axis(counts, order, axis=1)
        held = weights[indices]
        before = np.cumsum(held, axis=1) - held
        shares = np.clip((k - own[rows, None] - before) / held, 0.0, 1.0)
        return np.where(counts > 0, shares, 0.0), indices, 1.0 - counts / np.float64(n_trees)

    # 24 bytes per entry: the sparse product, its dense copy, and the order of its columns.
    parts = list(ordered_map(most_alike, row_blocks(n, max(1, BLOCK_BYTES // (24 * n)))))
    shares, indices, distances = (np.concatenate(part) for part in zip(*parts, strict=True))
    taken = shares > 0
    starts = np.concatenate([[0], np.cumsum(taken.sum(axis=1))])
    return NeighborGraph(starts, indices[taken], distances[taken], shares[taken], own)


def nearest_links(sample: Sample, wanted: BoolArray) -> csr_array:
    """Links of the wanted rows to their nearest neighbours; their values are products of row weights."""
    graph = neighbor_graph(sample, 1).host()
    entries = np.flatnonzero(wanted[graph.rows()])
    rows, columns = graph.rows()[entries], graph.indices[entries]
    links = csr_array((sample.weights[rows] * sample.weights[columns], (rows, columns)), shape=(len(wanted),) * 2)
    return csr_array(links.maximum(links.T))
