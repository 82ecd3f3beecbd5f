"""Examples run unchanged, and the example of a custom affinity works with weights and in the benchmark."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

EXAMPLES = Path(__file__).parent.parent / "examples"


# Those that draw (plot_*.py) run in the build of the documentation.
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("[!p]*.py")), ids=lambda path: path.name)
def test_example_runs(path, tmp_path):
    result = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_an_affinity_of_ones_own_goes_through_lpp_and_the_benchmark():
    spec = importlib.util.spec_from_file_location("own_affinity", EXAMPLES / "own_affinity.py")
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    from adaam import LPP
    from adaam.bench.run import run_case

    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    model = clone(LPP(3, affinity=own.MutualAffinity(n_neighbors=8), preparation="unit"))
    weights = np.random.default_rng(0).integers(1, 4, size=300)
    weighted = model.fit(X, sample_weight=weights).transform(X)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0)).transform(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)
    records = list(run_case(own.MINE, X, y, dataset="digits", preparation="reference", n_rounds=2))
    assert [record["round"] for record in records] == [0, 1]
    assert all(0.2 < record["acc"] <= 1 for record in records)
