"""Time two checkouts of the library alternately, to find out whether anything has become slower.

    git worktree add ../before COMMIT
    python benchmarks/alternate.py --before ../before --data FOLDER [--turns 5] [--work fit-10k transform ...]

Each turn runs in its own process, which does the work once as warm-up and once for the clock. Medians of wall and
processor seconds, and their ratios (now / before), go to results/alternate.jsonl.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
MNIST_ROWS = {"10k": 10_000, "70k": 70_000}


def fit(X):
    from adaam import AdaAM, CPUEngine

    # Exact neighbours in both, since the default search was changed on purpose.
    return lambda: AdaAM(10, engine=CPUEngine(recall=1.0)).fit(X)


def row_blocks(X):
    from adaam import AdaAM, RowBlocks

    return lambda: AdaAM(10, pairs=RowBlocks()).fit(X)


def transform(X):
    from adaam import AdaAM

    metric = AdaAM(10).fit(X[:2000])
    return lambda: [metric.transform(X) for _ in range(5)]


def search(X):
    from adaam import AdaAMClustering

    return lambda: AdaAMClustering(10).fit(X)


def dask(X):
    from distributed import Client, LocalCluster

    from adaam import AdaAM, RowBlocks

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="4GB")
    Client(cluster)
    return lambda: AdaAM(10, engine="dask", pairs=RowBlocks(2_500)).fit(X)


WORK = {
    "fit-10k": fit,
    "fit-70k": fit,
    "row-blocks-70k": row_blocks,
    "transform-70k": transform,
    "search-10k": search,
    "dask-10k": dask,
}


def measured(name, data):
    """Do a piece of work in this process; return wall and processor seconds, those of all threads included."""
    warnings.simplefilter("ignore")
    with np.load(Path(data) / "mnist.npz") as archive:
        X = archive["X"][: MNIST_ROWS[name.rsplit("-", 1)[1]]].astype(np.float64)
    work = WORK[name](X)
    work()
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def turn(tree, name, data):
    command = [sys.executable, __file__, "--data", data, "--measure", name]
    environment = {**os.environ, "PYTHONPATH": str(Path(tree) / "src")}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="the other checkout")
    parser.add_argument("--data", required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--measure", choices=WORK, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measured(arguments.measure, arguments.data)))
        return
    for name in arguments.work:
        trees = {"before": arguments.before, "now": HERE.parent}
        taken = {tree: [] for tree in trees}
        for _ in range(arguments.turns):
            for tree, path in trees.items():
                taken[tree].append(turn(path, name, arguments.data))
        record = {"work": name}
        for i, clock in enumerate(("wall", "processor")):
            medians = {tree: statistics.median(seconds[i] for seconds in turns) for tree, turns in taken.items()}
            record |= {f"{clock}_{tree}": median for tree, median in medians.items()}
            record[f"{clock}_ratio"] = medians["now"] / medians["before"]
        print({key: value if key == "work" else round(value, 3) for key, value in record.items()}, flush=True)
        with (HERE / "results" / "alternate.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
