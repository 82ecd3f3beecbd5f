"""The learned metric in hnswlib: transform, then index with Euclidean distance."""

import hnswlib
import numpy as np


def build(metric, X):
    Z = metric.transform(X).astype(np.float32)
    index = hnswlib.Index(space="l2", dim=Z.shape[1])
    index.init_index(max_elements=len(Z), ef_construction=200, M=16, random_seed=0)
    index.add_items(Z, np.arange(len(Z)), num_threads=1)
    index.set_ef(100)  # more is slower and more exact
    return index


def query(metric, index, X, k):
    indices, squared = index.knn_query(metric.transform(X).astype(np.float32), k)
    return np.sqrt(squared), indices.astype(np.int64)  # hnswlib gives squared distances
