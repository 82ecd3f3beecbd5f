"""The pruned affinity S(PP') on the host: the entries of PP' of largest magnitude, in passes over pairs of rows.

cut
    The t-th largest magnitude, exactly: change here how the cut is found, on any engine.
screened
    The passes by compiled loops, in float32 and decided in float64.
tiles
    The passes by NumPy: few rows, rows in float32, or no numba.
"""
