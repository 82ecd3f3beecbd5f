"""scikit-learn's digits, all ten classes and the first five: accuracy of k-means, AdaAM + k-means and AdaAMClustering.

    python benchmarks/digits.py

The data come with scikit-learn, and a run takes two minutes. Means over 10 seeds go to results/digits.jsonl, one line
per case. Labels are used only for scoring.
"""

import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from adaam import AdaAM, AdaAMClustering
from adaam.scores import clustering_accuracy

OUT = Path(__file__).parent / "results" / "digits.jsonl"
SEEDS = range(10)


def methods(c, seed):
    def adaam(preparation):
        learner = AdaAM(c, preparation=preparation)
        return AdaAMClustering(c, learner=learner, head="k-means", random_state=seed)

    return {
        "kmeans": KMeans(c, n_init=10, random_state=seed),
        "adaam unit": adaam("unit"),
        "adaam linear": adaam("linear"),
        "adaam-clustering": AdaAMClustering(c, random_state=seed),
    }


def main():
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    lines = []
    for c in (10, 5):
        rows, truth = X[y < c], y[y < c]
        for name in methods(c, 0):
            if (c, name) == (10, "adaam-clustering"):
                continue  # measured by clusterer/run.py
            scores = [100 * clustering_accuracy(truth, methods(c, s)[name].fit_predict(rows)) for s in SEEDS]
            figures = {"mean": float(np.mean(scores)), "deviation": float(np.std(scores))}
            lines.append({"classes": c, "method": name, **figures})
            print(lines[-1], flush=True)
    OUT.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
