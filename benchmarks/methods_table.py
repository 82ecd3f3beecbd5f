"""Accuracy of every compared method on the paper's five sets under both preparations, beside the paper's figures.

    ADAAM_DATA=FOLDER python benchmarks/methods_table.py [--rounds 10] [--methods adaam knn ...] [--datasets umist ...]

Records are appended to benchmarks/results/methods.jsonl as they come; cases that are there are not run again. The table
is written to benchmarks/results/methods.md from the records alone (also with --table, which runs nothing).
"""

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from adaam.bench.methods import METHODS
from adaam.bench.run import run_case

RESULTS = Path(__file__).parent / "results"
RECORDS = RESULTS / "methods.jsonl"
SETS = {"umist": None, "coil20": None, "usps": None, "mnist10k": 10_000, "exyaleb": None}
TITLES = {"umist": "UMIST", "coil20": "COIL20", "usps": "USPS", "mnist10k": "MNIST 10k", "exyaleb": "ExYaleB"}
PAPER = {
    "adaam": (66.06, 74.72, 69.36, 60.84, 54.36),
    "knn": (58.16, 71.89, 68.25, 48.13, 24.17),
    "cons-knn": (60.27, 75.53, 68.21, 47.88, 25.63),
    "dn": (59.15, 71.95, 68.08, 49.72, 24.21),
    "clustrf-bi": (64.63, 76.50, 58.74, 51.93, 23.10),
    "pcan-kmeans": (53.79, 72.28, 64.04, 58.93, 25.74),
    "pcan": (55.30, 81.74, 64.20, 59.83, 25.89),
}
# Isomap and LLE take tens of minutes at ten thousand rows and are run on the smaller sets alone.
SMALL_ONLY = {"isomap": 3000, "lle": 3000, "mds": 1500}


def load(name):
    with np.load(Path(os.environ["ADAAM_DATA"]) / f"{name.removesuffix('10k')}.npz") as archive:
        rows = SETS[name]
        return archive["X"][:rows].astype(np.float64), archive["y"][:rows]


def read_records():
    return [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.exists() else []


def run(arguments):
    done = {(r["dataset"], r["method"], r["preparation"]) for r in read_records()}
    RESULTS.mkdir(exist_ok=True)
    for dataset in arguments.datasets:
        X, y = load(dataset)
        for name in arguments.methods:
            method = METHODS[name]
            if len(X) > SMALL_ONLY.get(name, method.max_rows or len(X)):
                continue
            for preparation in method.preparations:
                if (dataset, name, preparation) in done:
                    continue
                start = time.perf_counter()
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        records = list(
                            run_case(method, X, y, dataset=dataset, preparation=preparation, n_rounds=arguments.rounds)
                        )
                except Exception as error:  # one failed case must not stop the others
                    print(f"{dataset:9} {name:18} {preparation:10} FAILED: {error}", flush=True)
                    continue
                with RECORDS.open("a") as stream:
                    stream.writelines(json.dumps(record) + "\n" for record in records)
                mean = 100 * np.mean([record["acc"] for record in records])
                spent = time.perf_counter() - start
                print(
                    f"{dataset:9} {name:18} {preparation:10} {mean:6.2f}   fit {records[0]['fit_seconds']:7.2f} s"
                    f"   all {spent:6.1f} s",
                    flush=True,
                )


def table():
    cells = {}
    for record in read_records():
        cells.setdefault((record["method"], record["preparation"], record["dataset"]), []).append(record["acc"])
    lines = [
        "Average accuracy (%) over the rounds of each case; a row for each preparation, the paper's average below it.",
        "",
        "| method | preparation | " + " | ".join(TITLES.values()) + " |",
        "|---|---|" + "---|" * len(SETS),
    ]
    for name, method in METHODS.items():
        for preparation in method.preparations:
            row = [cells.get((name, preparation, dataset)) for dataset in SETS]
            if any(row):
                shown = " | ".join(f"{100 * np.mean(cell):.1f}" if cell else "–" for cell in row)
                lines.append(f"| {method.title} | {preparation} | {shown} |")
        if name in PAPER:
            lines.append(f"| *paper* | | {' | '.join(f'*{value:.1f}*' for value in PAPER[name])} |")
    (RESULTS / "methods.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--datasets", nargs="+", default=list(SETS))
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if not arguments.table:
        if not os.environ.get("ADAAM_DATA"):
            sys.exit("ADAAM_DATA names no folder with the data sets.")
        run(arguments)
    table()


if __name__ == "__main__":
    main()
