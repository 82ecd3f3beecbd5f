"""Cards of clusters: what sets each apart, its most typical and least certain rows, the clusters nearest to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.cluster_profile import ClusterProfiles, FeatureEffect, superiority
from adaam.cluster_report.data import Borderline, CardEffect, ClusterCard
from adaam.cluster_report.pictures import cluster_pictures
from adaam.cluster_words import WordEffect

N_EFFECTS = 6
SMALL_EFFECT, MEDIUM_EFFECT = 0.2, 0.5  # by Cohen's convention; smaller effects are not listed, or not in the summary
N_SUMMARY = {"words": 4, "effects": 2}
N_LONGEST_SUMMARY = {"words": 6, "effects": 4}  # of clusters that would have equal summaries
LONGEST_NAME = 40  # characters of a name or value in a summary
N_NEIGHBORS = 3
FIRM = 0.995  # rows of at least this strength are not borderline
N_EXAMPLES = {"pictures": 6, "lines": 4}


@dataclass(frozen=True, slots=True, eq=False)
class Clustering:
    """What the model stores about each row."""

    labels: IntVector
    strengths: FloatVector
    outlier_scores: FloatVector
    memberships: csr_array
    n_clusters: int


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What clusters are described by: features, words, categories."""

    profiles: ClusterProfiles | None  # one feature for each column of `values`
    values: Any  # matrix of all rows, in original units
    words: list[list[WordEffect]] | None  # of each cluster
    categories: list[tuple[tuple[str, WordEffect], ...]]  # of each cluster, with the names of their columns
    aside: frozenset[str] = frozenset()  # columns that were not clustered by; left out of summaries


def cluster_cards(
    known: Clustering,
    shown: IntVector,
    Z: FloatMatrix,
    told: Told,
    pictures: Any,
    firmness: FloatVector | None,
) -> tuple[ClusterCard, ...]:
    """Return the card of each cluster; rows are given by number, and `Z` holds the rows shown, in the learned space."""
    labels = known.labels[shown]
    centers = _means(Z, labels, known.n_clusters)
    drawn = None if pictures is None else cluster_pictures(pictures, labels, known.n_clusters)
    n_examples = N_EXAMPLES["lines" if pictures is None else "pictures"]
    near = _neighbors(known, centers)
    weakest = weakest_rows(known)
    summaries = _summaries([_summary_parts(told, cluster) for cluster in range(known.n_clusters)], told)
    cards = []
    for cluster in range(known.n_clusters):
        members = known.labels == cluster
        words = () if told.words is None else tuple(told.words[cluster])
        exemplars = _exemplars(known, shown, Z, centers[cluster], cluster, n_examples)
        cards.append(
            ClusterCard(
                label=cluster,
                size=int(members.sum()),
                strength=float(known.strengths[members].mean()) if members.any() else 0.0,
                firmness=None if firmness is None else float(firmness[cluster]),
                summary=summaries[cluster],
                effects=() if told.profiles is None else _effects(told.profiles, cluster, told.values, members),
                words=words,
                categories=told.categories[cluster],
                exemplars=exemplars,
                borderline=_borderline(known, weakest[cluster], exemplars, n_examples),
                neighbors=near[cluster],
                pictures=None if drawn is None else drawn[cluster],
            )
        )
    return tuple(cards)


def _means(Z: FloatMatrix, labels: IntVector, n_clusters: int) -> FloatMatrix:
    """Mean of each cluster; of one without rows here, the mean of all rows, since all may be noise."""
    found = (Z[labels == cluster] for cluster in range(n_clusters))
    return np.array([(rows if len(rows) else Z).mean(axis=0) for rows in found])


def _summaries(parts: list[list[str]], told: Told) -> list[str]:
    """Describe each cluster in a few words, and in more if several clusters would have the same description."""
    kind = "words" if told.words is not None else "effects"
    lengths = [N_SUMMARY[kind]] * len(parts)
    for _ in range(N_LONGEST_SUMMARY[kind] - N_SUMMARY[kind]):
        found = [tuple(each[:n]) for each, n in zip(parts, lengths, strict=True)]
        lengths = [n + (found.count(each) > 1) for each, n in zip(found, lengths, strict=True)]
    return [", ".join(each[:n]) for each, n in zip(parts, lengths, strict=True)]


def _summary_parts(told: Told, cluster: int) -> list[str]:
    """Describe a cluster by its words, or by its largest effects, as in "plan: basic", "low orders"."""
    if told.words is not None and told.words[cluster]:
        return [each.word for each in told.words[cluster]]
    effects: list[FeatureEffect] = [] if told.profiles is None else told.profiles.top(cluster)
    parts = [(abs(each.effect), f"{'high' if each.effect > 0 else 'low'} {shortened(each.name)}") for each in effects]
    parts += [
        (each.effect, f"{shortened(name)}: {shortened(each.word)}")
        for name, each in told.categories[cluster]
        if name not in told.aside
    ]
    largest = sorted((part for part in parts if part[0] >= MEDIUM_EFFECT), key=lambda part: -part[0])
    return [words for _, words in largest]


def shortened(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a text, truncated if it is too long for a heading."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _effects(profiles: ClusterProfiles, cluster: int, values: Any, members: Any) -> tuple[CardEffect, ...]:
    found = []
    for each in profiles.top(cluster, N_EFFECTS):
        if abs(each.effect) < SMALL_EFFECT:
            break  # those that follow are smaller still
        column = dense_column(values, each.feature)
        present = ~np.isnan(column)
        above = superiority(column[present], members[present])
        found.append(CardEffect(each.name, each.effect, above, each.mean, each.rest_mean))
    return tuple(found)


def dense_column(values: Any, j: int) -> FloatVector:
    """One feature of all rows."""
    column = values[:, [j]]
    return np.asarray(column.toarray() if issparse(column) else column, dtype=np.float64).ravel()


def _exemplars(
    known: Clustering, shown: IntVector, Z: FloatMatrix, center: FloatVector, cluster: int, n: int
) -> tuple[int, ...]:
    """The rows of largest strength among those shown; ties are broken by the distance to the cluster's mean."""
    places = np.flatnonzero(known.labels[shown] == cluster)
    away = np.linalg.norm(Z[places] - center, axis=1)
    order = np.lexsort((away, -np.round(known.strengths[shown[places]], 3)))
    return tuple(int(row) for row in shown[places[order[:n]]])


def _borderline(known: Clustering, weakest: IntVector, exemplars: tuple[int, ...], n: int) -> tuple[Borderline, ...]:
    found = []
    for row in weakest:
        if int(row) in exemplars or known.strengths[row] >= FIRM:
            continue
        others = known.memberships[[row]].toarray().ravel()
        others[known.labels[row]] = 0.0
        other = int(others.argmax()) if others.max() > 0 else None
        found.append(Borderline(int(row), float(known.strengths[row]), other))
    return tuple(found[:n])


def _neighbors(known: Clustering, centers: FloatMatrix) -> list[tuple[tuple[int, float], ...]]:
    """For each cluster, those it shares most membership with; ties are broken by the distance of the means."""
    c = known.n_clusters
    inside = known.labels >= 0
    members = csr_array((np.ones(inside.sum()), (known.labels[inside], np.flatnonzero(inside))), shape=(c, len(inside)))
    shared = (members @ known.memberships).toarray()
    sizes = np.bincount(known.labels[inside], minlength=c)
    overlap = (shared + shared.T) / np.maximum(sizes[:, None] + sizes[None], 1)
    away = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    found = []
    for cluster in range(c):
        others = np.delete(np.arange(c), cluster)
        order = others[np.lexsort((away[cluster, others], -np.round(overlap[cluster, others], 4)))]
        found.append(tuple((int(each), float(overlap[cluster, each])) for each in order[:N_NEIGHBORS]))
    return found


def weakest_rows(known: Clustering) -> list[IntVector]:
    """Rows of each cluster with the smallest strength."""
    n = max(N_EXAMPLES.values())
    order = np.argsort(known.strengths, kind="stable")
    of = known.labels[order]
    return [order[of == cluster][:n] for cluster in range(known.n_clusters)]
