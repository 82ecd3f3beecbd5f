"""Nearest neighbours on the host, and what every engine makes of them.

search
    Neighbours by compiled loops: change here how they are found on the CPU. `loops` is the compiled code, `cells` the
    trees and inverted files that tell where to look first.
tiles
    Neighbours by NumPy and scikit-learn: few rows, or no numba.
ties
    From neighbours to a neighbourhood: rows tied at the k-th place share it. For NumPy arrays and tensors.
graph
    The neighbour graph, and the affinity that a heat kernel gives to its edges.
"""
