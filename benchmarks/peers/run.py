"""Time and memory of AdaAM, the methods it is compared with and other libraries, by number of rows.

    ADAAM_DATA=FOLDER python benchmarks/peers/run.py [--sizes 5000 10000 20000 40000 70000] [--methods ...]

First rows of MNIST, the same threads for all. Each method and size runs in its own process, which warms up (on 5,000
rows, so that nothing is compiled later), reads its resident set, and fits `--repeats` times. The median time counts,
and the high-water mark of the first fit. Larger sizes are skipped once a fit takes longer than `--limit` seconds.
Records are appended to results/records.jsonl; cases found there are not run again unless `--again` is given. peers.md
and peers.svg beside it are made from the records; `--draw` does only that.
"""

import argparse
import ctypes
import gc
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from methods import METHODS

RESULTS = Path(__file__).parent / "results"
SIZES = [5_000, 10_000, 20_000, 40_000, 70_000]
WARM_UP_ROWS = 5_000  # below 4,096 rows UMAP uses another neighbour search, and would compile the usual one later


def resident(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{field} is not in /proc/self/status")


def measure(name, n, repeats):
    """Fit in this process; print one record."""
    import numpy as np

    warnings.simplefilter("ignore")
    with np.load(Path(os.environ["ADAAM_DATA"]) / "mnist.npz") as archive:
        rows, labels = archive["X"], archive["y"]
    X, y = rows[:n].astype(np.float64), labels[:n]
    warm = rows[:WARM_UP_ROWS].astype(np.float64)
    fit = METHODS[name].load()
    fit(warm)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory freed by the warm-up must not hide what the fit allocates
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    seconds, processor, extra, found = [], [], 0, None
    for turn in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        found = fit(X)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
        if turn == 0:
            extra = resident("VmHWM") - before
        if seconds[-1] > 60:
            break
    record = {
        "method": name,
        "n": n,
        "seconds": float(np.median(seconds)),
        "all_seconds": seconds,
        "processor_seconds": float(np.median(processor)),
        "extra_mb": round(extra / 1e6),
        "threads": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "machine": platform.machine(),
        "versions": {package: installed(package) for package in ("adaam", *METHODS[name].packages)},
    }
    if found is not None and getattr(found, "ndim", 0) == 1:
        from adaam.scores import clustering_accuracy

        record["accuracy"] = float(clustering_accuracy(y, found))
    print(json.dumps(record))


def installed(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def known():
    """Return the last record of each method and size."""
    path = RESULTS / "records.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {(record["method"], record["n"]): record for record in map(json.loads, lines)}


def race(names, sizes, repeats, limit, again):
    RESULTS.mkdir(exist_ok=True)
    records = {} if again else known()
    for n in sizes:  # all methods of one size in succession, so that they run under similar load
        for name in names:
            missing = [package for package in METHODS[name].packages if installed(package) is None]
            slow = any(r["seconds"] > limit for (method, size), r in records.items() if method == name and size < n)
            if missing or slow or (name, n) in records:
                if missing:
                    print(f"{name:28} left out: {', '.join(missing)} is not installed", flush=True)
                continue
            command = [sys.executable, __file__, "--one", name, "--sizes", str(n), "--repeats", str(repeats)]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode:
                print(f"{name:28} {n:7} failed: {run.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
            record = json.loads(run.stdout.splitlines()[-1])
            records[name, n] = record
            with (RESULTS / "records.jsonl").open("a") as stream:
                stream.write(json.dumps(record) + "\n")
            print(f"{name:28} {n:7} {record['seconds']:8.2f} s  {record['extra_mb']:6} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--one")
    arguments = parser.parse_args()
    if arguments.one:
        measure(arguments.one, arguments.sizes[0], arguments.repeats)
        return
    if not arguments.draw:
        race(arguments.methods, arguments.sizes, arguments.repeats, arguments.limit, arguments.again)
    from draw import draw

    draw(known(), RESULTS)


if __name__ == "__main__":
    main()
