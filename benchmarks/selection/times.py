"""Time of the default clusterer, selection included, beside UMAP + k-means, in one run on the same rows and cores.

    python benchmarks/selection/times.py --data FOLDER --rows 10000 --repeats 3

Each is warmed up on a few rows first (UMAP compiles); medians and ratios are printed. UMAP runs twice: as it is, on all
cores and different each time, and with a seed, which makes it repeatable, as this library always is, and slower.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from adaam import AdaAMClustering
from adaam.scores import clustering_accuracy


def timed(make, X, y, repeats):
    seconds, accuracies = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        labels = make(X)
        seconds.append(time.perf_counter() - start)
        accuracies.append(clustering_accuracy(y, labels))
    return {"seconds": float(np.median(seconds)), "all": seconds, "acc": float(np.mean(accuracies))}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default="benchmarks/selection/results/times.json")
    parser.add_argument("--without-umap", action="store_true")
    arguments = parser.parse_args()
    with np.load(Path(arguments.data) / "mnist.npz") as file:
        X, y = file["X"][: arguments.rows].astype(np.float64), file["y"][: arguments.rows]
    warnings.simplefilter("ignore")

    def ours(rows):
        return AdaAMClustering(10).fit_predict(rows)

    methods = {"AdaAMClustering": ours}
    if not arguments.without_umap:
        import umap

        def with_umap(rows, **settings):
            Z = umap.UMAP(n_components=10, min_dist=0.0, **settings).fit_transform(rows)
            return KMeans(10, n_init=10, random_state=0).fit_predict(Z)

        methods["UMAP + k-means"] = with_umap
        if arguments.rows <= 20_000:  # on one core it takes many minutes beyond
            methods["UMAP + k-means, seeded"] = lambda rows: with_umap(rows, random_state=0)
    found = {}
    for name, make in methods.items():
        make(X[:5000])  # below 4,096 rows UMAP searches neighbours otherwise and would compile the rest later
        found[name] = timed(make, X, y, arguments.repeats)
        ratio = found[name]["seconds"] / found["AdaAMClustering"]["seconds"]
        print(
            f"{name:24s} {found[name]['seconds']:7.2f} s  {ratio:5.2f} x  accuracy {found[name]['acc']:.3f}", flush=True
        )
    record = {"n": len(X), "cores": os.cpu_count(), "methods": found}
    with Path(arguments.out).open("a") as stream:
        stream.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
