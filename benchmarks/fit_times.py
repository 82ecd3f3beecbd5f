"""Fit times of all methods on the first rows of MNIST, measured in one run, with ratios to AdaAM's.

    ADAAM_DATA=FOLDER python benchmarks/fit_times.py [--sizes 1000 2000 5000 10000] [--methods ...] [--limit SECONDS]

A method is not run at larger sizes once a fit took longer than the limit. NAME@literature selects a method's own
preparation instead of the reference one. Records go to results/fit_times.jsonl, where those of methods that were not
run are kept, and the table to results/fit_times.md.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np

from adaam.bench.methods import METHODS, Case
from adaam.graph import paper_neighbors

RESULTS = Path(__file__).parent / "results"
PAPER_METHODS = [
    "adaam",
    "knn",
    "cons-knn",
    "dn",
    "clustrf-bi",
    "pcan",
    "pcan@literature",
    "can",
    "lsc",
    "spectral",
    "pca",
]


def fit_seconds(name, X, repeats):
    method = METHODS[name.split("@")[0]]
    preparation = name.split("@")[1] if "@" in name else method.preparations[0]
    case = Case(len(X), X.shape[1], 10, paper_neighbors(len(X), 10), preparation, 0)
    times = []
    for _ in range(repeats):
        estimator = method.make(case)
        start = time.perf_counter()
        estimator.fit_predict(X) if method.kind == "labels" else estimator.fit_transform(X)
        times.append(time.perf_counter() - start)
        if times[-1] > 20:
            break
    return min(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 5000, 10_000])
    parser.add_argument("--methods", nargs="+", default=PAPER_METHODS)
    parser.add_argument("--limit", type=float, default=120.0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with np.load(Path(os.environ["ADAAM_DATA"]) / "mnist.npz") as archive:
        rows = archive["X"][: max(arguments.sizes)].astype(np.float64)
    table = {}
    records = RESULTS / "fit_times.jsonl"
    before = [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
    for name in arguments.methods:
        fit_seconds(name, rows[:300], 1)  # warm up
    for n in arguments.sizes:  # all methods of one size in succession, so that they run under similar load
        for name in arguments.methods:
            if any(table.get((name, m), 0.0) > arguments.limit for m in arguments.sizes if m < n):
                continue
            table[name, n] = fit_seconds(name, rows[:n], 3)
            print(f"{name:12} {n:6} {table[name, n]:8.2f} s", flush=True)
    RESULTS.mkdir(exist_ok=True)
    known = {(record["method"], record["n"]): record["fit_seconds"] for record in before}
    table = {key: seconds for key, seconds in known.items() if key[0] not in arguments.methods} | table
    names = sorted({name for name, _ in table}, key=PAPER_METHODS.index)
    with records.open("w") as stream:
        for (name, n), seconds in table.items():
            record = {"dataset": "mnist", "method": name, "n": n, "fit_seconds": seconds, "cores": os.cpu_count()}
            stream.write(json.dumps(record) + "\n")
    lines = [
        "Fit seconds on the first n rows of MNIST (in brackets: over AdaAM's); best of three, methods of one size",
        "side by side; reference preparation where a method has it.",
        "",
        "| method | " + " | ".join(f"n = {n:,}" for n in arguments.sizes) + " |",
        "|---|" + "---|" * len(arguments.sizes),
    ]
    for name in names:
        cells = [
            f"{table[name, n]:.2f} ({table[name, n] / table['adaam', n]:.1f}×)" if (name, n) in table else "–"
            for n in arguments.sizes
        ]
        title = METHODS[name.split("@")[0]].title + (", its own preparation" if "@" in name else "")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    (RESULTS / "fit_times.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
