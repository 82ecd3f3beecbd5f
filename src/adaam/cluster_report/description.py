"""Describes clusters by features or columns of a table, categories and words, and chooses the columns to list."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from adaam._typing import IntVector
from adaam.cluster_profile import ClusterProfiles, cluster_profiles, incomplete_profiles
from adaam.cluster_report.cards import Clustering, Told, dense_column
from adaam.cluster_report.data import ReportColumn
from adaam.cluster_words import WordEffect, cluster_categories, cluster_words

MAX_COLUMNS = 12
N_WORDS = 10
N_CATEGORIES = 4
MAX_CATEGORIES = 200

Categories = list[tuple[str, WordEffect]]  # with the names of their columns
Values = list[float | str | None]  # of a column, None for missing


def description(
    X: Any,
    names: Sequence[str] | None,
    texts: Sequence[str] | None,
    table: Mapping[str, Any] | None,
    columns: Mapping[str, Any],
    known: Clustering,
    shown: IntVector,
) -> tuple[Told, tuple[ReportColumn, ...]]:
    """Describe clusters, and choose the columns to list.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features) or None
        Features to describe clusters by, if any.
    names : sequence of str or None
        Their names.
    texts : sequence of str or None
        A text for each row.
    table : mapping of str to array-like or None
        Columns in their own units, used in place of the features.
    columns : mapping of str to array-like
        Further columns, which were not clustered by.
    known : Clustering
        What the model stores about each row.
    shown : ndarray
        Rows with details.

    Returns
    -------
    told : Told
        What the cards are built from.
    listed : tuple of ReportColumn
        Further columns, then the columns of the table or features that separate clusters best, twelve in all.
    """
    further = {str(name): _values(values) for name, values in columns.items()}
    read = {name: _values(values) for name, values in (table or {}).items() if name not in further}
    categories = _categories(further | read, known)
    listed = [_column(name, found, shown) for name, found in further.items()][:MAX_COLUMNS]
    room = MAX_COLUMNS - len(listed)
    values: Any = None
    profiles: ClusterProfiles | None = None
    if table is not None:
        values, profiles = _own_profiles(read, known)
        listed += [_column(name, read[name], shown) for name in _telling_columns(read, profiles, categories, room)]
    elif X is not None:
        values = csr_array(X) if issparse(X) else np.asarray(X)
        profiles = cluster_profiles(values, known.labels, known.n_clusters, names)
        listed += [_feature(profiles.names[j], values, j, shown) for j in _telling(profiles, room)]
    words = None if texts is None else cluster_words(list(texts), known.labels, known.n_clusters, N_WORDS)
    most = [tuple(each[:N_CATEGORIES]) for each in categories]
    return Told(profiles, values, words, most, frozenset(further)), tuple(listed)


def _own_profiles(columns: Mapping[str, Values], known: Clustering) -> tuple[Any, ClusterProfiles]:
    """Numbers of a table in their own units, NaN if missing, and the profiles of clusters in them."""
    numeric = [name for name, values in columns.items() if _is_numeric(values)]
    values = np.array([[np.nan if v is None else v for v in columns[name]] for name in numeric], dtype=np.float64).T
    values = values.reshape(len(known.labels), len(numeric))
    return values, incomplete_profiles(values, known.labels, known.n_clusters, numeric)


def _is_numeric(values: Sequence[float | str | None]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and not any(isinstance(value, str) for value in present)


def _telling_columns(
    columns: Mapping[str, Any], profiles: ClusterProfiles | None, categories: Sequence[Categories], n: int
) -> list[str]:
    """The n columns of largest effect on any cluster, in the table's order; without an effect, a column ranks last."""
    strength = dict.fromkeys(columns, 0.0)
    if profiles is not None:
        strength |= dict(zip(profiles.names, np.abs(profiles.effects).max(axis=0, initial=0.0), strict=True))
    for name, each in (pair for told in categories for pair in told):
        strength[name] = max(strength.get(name, 0.0), each.effect)
    kept = set(sorted(columns, key=lambda name: -strength[name])[:n])
    return [name for name in columns if name in kept]


def _telling(profiles: ClusterProfiles, n: int) -> list[int]:
    """The n features of largest effect on any cluster, in their own order."""
    strength = np.abs(profiles.effects).max(axis=0, initial=0.0)
    return sorted(int(j) for j in np.argsort(-strength, kind="stable")[: max(n, 0)])


def _feature(name: str, values: Any, j: int, shown: IntVector) -> ReportColumn:
    return ReportColumn(name, tuple(float(value) for value in dense_column(values, j)[shown]))


def _column(name: str, values: Values, shown: IntVector) -> ReportColumn:
    return ReportColumn(name, tuple(values[row] for row in shown))


def _values(values: Any) -> Values:
    """The values of a column: numbers if all are, strings otherwise, None if missing."""
    column = list(np.asarray(values, dtype=object))
    missing = [value is None or value != value for value in column]
    kinds = (
        isinstance(value, int | float | np.number) and not isinstance(value, bool)
        for value, gone in zip(column, missing, strict=True)
        if not gone
    )
    is_number = all(kinds)
    return [
        None if gone else float(value) if is_number else str(value) for value, gone in zip(column, missing, strict=True)
    ]


def _categories(columns: Mapping[str, Values], known: Clustering) -> list[Categories]:
    """The most distinctive categories of each cluster, with their columns; columns of ids and texts have none."""
    found: list[Categories] = [[] for _ in range(known.n_clusters)]
    for name, values in columns.items():
        kinds = set(values)
        if all(not isinstance(kind, str) for kind in kinds) or len(kinds) > MAX_CATEGORIES:
            continue
        for cluster, told in enumerate(cluster_categories(values, known.labels, known.n_clusters)):
            found[cluster] += [(str(name), each) for each in told]
    return [sorted(each, key=lambda pair: -pair[1].weight) for each in found]
