"""Compiled loops: when they run, that results do not depend on them, and that no stale machine code is used."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import adaam
import oracles
from adaam import LPP, AdaAM
from adaam.engines import CPUEngine, compiled
from adaam.engines.compiled import uses_numba

try:
    import numba
except ImportError:
    numba = None

needs_numba = pytest.mark.skipif(numba is None, reason="numba is not installed")


@needs_numba
def test_results_have_the_same_bits_on_one_thread_and_on_two(rng):
    P, X = rng.standard_normal((500, 3)), rng.standard_normal((500, 40))
    engine = CPUEngine(kernels="numba")
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            cut, laplacian, degrees = engine.cut_laplacian(P, 9000, X, 1.0, 1.0)
            graph = engine.neighbor_graph(X, 5, 1.0)
            found.append((cut, laplacian, degrees, graph.indices, graph.distances))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@needs_numba
@pytest.mark.parametrize("preparation", ["unit", "linear"])
def test_a_fit_learns_the_same_space_with_and_without_numba(preparation):
    X, _ = load_digits(return_X_y=True)
    maps = [AdaAM(10, preparation=preparation, engine=CPUEngine(kernels=name)).fit(X) for name in ("numba", "numpy")]
    assert subspace_angles(maps[0].components_.T, maps[1].components_.T).max() < 1e-9
    np.testing.assert_allclose(maps[0].cuts_, maps[1].cuts_, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_recall_says_where_nothing_was_searched(rng):
    X = rng.standard_normal((60, 4))
    indices, distances = oracles.neighbors(X, 5)
    assert AdaAM(3).fit(X).knn_recall_ == 1.0
    assert AdaAM(3).fit(X, neighbors=(indices, distances)).knn_recall_ is None
    assert LPP(2).fit(X, affinity=csr_array(np.ones((60, 60)))).knn_recall_ is None


def test_numpy_takes_over_where_numba_is_not_installed(monkeypatch):
    monkeypatch.setattr(compiled, "_installed", lambda: False)
    assert not uses_numba("auto", 10**6)
    with pytest.raises(ImportError, match=r"pip install adaam\[fast\]"):
        uses_numba("numba", 10)


def test_few_rows_are_left_to_numpy():
    assert not uses_numba("auto", 100)
    assert not uses_numba("numpy", 10**6)


def test_unknown_kernels_are_refused(rng):
    P = rng.standard_normal((10, 2))
    with pytest.raises(ValueError, match="kernels='cython' is not known"):
        CPUEngine(kernels="cython").cut_laplacian(P, 5, P, 1.0, 1.0)


def test_a_small_fit_does_not_load_numba():
    code = (
        "import sys, numpy as np, adaam; adaam.AdaAM(2).fit(np.random.default_rng(0).random((60, 4)));"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@needs_numba
def test_editing_a_compiled_helper_never_runs_stale_machine_code(tmp_path):
    """numba's cache checks only the file of a function; what it calls may be in another one."""
    package = Path(adaam.__file__).parent
    shutil.copytree(package, tmp_path / "adaam", ignore=shutil.ignore_patterns("__pycache__"))
    helper = tmp_path / "adaam" / "engines" / "simd.py"
    code = (
        "import numpy as np\n"
        "from adaam.engines import zeros\n"
        "lists = np.array([0, 2]), np.zeros(2, np.int32), np.ones(2)\n"
        "product = np.full((1, 32), 5.0)\n"
        "zeros.accumulate_triangle(*lists, np.ones((1, 32)), product)\n"
        "print(product[0, 0], sum(zeros.accumulate_triangle.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run():
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert run() == ["7.0", "0"]
    assert run() == ["7.0", "1"], "what was compiled is used again"
    source = helper.read_text()
    edited = source.replace("add(load(product, out, PANEL), add(sums, others))", "add(sums, others)")
    assert edited != source
    helper.write_text(edited)
    assert run() == ["2.0", "0"], "an edited helper is compiled again with all that call it"


def test_no_private_module_of_numba_is_imported():
    """`numba.core` may change with any release; the loops need only `numba`, `numba.types` and `numba.extending`."""
    source = (Path(compiled.__file__).parent / "simd.py").read_text()
    assert "numba.core" not in source
    private = [name for name in ("cgutils", "numba.np", "_internal") if name in source]
    assert private == []
