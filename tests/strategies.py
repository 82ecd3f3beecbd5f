"""Hypothesis strategies for common inputs that break careless code."""

import numpy as np
from hypothesis import strategies as st


@st.composite
def clouds(draw, min_rows=6, max_rows=40, max_features=12):
    """Rows with ties, duplicates, constant and redundant features, several scales, and sometimes d > n."""
    n = draw(st.integers(min_rows, max_rows))
    d = draw(st.integers(2, max_features))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal((n, d)) * 10.0 ** draw(st.integers(-3, 3)) + draw(st.sampled_from([0.0, 1.0, 100.0]))
    flaw = draw(st.sampled_from(["none", "integers", "duplicates", "constant", "redundant", "copied feature"]))
    if flaw == "integers":
        X = rng.integers(0, 3, size=(n, d)).astype(float)
    elif flaw == "duplicates":
        X[n // 2 :] = X[rng.integers(0, n // 2, size=n - n // 2)]
    elif flaw == "constant":
        X[:, 0] = 7.0
    elif flaw == "redundant":
        X[:, -1] = X[:, 0] * 2 - X[:, 1 % d]
    elif flaw == "copied feature":
        X[:, -1] = X[:, 0]
    return X
