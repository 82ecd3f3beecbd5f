"""The fused Triton kernels on host tensors, run by Triton's interpreter, against plain tiles in float64."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")


@pytest.mark.parametrize("case", ["cut", "pruned_gram", "neighbors", "sweeps"])
def test_fused_kernels_agree_with_plain_tiles(case):
    # Triton decides on import whether kernels are interpreted, so each case runs in a separate process.
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    script = Path(__file__).parent.parent / "triton_cases.py"
    run = subprocess.run([sys.executable, str(script), case], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
