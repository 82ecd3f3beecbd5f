"""Soak test: fit, save, load and predict in a loop, with flat memory and nothing left behind.

A few seconds run with the tests; ten minutes by hand:

    python tests/fuzz/test_soak.py 600
"""

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from adaam import LPP, LSC, PCAN, AdaAM, AdaAMClustering, ForestAffinity, RowBlocks, load, save

SECONDS_IN_CI = 8
WARM_UP = 0.3  # share of the time in which caches and arenas may still fill
MOST_GROWTH = 4.0  # MiB between the first and the last quarter after that; 0.1 were measured in ten minutes

MODELS = [
    AdaAM(3),
    AdaAM(3, preparation="linear", pairs=RowBlocks(n_blocks=2)),
    LPP(2, affinity=ForestAffinity(n_trees=10)),
    PCAN(3, max_iter=5),
    LSC(3, n_landmarks=40),
    AdaAMClustering(3, n_init=2),
]


def lap(rng, folder):
    """Fit each model on new rows, save and load it, and compare the results."""
    for model in MODELS:
        n, d = int(rng.integers(100, 300)), int(rng.integers(5, 30))
        X = rng.standard_normal((n, d)) + 4.0 * rng.standard_normal((3, d))[rng.integers(3, size=n)]
        path = Path(folder) / "model.adaam"
        save(model.fit(X), path)
        back = load(path)
        for use in ("transform", "predict"):
            if hasattr(model, use):
                np.testing.assert_array_equal(getattr(back, use)(X), getattr(model, use)(X))
        path.unlink()
        with suppress(ValueError):  # a fit that fails leaves nothing behind either
            model.fit(np.ones((10, d)))


def resident():
    """Return the resident MiB of this process after freeing what is unused, or None if unknown."""
    gc.collect()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def handles():
    """Return the numbers of open files and of threads."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def main(seconds):
    """Run laps and print what they have left behind; return 1 if memory, files or threads have grown."""
    warnings.simplefilter("ignore")
    rng, began, memory, first = np.random.default_rng(0), time.perf_counter(), [], None
    with tempfile.TemporaryDirectory() as folder:
        n_laps = 0
        while (passed := time.perf_counter() - began) < seconds or len(memory) < 4:
            lap(rng, folder)
            n_laps += 1
            if passed >= WARM_UP * seconds:
                memory.append(resident())
                first = first or handles()
        left = [path.name for path in Path(folder).iterdir()]
    quarter = max(1, len(memory) // 4)
    growth = median(memory[-quarter:]) - median(memory[:quarter])
    print(
        f"soak: {n_laps} laps of {len(MODELS)} models in {time.perf_counter() - began:.0f} s, "
        f"{memory[-1]:.0f} MiB held, grown by {growth:.2f} since the warm-up "
        f"({min(memory):.1f} to {max(memory):.1f}); open files and threads {first} -> {handles()}, files left {left}"
    )
    return int(growth > MOST_GROWTH or handles() != first or bool(left))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_fits_saves_and_loads_leave_nothing_behind():
    """Run in a separate process, so that other tests do not affect its memory."""
    ran = subprocess.run(
        [sys.executable, __file__, str(SECONDS_IN_CI)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "soak: " in ran.stdout


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0))
