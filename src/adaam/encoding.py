"""Estimators and settings as JSON data with arrays beside it, and back, for classes of this library alone."""

import re
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

import adaam.affinity
import adaam.estimators
from adaam.cluster_profile import ClusterProfiles
from adaam.engines import ClusterPlan, CPUEngine, DaskEngine, GPUEngine
from adaam.large import RowBlocks, Stability
from adaam.model_contents import setting_problem
from adaam.partition import ClusterLayer
from adaam.planning import Plan
from adaam.prepare import Preparation
from adaam.selection import ClusterCount, Selection, Trial
from adaam.tables import Column, TableEncoder

Arrays: TypeAlias = dict[str, Any]

# Plain values that estimators hold.
REPORTS = (ClusterPlan, Plan, Stability, Selection, Trial, ClusterCount, ClusterLayer, ClusterProfiles, Column)
VALUES = (CPUEngine, GPUEngine, DaskEngine, *REPORTS)

# A table's columns are kept with the model that they are for: Pipeline([("table", TableEncoder()), ("model", ...)]).
TABLES = (TableEncoder, Pipeline)

FITTED = re.compile(r"[a-z][a-z0-9_]*_")


def known_classes() -> dict[str, type]:
    """The only classes a model file can name."""
    public = [getattr(module, name) for module in (adaam.affinity, adaam.estimators) for name in module.__all__]
    settings = [cls for cls in public if isinstance(cls, type) and issubclass(cls, BaseEstimator)]
    return {cls.__name__: cls for cls in [*settings, Preparation, RowBlocks, *TABLES, *VALUES]}


def encoded(value: Any, arrays: Arrays, path: str) -> Any:
    """Turn a value into JSON data; arrays go into `arrays` under their path."""
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
    if isinstance(value, VALUES):
        params = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        if isinstance(value, CPUEngine | GPUEngine | DaskEngine):
            params.pop("name", None)  # its own
            params.pop("client", None)  # a connection is nothing to keep
    elif known_classes().get(name) is type(value):
        params = value.get_params(deep=False)  # type: ignore[attr-defined]
        fitted = {key: item for key, item in vars(value).items() if FITTED.fullmatch(key) and key not in params}
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
    """Turn JSON data and arrays back into the value; arrays that were named are taken out of `arrays`."""
    if not isinstance(data, dict):
        if isinstance(data, list):
            raise ValueError("a list stands where a value was expected")
        return data
    if "array" in data:
        return _array(data["array"], arrays)
    if "sparse" in data:
        parts = [decoded(data["sparse"][name], arrays) for name in ("data", "indices", "indptr")]
        matrix = csr_array(tuple(parts), shape=tuple(data["shape"]))
        matrix.check_format(full_check=True)
        return matrix
    if "mapping" in data:
        return {key: decoded(item, arrays) for key, item in data["mapping"].items()}
    for kind, make in (("tuple", tuple), ("list", list), ("names", _names)):
        if kind in data:
            return make([decoded(item, arrays) for item in data[kind]])
    cls = known_classes().get(data["class"])
    if cls is None:
        raise ValueError(f"unknown class {data['class']!r}")
    params = {key: decoded(item, arrays) for key, item in data["params"].items()}
    value = cls(**params)
    problem = next((found for key, item in params.items() if (found := setting_problem(cls, key, item))), None)
    if problem is not None:
        raise ValueError(problem)
    for key, item in data["fitted"].items():
        if not FITTED.fullmatch(key) or isinstance(value, VALUES):
            raise ValueError(f"unexpected attribute {key!r}")
        setattr(value, key, decoded(item, arrays))
    if hasattr(value, "_check_loaded"):
        value._check_loaded()
    return value


def _array(name: Any, arrays: Arrays) -> Any:
    if name not in arrays:
        raise ValueError(f"the array {name!r} is missing, or used twice")
    return arrays.pop(name)


def _names(items: list[Any]) -> Any:
    """Feature names, as scikit-learn keeps them."""
    if not all(isinstance(item, str) for item in items):
        raise ValueError("a name is no word")
    return np.array(items, dtype=object)
