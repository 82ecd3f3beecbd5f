"""Nearest neighbours on the host, and the neighbour graph that every engine builds.

search
    Search by compiled loops: the place to change how the CPU finds neighbours.
tiles
    Search by NumPy and scikit-learn: for few rows, or without numba.
graph
    The neighbour graph, in which rows tied at the k-th place share it, and the heat kernel affinity of its edges.
    Neighbourhoods are NumPy arrays or tensors.
"""
