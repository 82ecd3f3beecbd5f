"""Words and categories that set clusters apart: class-based TF-IDF, and shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

from adaam._typing import FloatMatrix

TOKENS = r"(?u)\b[^\W\d_][\w'’-]+\b"  # words of two or more characters that begin with a letter
MAX_WORDS = 20_000  # most frequent words that are counted


@dataclass(frozen=True, slots=True)
class WordEffect:
    """How one word, or one category, sets a cluster apart."""

    word: str
    weight: float  # class-based TF-IDF, or the difference of shares
    share: float  # of the cluster's rows that have it
    rest_share: float  # of all other rows

    @property
    def effect(self) -> float:
        """Cohen's d of having it, cluster and rest weighted equally."""
        variance = (self.share * (1 - self.share) + self.rest_share * (1 - self.rest_share)) / 2
        difference = self.share - self.rest_share
        return difference / variance**0.5 if variance > 0 else difference * float("inf") if difference else 0.0


def class_tfidf(counts: Any) -> FloatMatrix:
    """Class-based TF-IDF of word counts, one row per cluster.

    The weight of word t in cluster c is tf(t, c) · log(1 + A / f(t)): the word's share of all words of the cluster,
    times its rarity, where f(t) counts it in all clusters and A is the mean number of words per cluster.

    References
    ----------
    M. Grootendorst, "BERTopic: Neural topic modeling with a class-based TF-IDF procedure", 2022.
    """
    counts = np.asarray(counts, dtype=np.float64)
    n_words = counts.sum(axis=1, keepdims=True)
    frequency = counts.sum(axis=0)
    rarity = np.log1p(n_words.mean() / np.where(frequency > 0, frequency, np.inf))
    return np.asarray(counts / np.maximum(n_words, 1.0) * rarity)


def cluster_words(texts: Sequence[str], labels: Any, n_clusters: int, n: int = 10) -> list[list[WordEffect]]:
    """Return the words that set each cluster apart, largest weight first.

    English stop words are left out, and words that are no more frequent in the cluster than in the other texts.

    Parameters
    ----------
    texts : sequence of str
        One text a row.
    labels : array-like of shape (n_samples,)
        Cluster of each row, from 0; rows of label -1 count as other texts only.
    n_clusters : int
        Number of clusters.
    n : int, default=10
        Words of each cluster, at most.

    Returns
    -------
    list of lists of WordEffect
        One list per cluster; empty if no word stands out.
    """
    labels = np.asarray(labels)
    vectorizer = CountVectorizer(token_pattern=TOKENS, stop_words="english", max_features=MAX_WORDS)
    try:
        counts = csr_array(vectorizer.fit_transform(texts))
    except ValueError:  # no word is left
        return [[] for _ in range(n_clusters)]
    words = vectorizer.get_feature_names_out()
    places = np.where(labels >= 0, labels, n_clusters)
    members = csr_array((np.ones(len(labels)), (places, np.arange(len(labels)))), shape=(n_clusters + 1, len(labels)))
    weights = class_tfidf((members @ counts).toarray()[:n_clusters])
    holding = (members @ (counts > 0).astype(np.float64)).toarray()
    sizes = np.bincount(places, minlength=n_clusters + 1)[:, None]
    share = holding / np.maximum(sizes, 1)
    rest_share = (holding.sum(axis=0) - holding) / np.maximum(len(labels) - sizes, 1)
    found = []
    for cluster in range(n_clusters):
        weight = np.where(share[cluster] > rest_share[cluster], weights[cluster], 0.0)
        order = np.argsort(-weight, kind="stable")[:n]
        found.append(
            [
                WordEffect(str(words[j]), float(weight[j]), float(share[cluster, j]), float(rest_share[cluster, j]))
                for j in order
                if weight[j] > 0
            ]
        )
    return found


def cluster_categories(values: Any, labels: Any, n_clusters: int, least: float = 0.2) -> list[list[WordEffect]]:
    """Return the categories of a column that are more frequent in a cluster than elsewhere, largest difference first.

    Parameters
    ----------
    values : array-like of shape (n_samples,)
        A category for each row; None is missing.
    labels : array-like of shape (n_samples,)
        Cluster of each row, from 0; -1 means none.
    n_clusters : int
        Number of clusters.
    least : float, default=0.2
        Shares that differ by less are left out.

    Returns
    -------
    list of lists of WordEffect
        One list per cluster, empty if it has all rows; the weight is the difference of the two shares.
    """
    labels = np.asarray(labels)
    words = np.array(["" if value is None else str(value) for value in values])
    missing = np.array([value is None for value in values])
    categories, places = np.unique(words, return_inverse=True)
    counts = np.zeros((n_clusters + 1, len(categories)))
    np.add.at(counts, (np.where(labels >= 0, labels, n_clusters), places), ~missing)
    sizes = np.bincount(np.where(labels >= 0, labels, n_clusters), minlength=n_clusters + 1)[:, None]
    share = counts / np.maximum(sizes, 1)
    rest_share = (counts.sum(axis=0) - counts) / np.maximum(len(labels) - sizes, 1)
    gain = share - rest_share
    return [
        [
            WordEffect(str(categories[j]), float(gain[c, j]), float(share[c, j]), float(rest_share[c, j]))
            for j in np.argsort(-gain[c], kind="stable")
            if gain[c, j] >= least and share[c, j] > 0 and sizes[c] < len(labels)
        ]
        for c in range(n_clusters)
    ]
