"""Contents of model files: conversion of estimators and settings to JSON data plus arrays, and back.

A model with a fitted attribute that is not in `FITTED` is neither saved nor loaded: declare it here, with its shape in
letters. The same letter stands for the same number throughout an estimator, and in the estimators it holds.
"""

import re
from dataclasses import fields
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

import adaam.affinity
import adaam.estimators
from adaam.cluster_profile import ClusterProfiles
from adaam.engines import ClusterPlan, CPUEngine, DaskEngine, GPUEngine
from adaam.large import RowBlocks, Stability
from adaam.partition import ClusterLayer
from adaam.planning import Plan
from adaam.prepare import Preparation
from adaam.selection import ClusterCount, Selection, Trial
from adaam.tables import Column, TableEncoder

Arrays: TypeAlias = dict[str, Any]
Sides: TypeAlias = dict[str, int]  # the number that each letter stands for, as far as known
Contents: TypeAlias = dict[str, tuple[Any, ...]]  # the check of each attribute, and its further arguments

# Dataclasses that estimators hold.
ENGINES = (CPUEngine, GPUEngine, DaskEngine)
REPORTS = (ClusterPlan, Plan, Stability, Selection, Trial, ClusterCount, ClusterLayer, ClusterProfiles, Column)

# The columns of a table are saved with their model, as Pipeline([("table", TableEncoder()), ("model", ...)]).
TABLES = (TableEncoder, Pipeline)

ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]*_")


# Checks raise a ValueError whose message continues after the name of the value; new letters are added to `sides`.


def array(value: Any, sides: Sides, shape: str, kind: Any = np.ndarray) -> None:
    """Array of the shape that the letters stand for."""
    if not isinstance(value, kind) or value.ndim != len(shape):
        raise ValueError(f"is {_shown(value)}, not an array of {len(shape)} dimensions")
    for letter, side in zip(shape, value.shape, strict=True):
        if sides.setdefault(letter, side) != side:
            raise ValueError(f"has shape {value.shape}, where {sides[letter]} in place of {side} was expected")


def numbers(value: Any, sides: Sides, shape: str) -> None:
    """Finite array in float32 or float64."""
    array(value, sides, shape)
    if value.dtype not in (np.float32, np.float64):
        raise ValueError(f"is of {value.dtype}")
    if not np.isfinite(value).all():
        raise ValueError("holds values that are not finite")


def whole_numbers(value: Any, sides: Sides, shape: str, below: str = "", least: int = 0) -> None:
    """Array of integers, at least `least` and less than the number that `below` stands for."""
    array(value, sides, shape)
    if value.dtype.kind not in "iu":
        raise ValueError(f"is of {value.dtype}")
    end = sides.get(below, np.inf)
    if value.size and not least <= value.min() <= value.max() < end:
        raise ValueError(f"has values outside {least}..{end - 1}")


def sparse(value: Any, sides: Sides, shape: str) -> None:
    """Sparse array of finite numbers."""
    array(value, sides, shape, csr_array)
    numbers(value.data, {}, "z")


def count(value: Any, sides: Sides, letter: str = "", below: str = "") -> None:
    """Integer, equal to the number that `letter` stands for and less than that of `below`, where given."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < sides.get(below, np.inf):
        raise ValueError(f"is {_shown(value)}, not a whole number that fits")
    if letter and sides.setdefault(letter, value) != value:
        raise ValueError(f"is {value}, but {sides[letter]} was expected")


def number(value: Any, sides: Sides, above: float = -np.inf, or_infinite: bool = False) -> None:
    """Finite number above `above`, or with `or_infinite` infinity."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and (above < value < np.inf or (or_infinite and value == np.inf))):
        raise ValueError(f"is {_shown(value)}, not a number")


def two_numbers(value: Any, sides: Sides) -> None:
    """Tuple of two finite numbers."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise ValueError(f"is {_shown(value)}, not 2 numbers")
    for each in value:
        number(each, sides)


def names(value: Any, sides: Sides) -> None:
    """Array of a string for each feature."""
    array(value, sides, "d")
    if not all(isinstance(name, str) for name in value):
        raise ValueError("holds a name that is no word")


def kind(value: Any, sides: Sides, expected: Any, word: str = "") -> None:
    """Instance of a class, or the string `word`."""
    if not isinstance(value, expected) and not (isinstance(value, str) and value == word):
        raise ValueError(f"is {_shown(value)}")


def metric(value: Any, sides: Sides) -> None:
    """Another fitted estimator, with as many features and components as its owner."""
    if type(value).__name__ not in FITTED:
        raise ValueError(f"is {_shown(value)}")
    check_fitted(value, {letter: sides[letter] for letter in "md" if letter in sides})


def columns(value: Any, sides: Sides) -> None:
    """Tuple of the columns of a table, at least one of them used."""
    if not isinstance(value, tuple) or not all(isinstance(column, Column) for column in value):
        raise ValueError(f"is {_shown(value)}, not a tuple of columns")
    if not any(column.is_taken for column in value):
        raise ValueError("uses no column")
    for column in value:
        if column.terms and (column.weights is None or column.weights.shape != (len(column.terms),)):
            raise ValueError(f"has other weights than words in {column.name!r}")


def layers(value: Any, sides: Sides) -> None:
    """Tuple of partitions of the same rows and leaves; "i" stands for their number."""
    if not isinstance(value, tuple) or not value or not all(isinstance(layer, ClusterLayer) for layer in value):
        raise ValueError(f"is {_shown(value)}, not a tuple of layers")
    sides["i"] = len(value)
    for layer in value:
        known = {"n": sides.setdefault("n", len(layer.labels)), "f": sides.setdefault("f", len(layer.leaves))}
        for name, (check, *given) in LAYER.items():
            _named(f"holds a layer whose {name}", check, getattr(layer, name), known, *given)


def profiles(value: Any, sides: Sides) -> None:
    """Profiles of the clusters; effects may be infinite."""
    if not isinstance(value, ClusterProfiles):
        raise ValueError(f"is {_shown(value)}, not profiles of clusters")
    array(value.sizes, sides, "c")
    array(np.array(value.names), sides, "d")
    for by_feature in (value.means, value.rest_means, value.effects):
        array(by_feature, sides, "cd")
    if np.isnan(value.effects).any():
        raise ValueError("holds effects that are no numbers")


# Attributes that a fitted model may lack; files of earlier states of 0.1.0 have no `n_clusters_` and `distance_`.
OPTIONAL = frozenset(
    {"AdaAM.n_clusters_", "cluster_profiles_", "distance_", "feature_names_in_", "knn_recall_", "stability_"}
)
MAY_BE_NONE = frozenset({"knn_recall_", "memberships_", "outlier_scores_", "probabilities_", "stability_"})
# Letters: d features, m components, n rows, c clusters, e known rows, f leaves, i layers, l landmarks, v vectors.
LAYER: Contents = {
    "n_clusters": (count, "c"),
    "labels": (whole_numbers, "n", "c", -1),
    "sizes": (numbers, "c"),
    "firmness": (numbers, "c"),
    "persistence": (number, -np.inf, True),
    "leaves": (whole_numbers, "f", "c"),
}
FEATURES: Contents = {"n_features_in_": (count, "d"), "feature_names_in_": (names,)}
MAP: Contents = {
    **FEATURES,
    "components_": (numbers, "md"),
    "covariance_": (numbers, "md"),
    "mean_": (numbers, "d"),
    "eigenvalues_": (numbers, "m"),
    "n_components_": (count, "m"),
    "engine_": (kind, str),
    "preparation_": (kind, Preparation),
}
RECALL: Contents = {"knn_recall_": (number,)}
PIECES: Contents = {"labels_": (whole_numbers, "n"), "affinity_matrix_": (sparse, "nn"), "n_iter_": (count,)}
FITTED: dict[str, Contents] = {
    "TableEncoder": {**FEATURES, "columns_": (columns,)},
    "Pipeline": {},
    "PreparedMetric": MAP,
    "DiscriminantMetric": MAP,
    "LPP": {**MAP, **RECALL},
    "AdaAM": {
        **MAP,
        **RECALL,
        "cuts_": (two_numbers,),
        "n_clusters_": (count,),
        "n_neighbors_": (count,),
        "pairs_": (kind, RowBlocks, "all"),
        "plan_": (kind, Plan),
        "stability_": (kind, Stability),
    },
    "PCAN": {**MAP, "n_neighbors_": (count,), "embedding_": (numbers, "nm"), **PIECES},
    "CAN": {**FEATURES, "engine_": (kind, str), **PIECES},
    "LSC": {
        **FEATURES,
        "landmarks_": (numbers, "ld"),
        "bandwidth_": (number, 0.0),
        "directions_": (numbers, "lv"),
        "cluster_centers_": (numbers, "cv"),
        "labels_": (whole_numbers, "n", "c"),
    },
    "AdaAMClustering": {
        **MAP,
        "metric_": (metric,),
        "head_": (kind, str),
        "distance_": (kind, str),
        "n_clusters_": (count, "c"),
        "cluster_centers_": (numbers, "cm"),
        "inertia_": (number,),
        "embedding_": (numbers, "em"),
        "embedding_radii_": (numbers, "e"),
        "cluster_layers_": (layers,),
        "embedding_leaves_": (whole_numbers, "e", "f"),
        "layer_": (count, "", "i"),
        "labels_": (whole_numbers, "n", "c", -1),
        "noise_threshold_": (number, -np.inf, True),
        "cluster_profiles_": (profiles,),
        "outlier_scores_": (numbers, "n"),
        "probabilities_": (numbers, "n"),
        "memberships_": (sparse, "nc"),
        "selection_": (kind, Selection),
    },
}


def known_classes() -> dict[str, type]:
    """The only classes a model file can name."""
    public = [getattr(module, name) for module in (adaam.affinity, adaam.estimators) for name in module.__all__]
    settings = [cls for cls in public if isinstance(cls, type) and issubclass(cls, BaseEstimator)]
    return {cls.__name__: cls for cls in [*settings, Preparation, RowBlocks, *TABLES, *ENGINES, *REPORTS]}


def encoded(value: Any, arrays: Arrays, path: str) -> Any:
    """Convert a value to JSON data; arrays go into `arrays` under their path."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays[path] = value
        return {"array": path}
    if issparse(value):
        csr = csr_array(value)
        parts = {name: encoded(getattr(csr, name), arrays, f"{path}.{name}") for name in ("data", "indices", "indptr")}
        return {"sparse": parts, "shape": [int(side) for side in csr.shape]}
    if isinstance(value, np.ndarray | tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "names" if isinstance(value, np.ndarray) else "list"
        return {kind: [encoded(item, arrays, f"{path}.{i}") for i, item in enumerate(value)]}
    if isinstance(value, dict):
        return {"mapping": {str(key): encoded(item, arrays, f"{path}.{key}") for key, item in value.items()}}
    name = type(value).__name__
    params: dict[str, Any]
    fitted: dict[str, Any] = {}
    if isinstance(value, ENGINES + REPORTS):
        params = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        if isinstance(value, ENGINES):  # the name is fixed, and a connection cannot be saved
            params = {key: item for key, item in params.items() if key not in ("name", "client")}
    elif known_classes().get(name) is type(value):
        params = value.get_params(deep=False)  # type: ignore[attr-defined]
        fitted = {key: item for key, item in vars(value).items() if ATTRIBUTE.fullmatch(key) and key not in params}
    else:
        raise TypeError(
            f"{path.replace('model.', '', 1)}={value!r} is a {name}, which a model file cannot hold as data. "
            "Use joblib.dump for models with parts of your own."
        )
    return {
        "class": name,
        "params": {key: encoded(item, arrays, f"{path}.{key}") for key, item in params.items()},
        "fitted": {key: encoded(item, arrays, f"{path}.{key}") for key, item in fitted.items()},
    }


def decoded(data: Any, arrays: Arrays) -> Any:
    """Convert JSON data and arrays back to the value; arrays that the data names are removed from `arrays`."""
    if isinstance(data, list):
        raise ValueError("a list stands where a value was expected")
    if not isinstance(data, dict):
        return data
    if "array" in data:
        if data["array"] not in arrays:
            raise ValueError(f"the array {data['array']!r} is missing, or used twice")
        return arrays.pop(data["array"])
    if "sparse" in data:
        parts = [decoded(data["sparse"][name], arrays) for name in ("data", "indices", "indptr")]
        matrix = csr_array(tuple(parts), shape=tuple(data["shape"]))
        matrix.check_format(full_check=True)
        return matrix
    if "mapping" in data:
        return {key: decoded(item, arrays) for key, item in data["mapping"].items()}
    if "names" in data:
        if not all(isinstance(item, str) for item in data["names"]):
            raise ValueError("a name is no word")
        return np.array(data["names"], dtype=object)
    for kind in (tuple, list):
        if kind.__name__ in data:
            return kind(decoded(item, arrays) for item in data[kind.__name__])
    cls = known_classes().get(data["class"])
    if cls is None:
        raise ValueError(f"unknown class {data['class']!r}")
    params = {key: decoded(item, arrays) for key, item in data["params"].items()}
    value = cls(**params)
    for key, item in params.items():
        check_setting(cls, key, item)
    for key, item in data["fitted"].items():
        if not ATTRIBUTE.fullmatch(key) or isinstance(value, ENGINES + REPORTS):
            raise ValueError(f"unexpected attribute {key!r}")
        setattr(value, key, decoded(item, arrays))
    if hasattr(value, "_check_loaded"):
        value._check_loaded()
    return value


def check_fitted(model: Any, sides: Sides | None = None) -> None:
    """Raise unless a model is a fitted estimator whose attributes are consistent."""
    name = type(model).__name__
    if name not in FITTED:
        raise ValueError(f"it is {_shown(model)}, which is no estimator")
    if isinstance(model, Pipeline):
        _check_pipeline(model)
        return
    contents, known = FITTED[name], {} if sides is None else sides
    held = {key: value for key, value in vars(model).items() if key.endswith("_") and not key.startswith("_")}
    for key, (check, *given) in contents.items():
        if key in held:
            if held[key] is not None or key not in MAY_BE_NONE:
                _named(f"{key} of {name}", check, held[key], known, *given)
        elif key not in OPTIONAL and f"{name}.{key}" not in OPTIONAL:
            raise ValueError(f"{name} is not fitted: {key} is missing")
    for key in held:
        if key not in contents and key not in model.get_params(deep=False):
            raise ValueError(f"{name} has no attribute {key!r}")


def _named(name: str, check: Any, *given: Any) -> None:
    """Run a check, and put the name of the value before its error message."""
    try:
        check(*given)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def _check_pipeline(model: Any) -> None:
    """Raise unless a pipeline is a TableEncoder and a model that expects as many columns as it makes."""
    match model.steps:
        case [(str(), TableEncoder() as encoder), (str(), BaseEstimator() as last)] if not isinstance(last, TABLES):
            check_fitted(encoder)
            check_fitted(last)
        case _:
            raise ValueError("Pipeline has other steps than a TableEncoder and a model")
    n_made = len(encoder.get_feature_names_out())
    if n_made != last.n_features_in_:
        raise ValueError(f"its table makes {n_made} columns, but its model expects {last.n_features_in_}")


def check_setting(cls: type, name: str, value: Any) -> None:
    """Raise unless a setting fits the annotation of the constructor's parameter."""
    hint = get_type_hints(cls.__init__).get(name, Any)  # type: ignore[misc]
    if isinstance(value, float) and np.isnan(value) and issubclass(cls, BaseEstimator):
        raise ValueError(f"{name} of {cls.__name__} is NaN")
    if not _fits(value, hint):
        raise ValueError(f"{name}={_shown(value)} is no setting of {cls.__name__}")


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
