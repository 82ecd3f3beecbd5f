"""The learned metric in faiss: transform, then index with Euclidean distance."""

import faiss
import numpy as np


def build(metric, X):
    Z = np.ascontiguousarray(metric.transform(X), dtype=np.float32)
    index = faiss.IndexFlatL2(Z.shape[1])
    index.add(Z)
    return index


def query(metric, index, X, k):
    squared, indices = index.search(np.ascontiguousarray(metric.transform(X), dtype=np.float32), k)
    return np.sqrt(squared), indices  # faiss gives squared distances
