"""What each fitted estimator holds in a model file: kinds, and shapes that go together.

A fitted attribute that is not in `FITTED` is neither written nor read: declare it here, with its shape in letters. The
same letter stands for the same number throughout an estimator, and in the estimators it holds.
"""

from collections.abc import Callable
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from adaam.cluster_profile import ClusterProfiles
from adaam.large import RowBlocks, Stability
from adaam.partition import ClusterLayer
from adaam.planning import Plan
from adaam.prepare import Preparation
from adaam.selection import Selection
from adaam.tables import Column, TableEncoder

Sides: TypeAlias = dict[str, int]  # what each letter stands for, as far as it is known
# Tells what is wrong with a value, or None; letters that are new are noted.
Check: TypeAlias = Callable[[Any, Sides], str | None]


def or_none(check: Check) -> Check:
    """Let None pass."""
    return lambda value, sides: None if value is None else check(value, sides)


def shape_problem(shape: str, value: Any, kind: Any, sides: Sides) -> str | None:
    """Return how a value fails to be an array with the sides that letters stand for, or None."""
    if not isinstance(value, kind) or value.ndim != len(shape):
        return f"is {_shown(value)}, not an array of {len(shape)} dimensions"
    for letter, side in zip(shape, value.shape, strict=True):
        if sides.setdefault(letter, side) != side:
            return f"has shape {value.shape}, where {sides[letter]} in place of {side} was expected"
    return None


def numbers(shape: str) -> Check:
    """Finite array in float32 or float64."""

    def problem(value: Any, sides: Sides) -> str | None:
        found = shape_problem(shape, value, np.ndarray, sides)
        if found is None and value.dtype not in (np.float32, np.float64):
            return f"is of {value.dtype}"
        return "holds values that are not finite" if found is None and not np.isfinite(value).all() else found

    return problem


def whole_numbers(shape: str, *, least: int = 0, below: str = "") -> Check:
    """Array of whole numbers from `least` to below what `below` stands for."""

    def problem(value: Any, sides: Sides) -> str | None:
        found, end = shape_problem(shape, value, np.ndarray, sides), sides.get(below, np.inf)
        if found is None and value.dtype.kind not in "iu":
            return f"is of {value.dtype}"
        outside = found is None and value.size and not least <= value.min() <= value.max() < end
        return f"has values outside {least}..{end - 1}" if outside else found

    return problem


def sparse(shape: str) -> Check:
    """Sparse array of finite numbers."""
    finite = numbers("z")
    return lambda value, sides: shape_problem(shape, value, csr_array, sides) or finite(value.data, {})


def count(letter: str = "", *, below: str = "") -> Check:
    """Whole number, which may be what a letter stands for, or lie below that."""

    def problem(value: Any, sides: Sides) -> str | None:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < sides.get(below, np.inf):
            return f"is {_shown(value)}, not a whole number that fits"
        if letter and sides.setdefault(letter, value) != value:
            return f"is {value}, but {sides[letter]} was expected"
        return None

    return problem


def number(*, above: float = -np.inf, or_infinite: bool = False) -> Check:
    """Finite number, or where that has a meaning an infinite one."""

    def problem(value: Any, sides: Sides) -> str | None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = is_number and (above < value < np.inf or (or_infinite and value == np.inf))
        return None if fits else f"is {_shown(value)}, not a number"

    return problem


def two_numbers(value: Any, sides: Sides) -> str | None:
    """Tuple of two finite numbers."""
    if not isinstance(value, tuple) or len(value) != 2:
        return f"is {_shown(value)}, not 2 numbers"
    return number()(value[0], sides) or number()(value[1], sides)


def word(value: Any, sides: Sides) -> str | None:
    """A word."""
    return None if isinstance(value, str) else f"is {_shown(value)}, not a word"


def feature_names(value: Any, sides: Sides) -> str | None:
    """A word for each feature."""
    if not isinstance(value, np.ndarray) or value.ndim != 1 or not all(isinstance(name, str) for name in value):
        return f"is {_shown(value)}, not a list of names"
    return None if sides.setdefault("d", len(value)) == len(value) else f"has {len(value)} names for {sides['d']}"


def part(*kinds: Any) -> Check:
    """Value of one of these classes, or one of these words."""
    classes = tuple(kind for kind in kinds if isinstance(kind, type))

    def problem(value: Any, sides: Sides) -> str | None:
        fits = isinstance(value, classes) or (isinstance(value, str | None) and value in kinds)
        return None if fits else f"is {_shown(value)}"

    return problem


def metric(value: Any, sides: Sides) -> str | None:
    """Another fitted estimator, with as many features and components as its owner."""
    if type(value).__name__ not in FITTED:
        return f"is {_shown(value)}"
    return fitted_problem(value, {letter: sides[letter] for letter in "md" if letter in sides})


def columns(value: Any, sides: Sides) -> str | None:
    """What is done with the columns of a table, at least one of them used."""
    if not isinstance(value, tuple) or not all(isinstance(column, Column) for column in value):
        return f"is {_shown(value)}, not a tuple of columns"
    if not any(column.is_taken for column in value):
        return "uses no column"
    unlike = [c.name for c in value if c.terms and (c.weights is None or c.weights.shape != (len(c.terms),))]
    return f"has other weights than words in {unlike[0]!r}" if unlike else None


def layers(value: Any, sides: Sides) -> str | None:
    """Partitions of the same rows and leaves, each with what is told of its clusters; "i" stands for their number."""
    if not isinstance(value, tuple) or not value or not all(isinstance(layer, ClusterLayer) for layer in value):
        return f"is {_shown(value)}, not a tuple of layers"
    sides["i"] = len(value)
    for layer in value:
        shared = {"n": sides.setdefault("n", len(layer.labels)), "f": sides.setdefault("f", len(layer.leaves))}
        for name, check in LAYER.items():
            found = check(getattr(layer, name), {**shared, "c": layer.n_clusters})
            if found is not None:
                return f"holds a layer whose {name} {found}"
    return None


def profiles(value: Any, sides: Sides) -> str | None:
    """What sets each cluster apart, feature by feature; effects may be infinite."""
    if not isinstance(value, ClusterProfiles):
        return f"is {_shown(value)}, not profiles of clusters"
    if np.isnan(value.effects).any():
        return "holds effects that are no numbers"
    by_feature = [("cd", part) for part in (value.means, value.rest_means, value.effects)]
    parts = [("c", value.sizes), ("d", np.array(value.names)), *by_feature]
    return next((found for shape, part in parts if (found := shape_problem(shape, part, np.ndarray, sides))), None)


Contents: TypeAlias = dict[str, Check]

# What a fitted model may do without; files of 0.1.0 have no `n_clusters_` of an AdaAM.
OPTIONAL = frozenset({"AdaAM.n_clusters_", "cluster_profiles_", "feature_names_in_", "knn_recall_", "stability_"})
# Letters: d features, m components, n rows, c clusters, e known rows, f leaves, i layers, l landmarks, v vectors.
LAYER: Contents = {
    "n_clusters": count("c"),
    "labels": whole_numbers("n", least=-1, below="c"),
    "sizes": numbers("c"),
    "firmness": numbers("c"),
    "persistence": number(or_infinite=True),
    "leaves": whole_numbers("f", below="c"),
}
FEATURES: Contents = {"n_features_in_": count("d"), "feature_names_in_": feature_names}
MAP: Contents = {
    **FEATURES,
    "components_": numbers("md"),
    "covariance_": numbers("md"),
    "mean_": numbers("d"),
    "eigenvalues_": numbers("m"),
    "n_components_": count("m"),
    "engine_": word,
    "preparation_": part(Preparation),
}
RECALL: Contents = {"knn_recall_": or_none(number())}
PIECES: Contents = {
    "labels_": whole_numbers("n"),
    "affinity_matrix_": sparse("nn"),
    "n_iter_": count(),
}
FITTED: dict[str, Contents] = {
    "TableEncoder": {**FEATURES, "columns_": columns},
    "Pipeline": {},
    "PreparedMetric": MAP,
    "DiscriminantMetric": MAP,
    "LPP": {**MAP, **RECALL},
    "AdaAM": {
        **MAP,
        **RECALL,
        "cuts_": two_numbers,
        "n_clusters_": count(),
        "n_neighbors_": count(),
        "pairs_": part("all", RowBlocks),
        "plan_": part(Plan),
        "stability_": part(None, Stability),
    },
    "PCAN": {**MAP, "n_neighbors_": count(), "embedding_": numbers("nm"), **PIECES},
    "CAN": {**FEATURES, "engine_": word, **PIECES},
    "LSC": {
        **FEATURES,
        "landmarks_": numbers("ld"),
        "bandwidth_": number(above=0.0),
        "directions_": numbers("lv"),
        "cluster_centers_": numbers("cv"),
        "labels_": whole_numbers("n", below="c"),
    },
    "AdaAMClustering": {
        **MAP,
        "metric_": metric,
        "head_": word,
        "n_clusters_": count("c"),
        "cluster_centers_": numbers("cm"),
        "inertia_": number(),
        "embedding_": numbers("em"),
        "embedding_radii_": numbers("e"),
        "cluster_layers_": layers,
        "embedding_leaves_": whole_numbers("e", below="f"),
        "layer_": count(below="i"),
        "labels_": whole_numbers("n", least=-1, below="c"),
        "noise_threshold_": number(or_infinite=True),
        "cluster_profiles_": profiles,
        "outlier_scores_": or_none(numbers("n")),
        "probabilities_": or_none(numbers("n")),
        "memberships_": or_none(sparse("nc")),
        "selection_": part(Selection),
    },
}


def fitted_problem(model: Any, sides: Sides | None = None) -> str | None:
    """Return what keeps a model from being a fitted estimator whose parts go together, or None."""
    name = type(model).__name__
    if name not in FITTED:
        return f"it is {_shown(model)}, which is no estimator"
    if isinstance(model, Pipeline):
        return _pipeline_problem(model)
    contents, params = FITTED[name], model.get_params(deep=False)
    held = {key: value for key, value in vars(model).items() if key.endswith("_") and not key.startswith("_")}
    known: Sides = {} if sides is None else sides
    for key, check in contents.items():
        if key in held:
            found = check(held[key], known)
            if found is not None:
                return f"{key} of {name} {found}"
        elif key not in OPTIONAL and f"{name}.{key}" not in OPTIONAL:
            return f"{name} is not fitted: {key} is missing"
    unknown = [key for key in held if key not in contents and key not in params]
    return f"{name} has no attribute {unknown[0]!r}" if unknown else None


def _pipeline_problem(model: Any) -> str | None:
    """A pipeline is a table's columns and the model that they are for, which expects as many as they make."""
    steps = model.steps
    sound = isinstance(steps, list) and all(isinstance(step, tuple) and len(step) == 2 for step in steps)
    if not sound or len(steps) != 2 or not isinstance(steps[0][1], TableEncoder):
        return "Pipeline has other steps than a TableEncoder and a model"
    if not all(isinstance(name, str) for name, _ in steps):
        return "a step of Pipeline has no name"
    encoder, last = steps[0][1], steps[1][1]
    if not isinstance(last, BaseEstimator) or isinstance(last, TableEncoder | Pipeline):
        return f"the model of Pipeline is {_shown(last)}"
    found = fitted_problem(encoder) or fitted_problem(last)
    if found is not None:
        return found
    n_made = len(encoder.get_feature_names_out())
    if n_made != last.n_features_in_:
        return f"its table makes {n_made} columns, but its model expects {last.n_features_in_}"
    return None


def setting_problem(cls: type, name: str, value: Any) -> str | None:
    """Return what is wrong with a setting by the annotation of the constructor's parameter, or None."""
    hint = get_type_hints(cls.__init__).get(name, Any)  # type: ignore[misc]
    if isinstance(value, float) and np.isnan(value) and issubclass(cls, BaseEstimator):
        return f"{name} of {cls.__name__} is NaN"
    return None if _fits(value, hint) else f"{name}={_shown(value)} is no setting of {cls.__name__}"


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin is Literal:
        return isinstance(value, str | int | None) and value in get_args(hint)
    if hint in (int, float):
        return isinstance(value, int | float)
    if getattr(hint, "_is_protocol", False):
        return not isinstance(value, str | int | float | list | tuple | None)
    kind = origin or hint
    if kind in (tuple, list):
        return isinstance(value, tuple | list)
    return not isinstance(kind, type) or isinstance(value, kind)


def _shown(value: Any) -> str:
    plain = isinstance(value, str | int | float | bool | None)
    return repr(value)[:60] if plain else f"a {type(value).__name__}"
