"""The walk of a fit through the modules, as CONTRIBUTING lists it."""

import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import adaam
from adaam import AdaAM

pytest.importorskip("numba", reason="numba is not installed")

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
MOST_MODULES = 34


def listed():
    """Modules of the table, and functions and classes that it names beside them."""
    text = CONTRIBUTING.read_text()
    table = text[text.index("| | module | what it does there |") :].split("\n\n")[0]
    rows = [[re.findall("`([^`]+)`", cell) for cell in line.split("|")[2:4]] for line in table.splitlines()[2:]]
    return {module for modules, _ in rows for module in modules}, {name for _, names in rows for name in names}


def walked(work):
    """Modules whose functions are called, and the names of functions and of their classes."""
    root = Path(adaam.__file__).parent
    modules, names = set(), set()

    def seen(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(root):
            modules.add(str(path.relative_to(root).with_suffix("")))
            names.update({frame.f_code.co_qualname, *frame.f_code.co_qualname.split(".")})

    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return modules, names


@pytest.mark.skipif(not CONTRIBUTING.exists(), reason="the sdist has no CONTRIBUTING.md")
def test_contributing_lists_the_modules_that_a_fit_walks_through(rng):
    clusters = rng.standard_normal((10, 120))[rng.integers(10, size=5000)]
    X = np.abs(clusters + 0.5 * rng.standard_normal((5000, 120))) * (rng.random((5000, 120)) < 0.3)
    AdaAM(10).fit(X[:4100])  # what is done once in a process is no part of the walk
    modules, names = walked(lambda: AdaAM(10).fit(X))
    expected, named = listed()
    assert modules == expected
    assert named <= names | {"Sample", "PairBlock", "NeighborGraph", "HostHalf", "LinearMap"}
    assert len(modules) <= MOST_MODULES
