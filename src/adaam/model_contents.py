"""What each fitted estimator holds in a model file: kinds, and shapes that go together.

A fitted attribute that is not in `FITTED` is neither written nor read: declare it here, with its shape in letters. The
same letter stands for the same number throughout an estimator, and in the estimators it holds.
"""

from dataclasses import dataclass
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

Sides = dict[str, int]  # what each letter stands for, as far as it is known


@dataclass(frozen=True, slots=True)
class Numbers:
    """A finite array in float32 or float64; or of whole numbers from `least` to below what `below` stands for."""

    shape: str
    whole: bool = False
    least: int = 0
    below: str = ""
    or_none: bool = False
    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        if value is None and self.or_none:
            return None
        if not isinstance(value, np.ndarray) or value.ndim != len(self.shape):
            return f"is {_shown(value)}, not an array of {len(self.shape)} dimensions"
        if value.dtype.kind not in "iu" if self.whole else value.dtype not in (np.float32, np.float64):
            return f"is of {value.dtype}"
        for letter, side in zip(self.shape, value.shape, strict=True):
            if sides.setdefault(letter, side) != side:
                return f"has shape {value.shape}, where {sides[letter]} in place of {side} was expected"
        if not self.whole and not np.isfinite(value).all():
            return "holds values that are not finite"
        if self.whole and value.size and not self.least <= value.min() <= value.max() < sides.get(self.below, np.inf):
            return f"has values outside {self.least}..{sides.get(self.below, np.inf) - 1}"
        return None


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number, which may be what a letter stands for, or lie below that."""

    letter: str = ""
    below: str = ""
    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < sides.get(self.below, np.inf):
            return f"is {_shown(value)}, not a whole number that fits"
        if self.letter and sides.setdefault(self.letter, value) != value:
            return f"is {value}, but {sides[self.letter]} was expected"
        return None


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number, or where that has a meaning an infinite one."""

    or_none: bool = False
    or_infinite: bool = False
    above: float = -np.inf
    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        if value is None and self.or_none:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = is_number and (self.above < value < np.inf or (self.or_infinite and value == np.inf))
        return None if fits else f"is {_shown(value)}, not a number"


@dataclass(frozen=True, slots=True)
class Words:
    """A word; or so many of them as a letter stands for."""

    letter: str = ""
    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        if not self.letter:
            return None if isinstance(value, str) else f"is {_shown(value)}, not a word"
        if not isinstance(value, np.ndarray) or value.ndim != 1 or not all(isinstance(word, str) for word in value):
            return f"is {_shown(value)}, not a list of names"
        if sides.setdefault(self.letter, len(value)) != len(value):
            return f"has {len(value)} names for {sides[self.letter]}"
        return None


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse array of finite numbers."""

    shape: str
    or_none: bool = False
    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        if value is None and self.or_none:
            return None
        if not isinstance(value, csr_array):
            return f"is {_shown(value)}, not a sparse array"
        expected = tuple(sides.setdefault(letter, side) for letter, side in zip(self.shape, value.shape, strict=True))
        if value.shape != expected:
            return f"has shape {value.shape}, but {expected} was expected"
        return Numbers("z").problem(value.data, {})


@dataclass(frozen=True, slots=True)
class Part:
    """A value of one of these classes, or one of these words; an estimator must agree with its owner in shape."""

    kinds: tuple[Any, ...]
    shared: str = ""
    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        classes = tuple(kind for kind in self.kinds if isinstance(kind, type))
        if not isinstance(value, classes) and not (isinstance(value, str | None) and value in self.kinds):
            return f"is {_shown(value)}"
        if not self.shared:
            return None
        if type(value).__name__ not in FITTED:
            return f"is {_shown(value)}"
        inner = {letter: sides[letter] for letter in self.shared if letter in sides}
        return fitted_problem(value, inner)


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple of so many finite numbers."""

    length: int
    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        if not isinstance(value, tuple) or len(value) != self.length:
            return f"is {_shown(value)}, not {self.length} numbers"
        return next((found for item in value if (found := Number().problem(item, {}))), None)


@dataclass(frozen=True, slots=True)
class Columns:
    """What is done with the columns of a table, at least one of them used."""

    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        if not isinstance(value, tuple) or not all(isinstance(column, Column) for column in value):
            return f"is {_shown(value)}, not a tuple of columns"
        if not any(column.is_taken for column in value):
            return "uses no column"
        unlike = [c.name for c in value if c.terms and (c.weights is None or c.weights.shape != (len(c.terms),))]
        return f"has other weights than words in {unlike[0]!r}" if unlike else None


@dataclass(frozen=True, slots=True)
class Layers:
    """Partitions of the same rows and leaves, each with what is told of its clusters; "i" stands for their number."""

    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        if not isinstance(value, tuple) or not value or not all(isinstance(layer, ClusterLayer) for layer in value):
            return f"is {_shown(value)}, not a tuple of layers"
        sides["i"] = len(value)
        for layer in value:
            for name, content in LAYER.items():
                inner = {"n": sides.setdefault("n", len(layer.labels)), "f": sides.setdefault("f", len(layer.leaves))}
                inner["c"] = layer.n_clusters
                found = content.problem(getattr(layer, name), inner)
                if found is not None:
                    return f"holds a layer whose {name} {found}"
        return None


@dataclass(frozen=True, slots=True)
class Profiles:
    """What sets each cluster apart, feature by feature; effects may be infinite."""

    required: bool = True

    def problem(self, value: Any, sides: Sides) -> str | None:
        """Return what is wrong with a value, or None; letters that are new are noted."""
        if not isinstance(value, ClusterProfiles):
            return f"is {_shown(value)}, not profiles of clusters"
        shape = (sides.setdefault("c", len(value.sizes)), sides.setdefault("d", len(value.names)))
        if len(value.sizes) != shape[0] or len(value.names) != shape[1] or np.isnan(value.effects).any():
            return f"has {len(value.sizes)} sizes and {len(value.names)} names for {shape}"
        parts = (value.means, value.rest_means, value.effects)
        return next((f"has shape {part.shape}, not {shape}" for part in parts if part.shape != shape), None)


Content: TypeAlias = Numbers | Count | Number | Words | Sparse | Part | Several | Columns | Layers | Profiles
Contents: TypeAlias = dict[str, Content]

# Letters: d features, m components, n rows, c clusters, e known rows, f leaves, i layers, l landmarks, v vectors.
LAYER: Contents = {
    "n_clusters": Count("c"),
    "labels": Numbers("n", whole=True, least=-1, below="c"),
    "sizes": Numbers("c"),
    "firmness": Numbers("c"),
    "persistence": Number(or_infinite=True),
    "leaves": Numbers("f", whole=True, below="c"),
}
FEATURES: Contents = {"n_features_in_": Count("d"), "feature_names_in_": Words("d", required=False)}
MAP: Contents = {
    **FEATURES,
    "components_": Numbers("md"),
    "covariance_": Numbers("md"),
    "mean_": Numbers("d"),
    "eigenvalues_": Numbers("m"),
    "n_components_": Count("m"),
    "engine_": Words(),
    "preparation_": Part((Preparation,)),
}
RECALL: Contents = {"knn_recall_": Number(or_none=True, required=False)}
PIECES: Contents = {
    "labels_": Numbers("n", whole=True),
    "affinity_matrix_": Sparse("nn"),
    "n_iter_": Count(),
}
FITTED: dict[str, Contents] = {
    "TableEncoder": {**FEATURES, "columns_": Columns()},
    "Pipeline": {},
    "PreparedMetric": MAP,
    "DiscriminantMetric": MAP,
    "LPP": {**MAP, **RECALL},
    "AdaAM": {
        **MAP,
        **RECALL,
        "cuts_": Several(2),
        "n_clusters_": Count(required=False),  # files of 0.1.0 have none
        "n_neighbors_": Count(),
        "pairs_": Part(("all", RowBlocks)),
        "plan_": Part((Plan,)),
        "stability_": Part((None, Stability), required=False),
    },
    "PCAN": {**MAP, "n_neighbors_": Count(), "embedding_": Numbers("nm"), **PIECES},
    "CAN": {**FEATURES, "engine_": Words(), **PIECES},
    "LSC": {
        **FEATURES,
        "landmarks_": Numbers("ld"),
        "bandwidth_": Number(above=0.0),
        "directions_": Numbers("lv"),
        "cluster_centers_": Numbers("cv"),
        "labels_": Numbers("n", whole=True, below="c"),
    },
    "AdaAMClustering": {
        **MAP,
        "metric_": Part((BaseEstimator,), shared="md"),
        "head_": Words(),
        "n_clusters_": Count("c"),
        "cluster_centers_": Numbers("cm"),
        "inertia_": Number(),
        "embedding_": Numbers("em"),
        "embedding_radii_": Numbers("e"),
        "cluster_layers_": Layers(),
        "embedding_leaves_": Numbers("e", whole=True, below="f"),
        "layer_": Count(below="i"),
        "labels_": Numbers("n", whole=True, least=-1, below="c"),
        "noise_threshold_": Number(or_infinite=True),
        "cluster_profiles_": Profiles(required=False),
        "outlier_scores_": Numbers("n", or_none=True),
        "probabilities_": Numbers("n", or_none=True),
        "memberships_": Sparse("nc", or_none=True),
        "selection_": Part((Selection,)),
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
    for key, content in contents.items():
        if key not in held:
            if content.required:
                return f"{name} is not fitted: {key} is missing"
            continue
        found = content.problem(held[key], known)
        if found is not None:
            return f"{key} of {name} {found}"
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
        return value in get_args(hint) if isinstance(value, str | int | None) else False
    if hint is None or hint is type(None):
        return value is None
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
