"""The modules and functions that a fit calls, as listed in CONTRIBUTING.

`python tests/unit/test_walk.py` updates the list.
"""

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
MOST_MODULES = 23
MOST_HOPS = 80
HEAD = "| module | called from other modules |\n|---|---|\n"
SOURCE = Path(adaam.__file__).parent


def module_of(code):
    """Return the name of the adaam module that contains a code object, or None."""
    path = Path(code.co_filename)
    return str(path.relative_to(SOURCE).with_suffix("")) if path.is_relative_to(SOURCE) else None


def hops(work):
    """Return the functions that are called from another module, in order, by module.

    Inner functions, and functions mapped over row blocks, do not count: they are written where they are passed on.
    """
    found, modules = {}, {}

    def seen(frame, event, _):
        called = modules.setdefault(frame.f_code, module_of(frame.f_code)) if event == "call" else None
        if called is None:
            return
        names = found.setdefault(called, {})
        # The frame of a compiled function has no caller, but is no frame of the interpreter either.
        inner = sys._getframe(1)
        caller = inner.f_back if inner is frame else inner
        while caller is not None and modules.setdefault(caller.f_code, module_of(caller.f_code)) is None:
            caller = caller.f_back
        name = frame.f_code.co_qualname
        handed_over = caller is None or caller.f_code.co_name == "ordered_map" or "<" in name
        if not handed_over and modules[caller.f_code] != called:
            names.setdefault(name)

    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def hops_of_a_fit():
    rng = np.random.default_rng(0)
    clusters = rng.standard_normal((10, 120))[rng.integers(10, size=5000)]
    X = np.abs(clusters + 0.5 * rng.standard_normal((5000, 120))) * (rng.random((5000, 120)) < 0.3)
    AdaAM(10).fit(X)  # work done once per process does not count
    return hops(lambda: AdaAM(10).fit(X))


def listing(found):
    rows = ((module, "".join(f" `{name}`," for name in names)) for module, names in found.items())
    lines = [f"| `{module}` |{names.rstrip(',')} |\n" for module, names in rows]
    n_hops, inside = sum(map(len, found.values())), sum(module.startswith("engines/") for module in found)
    return f"{HEAD}{''.join(lines)}\n{n_hops} functions in {len(found)} modules, {inside} of them in `engines/`.\n"


@pytest.mark.skipif(not CONTRIBUTING.exists(), reason="the sdist has no CONTRIBUTING.md")
def test_contributing_lists_the_modules_and_functions_that_a_fit_walks_through():
    found = hops_of_a_fit()
    text = CONTRIBUTING.read_text()
    shown = re.search(f"{re.escape(HEAD)}(.*?)\n\n", text, re.DOTALL)[1]
    listed = {names[0]: set(names[1:]) for names in (re.findall("`([^`]+)`", line) for line in shown.splitlines())}
    assert {module: set(names) for module, names in found.items()} == listed
    assert len(found) <= MOST_MODULES
    assert sum(map(len, found.values())) <= MOST_HOPS


if __name__ == "__main__":
    place = re.compile(f"{re.escape(HEAD)}.*?\n\n[^\n]*\n", re.DOTALL)
    CONTRIBUTING.write_text(place.sub(lambda _: listing(hops_of_a_fit()), CONTRIBUTING.read_text()))
