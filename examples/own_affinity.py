"""A custom affinity learner in ten lines, used with the same LPP and the same benchmark as the others."""

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits

from adaam import LPP
from adaam.affinity import SparseAffinity
from adaam.bench.methods import METHODS, Method
from adaam.bench.run import run_case


class MutualAffinity(BaseEstimator):
    """Link rows that are among each other's k nearest neighbours; a row without links is linked to itself."""

    def __init__(self, n_neighbors=10):
        self.n_neighbors = n_neighbors

    def learn(self, sample, neighbors):
        graph = neighbors(self.n_neighbors).host()
        chosen = csr_array((graph.shares, graph.indices, graph.starts), shape=(graph.n_rows, graph.n_rows))
        mutual = chosen.multiply(chosen.T)
        alone = diags_array((mutual.sum(axis=1) == 0).astype(float))
        by_weight = diags_array(sample.weights)  # a row of weight w counts as w rows
        return SparseAffinity(csr_array(by_weight @ (mutual + alone) @ by_weight), sample.engine)


def make(case):
    learner = MutualAffinity(n_neighbors=case.n_neighbors)
    return LPP(case.n_components, affinity=learner, preparation="unit")


MINE = Method("mutual-knn", "Mutual k-NN", "examples/own_affinity.py", "embedding", make, ("reference",))


def main():
    X, y = load_digits(return_X_y=True)
    for method in (MINE, METHODS["knn"], METHODS["cons-knn"], METHODS["adaam"]):
        records = list(run_case(method, X, y, dataset="digits", preparation="reference", n_rounds=3))
        accuracy = np.mean([record["acc"] for record in records])
        print(f"{method.title:12} accuracy {accuracy:.1%}   fit {records[0]['fit_seconds']:.2f} s")


if __name__ == "__main__":
    main()
