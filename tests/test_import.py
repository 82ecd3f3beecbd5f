"""Importing adaam adds little to the import of scikit-learn, and loads no optional package."""

import os
import subprocess
import sys

import pytest

OPTIONAL = ["matplotlib", "plotly", "pandas", "polars", "pyarrow", "openpyxl"]
OPTIONAL += ["torch", "triton", "dask", "distributed", "numba", "faiss"]

# scikit-learn first, in the same process: what adaam adds is the difference, in time and in modules.
# (scikit-learn itself loads pandas and pyarrow where they are installed.)
MEASURE = """
import sys, time
start = time.perf_counter()
import sklearn.cluster, sklearn.datasets, sklearn.decomposition, sklearn.metrics, sklearn.neighbors
middle = time.perf_counter()
before = set(sys.modules)
import {module}
print((time.perf_counter() - middle) / (middle - start))
print(" ".join(name for name in {optional!r} if name in set(sys.modules) - before))
"""


def measure(module):
    """Return the time that importing `module` adds, relative to scikit-learn's, and the optional modules it loads."""
    code = MEASURE.format(optional=OPTIONAL, module=module)
    # Bytecode is cached, as for an installed package, even if the shell disables that.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    share, loaded = run.stdout.split("\n")[:2]
    return float(share), loaded.split()


def test_import_adds_at_most_a_fifth_to_scikit_learns():
    assert any(measure("adaam")[0] <= 0.2 for _ in range(4))  # a busy machine may be slow once


@pytest.mark.parametrize("module", ["adaam", "adaam.cli"])
def test_nothing_optional_is_loaded(module):
    assert measure(module)[1] == []


def test_the_cluster_engine_is_loaded_when_it_is_used():
    code = "import sys, adaam; print(*(name for name in sys.modules if name.startswith('adaam.engines.cluster.')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    door = {"adaam.engines.cluster." + name for name in ("engine", "plan", "rows", "workers")}
    assert set(run.stdout.split()) <= door
