"""Nearest neighbours on the host, and what every engine makes of them.

search
    Neighbours by compiled loops: change here how they are found on the CPU.
tiles
    Neighbours by NumPy and scikit-learn: few rows, or no numba.
graph
    The neighbour graph, in which rows tied at the k-th place share it, and the affinity that a heat kernel gives to its
    edges. Neighbourhoods are made of NumPy arrays and of tensors.
"""
