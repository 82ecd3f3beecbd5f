"""Peak memory of a fit beyond the rows themselves, and its time, on MNIST (or random rows without ADAAM_DATA).

    python benchmarks/memory.py [--dtype float64] [--sizes 5000 10000 20000 40000]

Each size runs in a process of its own: the resident set is read once X is in memory and the library imported, the
kernel's high-water mark is reset, and read again after the fit.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def resident(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{field} is not in /proc/self/status")


def measure(n, dtype):
    import numpy as np

    import adaam

    folder = os.environ.get("ADAAM_DATA")
    if folder:
        with np.load(Path(folder) / "mnist.npz") as archive:
            X = archive["X"][:n].astype(dtype)
    else:
        X = np.random.default_rng(0).standard_normal((n, 784)).astype(dtype)
    adaam.AdaAM(10).fit(X[:300])  # imports, thread pools and workspaces do not count
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    start = time.perf_counter()
    adaam.AdaAM(10).fit(X)
    seconds = time.perf_counter() - start
    return {
        "n": n,
        "dtype": dtype,
        "data": "mnist" if folder else "random",
        "x_mb": round(X.nbytes / 1e6),
        "extra_mb": round((resident("VmHWM") - before) / 1e6),
        "fit_seconds": round(seconds, 2),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[5000, 10_000, 20_000, 40_000])
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--one", type=int)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.dtype)))
        return
    records = []
    for n in arguments.sizes:
        command = [sys.executable, __file__, "--one", str(n), "--dtype", arguments.dtype]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        records.append(json.loads(run.stdout))
        print(records[-1], flush=True)
    result = {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "records": records}
    target = HERE / "results" / f"memory-{arguments.dtype}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
