"""The pruned affinity S(PP') on the host: the entries of PP' of largest magnitude, in passes over pairs of rows.

cut
    The exact t-th largest magnitude: the place to change how any engine finds the cut.
screened
    Passes by compiled loops: in float32, with close decisions in float64.
tiles
    Passes by NumPy: for few rows, float32 rows, or without numba.
"""
