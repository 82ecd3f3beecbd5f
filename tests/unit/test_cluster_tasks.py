"""The engine of a task: the CPU engine with the requested kernels, compiled once per machine."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from adaam.engines import ClusterError, CPUEngine, DaskEngine, compiled
from adaam.engines.cluster.workers import task_engine
from adaam.large.blocked import group_sum
from adaam.prepare import Sample

try:
    import numba
except ImportError:
    numba = None


def test_a_worker_without_numba_uses_numpy_or_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr(compiled, "_installed", lambda: False)
    assert task_engine("auto", 10_000, 2500).kernels == "numpy"
    with pytest.raises(ClusterError, match=r'needs numba on every worker.*adaam\[fast\].*kernels="auto"'):
        task_engine("numba", 10_000, 2500)


def test_kernels_that_are_not_known_are_refused():
    with pytest.raises(ValueError, match="kernels='fast'"):
        task_engine("fast", 10, 10)


def test_an_engine_keeps_its_settings_when_it_travels():
    engine = DaskEngine(block_rows=5, kernels="numpy", in_flight=2, starts="k-means||")
    assert pickle.loads(pickle.dumps(engine)) == engine


@pytest.mark.skipif(numba is None, reason="numba is not installed")
@pytest.mark.slow
def test_processes_that_start_at_once_with_nothing_compiled_agree(tmp_path):
    """One compiles; the others wait for it and read its cache."""
    pytest.importorskip("fcntl", reason="no locks between processes here")
    code = (
        "from adaam.engines.cluster.workers import task_engine\n"
        "import numpy as np\n"
        "P = np.random.default_rng(0).standard_normal((50, 3))\n"
        "_, laplacian, _ = task_engine('numba', 50, 50).cut_laplacian(P, 400.0, P, 1.0, 1.0)\n"
        "from adaam.engines.pruned.screened import accumulate_tile\n"
        "print(laplacian.sum(), sum(accumulate_tile.stats.cache_misses.values()))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(3)
    ]
    told = [process.communicate()[0].split() for process in started]
    assert all(process.returncode == 0 for process in started)
    assert len({total for total, _ in told}) == 1
    assert sorted(int(compiled) for _, compiled in told) == [0, 0, 1]


def test_blocks_prepared_by_a_worker_with_numba_are_summed_by_one_without(monkeypatch, rng):
    X = rng.standard_normal((40, 5))
    prepared = Sample(X, 1.0, CPUEngine(kernels="numba"))
    monkeypatch.setattr(compiled, "_installed", lambda: False)

    def mapped(sample):
        return sample.engine.project(sample.X, 1.0, np.zeros(5), np.eye(5))

    found = group_sum(mapped, "auto", 5000, [prepared], np.array([0]))
    np.testing.assert_allclose(found, X)
