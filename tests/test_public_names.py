"""Code written for an earlier version still works: public names, signatures and saved models."""

import importlib
import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import adaam

BEFORE = Path(__file__).parent / "before"  # written by version 0.1.0 before its engines were reorganized
MODULES = ("adaam", "adaam.affinity", "adaam.engines", "adaam.estimators", "adaam.rows", "adaam.scores")

# Defaults that were changed on purpose, with the reason in the change log.
CHANGED = {("adaam.CPUEngine", "recall"), ("adaam.engines.CPUEngine", "recall")}


def parameters(thing):
    """Return names and defaults of parameters; none for exceptions, protocols and what cannot be called."""
    if not (inspect.isfunction(thing) or inspect.isclass(thing)):
        return {}
    if inspect.isclass(thing) and (issubclass(thing, BaseException) or getattr(thing, "_is_protocol", False)):
        return {}
    given = inspect.signature(thing).parameters.values()
    return {p.name: "" if p.default is p.empty else repr(p.default) for p in given}


def public_names():
    """Signature of each public name, and of each public method of the estimators and affinities."""
    found = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            found[f"{module_name}.{name}"] = parameters(thing)
            if module_name == "adaam.engines" or "Engine" in name or not inspect.isclass(thing):
                continue  # the verbs of engines are tested in tests/contracts/test_engines.py
            for method_name, method in inspect.getmembers(thing, inspect.isfunction):
                if not method_name.startswith("_") and method.__module__.startswith("adaam"):
                    found[f"{module_name}.{name}.{method_name}"] = parameters(method)
    return found


def known_before():
    return json.loads((BEFORE / "public_names.json").read_text())


def test_no_public_name_is_lost_and_no_parameter_changes():
    now, wrong = public_names(), []
    for name, given in known_before().items():
        if name not in now:
            wrong.append(f"{name} is gone")
            continue
        for parameter, default in given.items():
            if now[name].get(parameter) != default and (name, parameter) not in CHANGED:
                wrong.append(f"{name}({parameter}={default}) is now {now[name].get(parameter)}")
    assert wrong == []


def test_a_map_saved_before_loads_and_gives_the_same():
    model = adaam.load(BEFORE / "map.adaam")
    found = model.transform(load_digits().data[:150])
    np.testing.assert_allclose(found, np.load(BEFORE / "map.npy"), rtol=1e-6, atol=1e-9)


def test_a_clusterer_of_the_first_design_says_what_to_do():
    with pytest.raises(adaam.ModelFileError, match="saved by an older version.*fit it again"):
        adaam.load(BEFORE / "clusterer.adaam")
