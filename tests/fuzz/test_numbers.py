"""Fuzz fits with odd numbers: each is right, or refused with the true reason.

A case is drawn from its seed: rows of some kind, weights, units and a model. A few run with the tests; more by hand:

    python tests/fuzz/test_numbers.py 5000         # so many cases, from seed 0
    python tests/fuzz/test_numbers.py 100 7000     # from another seed

Right means: finite, as many components as the rank of the rows allows, and the same when repeated or when units change
by a power of two, which changes no digit of any intermediate result.
"""

import re
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.base import clone

from adaam import (
    CAN,
    LPP,
    LSC,
    PCAN,
    AdaAM,
    AdaAMClustering,
    AdaptiveAffinity,
    ConsensusAffinity,
    DominantAffinity,
    ForestAffinity,
    HeatKernel,
    KNNAffinity,
    Preparation,
    PreparedMetric,
    RowBlocks,
)

CASES_IN_CI = 150

# Rows: each kind makes n rows of d features.


def blobs(rng, n, d):
    return rng.standard_normal((n, d)) + 4.0 * rng.standard_normal((3, d))[rng.integers(3, size=n)]


def with_outliers(rng, n, d):
    X = blobs(rng, n, d)
    X[: rng.integers(1, 4)] *= 10.0 ** rng.uniform(0, 14)
    return X


def one_far_row(rng, n, d):
    X = blobs(rng, n, d)
    X[0] = 10.0 ** rng.uniform(0, 14)
    return X


def few_distinct(rng, n, d):
    return blobs(rng, max(2, n // 8), d)[rng.integers(max(2, n // 8), size=n)]


def with_constants(rng, n, d):
    X = blobs(rng, n, d)
    X[:, rng.random(d) < 0.5] = rng.choice([0.0, 1.0, 1e9, -0.1])
    return X


def collinear(rng, n, d):
    rank = int(rng.integers(1, d + 1))
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))


def unlike_columns(rng, n, d):
    return blobs(rng, n, d) * 10.0 ** rng.uniform(-12, 12, d)


def far_from_origin(rng, n, d):
    return blobs(rng, n, d) + 10.0 ** rng.uniform(0, 17)


def with_zero_rows(rng, n, d):
    X = blobs(rng, n, d)
    X[rng.random(n) < 0.3] = 0.0
    return X


def on_a_circle(rng, n, d):
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle), *np.zeros((max(0, d - 2), n))])[:, :d]


ROWS = {
    "blobs": blobs,
    "cauchy": lambda rng, n, d: rng.standard_cauchy((n, d)),
    "lognormal": lambda rng, n, d: rng.lognormal(0.0, rng.uniform(0.5, 12.0), (n, d)),
    "t": lambda rng, n, d: rng.standard_t(rng.uniform(0.5, 3.0), (n, d)),
    "outliers": with_outliers,
    "one far row": one_far_row,
    "few distinct": few_distinct,
    "all equal": lambda rng, n, d: np.full((n, d), rng.choice([0.0, 1.0, 0.1, 1e8])),
    "constants": with_constants,
    "collinear": collinear,
    "unlike columns": unlike_columns,
    "very unlike columns": lambda rng, n, d: blobs(rng, n, d) * 10.0 ** rng.uniform(-200, 0, d),
    "far from the origin": far_from_origin,
    "zero rows": with_zero_rows,
    "counts": lambda rng, n, d: rng.poisson(1.0, (n, d)).astype(float),
    "binary": lambda rng, n, d: (rng.random((n, d)) < rng.uniform(0.05, 0.95)).astype(float),
    "circle": on_a_circle,
    "nearly equal": lambda rng, n, d: 1.0 + 10.0 ** rng.uniform(-17, -3) * rng.standard_normal((n, d)),
}

WEIGHTS = {
    "none": lambda rng, n: None,
    "counts": lambda rng, n: rng.integers(0, 4, n).astype(float) + (np.arange(n) == 0),
    "sum to 1": lambda rng, n: rng.dirichlet(np.ones(n)),
    "equal": lambda rng, n: np.full(n, 10.0 ** rng.uniform(-310, 0)),
    "tiny": lambda rng, n: rng.random(n) * 10.0 ** rng.uniform(-300, 0),
    "large": lambda rng, n: rng.uniform(1, 2, n) * 10.0 ** rng.uniform(1, 12),
    "huge": lambda rng, n: rng.uniform(1, 2, n) * 10.0 ** rng.uniform(16, 307),
    "unlike": lambda rng, n: 10.0 ** rng.uniform(-20, 4, n),
    "one": lambda rng, n: np.where(np.arange(n) == n // 2, 1e6, 1.0),
    "nearly all zero": lambda rng, n: (rng.random(n) < 0.1).astype(float),
}

NARROW = AdaptiveAffinity(heat=HeatKernel(width=0.01), constraint="degrees")

MODELS = {
    "AdaAM unit": AdaAM(3),
    "AdaAM linear": AdaAM(3, preparation="linear"),
    "AdaAM center": AdaAM(2, preparation="center", n_iter=2),
    "AdaAM standard": AdaAM(3, preparation="standard"),
    "AdaAM three components": AdaAM(2, preparation=Preparation("none", 3)),
    "AdaAM narrow heat": AdaAM(3, preparation="center", affinity=NARROW),
    "AdaAM row blocks": AdaAM(2, preparation="linear", pairs=RowBlocks(n_blocks=2)),
    "LPP": LPP(2),
    "LPP unit": LPP(1, preparation="unit", scaling="orthonormal"),
    "LPP self-tuning": LPP(1, affinity=KNNAffinity(3, HeatKernel(1.0, "self-tuning", 2))),
    "LPP dominant": LPP(1, affinity=DominantAffinity(3)),
    "LPP consensus": LPP(1, affinity=ConsensusAffinity()),
    "LPP forest": LPP(1, affinity=ForestAffinity(3, n_trees=5)),
    "PreparedMetric unit": PreparedMetric(),
    "PreparedMetric standard": PreparedMetric("standard"),
    "PCAN": PCAN(2),
    "CAN": CAN(2),
    "LSC": LSC(2, n_landmarks=10, n_nearest=2),
    "LSC mean of squares": LSC(2, n_landmarks=8, n_nearest=3, bandwidth="mean-squared", landmarks="random"),
    "AdaAMClustering": AdaAMClustering(2, n_init=2),
}
SLOW = ("AdaAMClustering",)  # tried less often
UNITS_MATTER = ("LSC mean of squares",)  # the bandwidth is a squared distance, as in the authors' code
WITHOUT_WEIGHTS = ("PCAN", "CAN", "LSC", "LSC mean of squares")


@dataclass(frozen=True)
class Case:
    """One fit."""

    seed: int
    model: str
    rows: str
    n: int
    d: int
    weights: str = "none"
    exponent: int = 0  # rows are multiplied by 2**exponent
    dtype: str = "float64"
    sparse: bool = False


def drawn(seed):
    """Draw a case."""
    rng = np.random.default_rng(seed)
    model = str(rng.choice([name for name in MODELS if name not in SLOW or rng.random() < 0.2]))
    n = int(rng.choice([rng.integers(2, 7), rng.integers(7, 90)], p=[0.2, 0.8]))
    d = int(rng.choice([rng.integers(1, 4), rng.integers(4, 10), rng.integers(30, 120)], p=[0.3, 0.5, 0.2]))
    dtype = str(rng.choice(["float64", "float32"], p=[0.8, 0.2]))
    reach = 1000 if dtype == "float64" else 110
    far = [0, rng.integers(-20, 20), rng.integers(-reach, reach)]
    exponent = int(rng.choice(far, p=[0.5, 0.2, 0.3]))
    weights = "none" if model in WITHOUT_WEIGHTS or rng.random() < 0.5 else str(rng.choice(list(WEIGHTS)))
    return Case(seed, model, str(rng.choice(list(ROWS))), n, d, weights, exponent, dtype, bool(rng.random() < 0.1))


def data_of(case):
    """Rows and weights of a case."""
    rng = np.random.default_rng([case.seed, 1])
    with np.errstate(over="ignore", under="ignore"):
        X = ROWS[case.rows](rng, case.n, case.d)
        X = np.ldexp(X, case.exponent).astype(case.dtype)
    X = np.clip(X, np.finfo(case.dtype).min, np.finfo(case.dtype).max)
    return csr_array(X) if case.sparse else X, WEIGHTS[case.weights](rng, case.n)


# Messages of refusals, and when they are true.


def largest(X):
    with np.errstate(over="ignore"):
        return np.abs(X.toarray() if issparse(X) else X).max(initial=0.0).astype(np.float64) * np.sqrt(X.shape[1])


def counted_rows(weights, n):
    return n if weights is None else float(max(weights.sum(), (weights > 0).sum()))


def spread_of_prepared(X, weights, model):
    """Return the largest relative deviation of prepared rows from their mean, times the root of their weight share."""
    rows = np.asarray(X.toarray() if issparse(X) else X, np.float64)
    kept = rows if weights is None else rows[weights >= 1e-14 * weights.sum()]
    if "unit" in model or model.startswith("AdaAMClustering"):
        lengths = np.linalg.norm(kept / np.maximum(np.abs(kept).max(axis=1, keepdims=True), 1e-308), axis=1)
        kept = kept / np.maximum(np.abs(kept).max(axis=1, keepdims=True), 1e-308) / np.maximum(lengths, 1e-308)[:, None]
    size = np.abs(kept).max(initial=0.0)
    if size == 0:
        return 0.0
    held = np.ones(len(kept)) if weights is None else weights[weights >= 1e-14 * weights.sum()]
    share = held / held.sum()
    deviations = kept / size - share @ (kept / size)
    return float((np.abs(deviations) * np.sqrt(share)[:, None]).max())


def told_apart(case):
    """Return the smallest relative deviation of rows that a preparation can resolve."""
    return 1e-3 if case.sparse else {"float64": 1e-13, "float32": 1e-4}[case.dtype]


REFUSALS = [
    ("overflow in float64", lambda X, w, case: largest(X) > 1e139),
    ("length overflows in float64", lambda X, w, case: largest(X) > 1e306),
    # The input check saw a larger row, whose weight is negligible.
    ("vanish in float32", lambda X, w, case: case.dtype == "float32" and w is not None and (w < 1e-14 * w.sum()).any()),
    ("too short for float64 to tell their directions", lambda X, w, case: largest(X) < 1e-307),
    ("vanish in float64. M", lambda X, w, case: 0 < largest(X if w is None else X[w >= 1e-14 * w.sum()]) < 1e-138),
    ("cannot measure column", lambda X, w, case: np.abs(X.mean(axis=0)).min() < 1e-130),
    ("equal after preparation", lambda X, w, case: spread_of_prepared(X, w, case.model) < told_apart(case)),
    ("no more than 2**53 rows", lambda X, w, case: w.max() > 2.0**53 / len(w)),
    ("sample_weight is zero for every row", lambda X, w, case: not w.any()),
    ("exceeds n_samples", lambda X, w, case: case.n < 3),
    ("exceeds the rank", lambda X, w, case: rank_below_two(X, w, case)),
    ("needs more than", lambda X, w, case: counted_rows(w, case.n) <= 1 + asked_neighbors(case)),
    ("needs row blocks of more than", lambda X, w, case: "row blocks" in case.model),
    ("row blocks", lambda X, w, case: "row blocks" in case.model and counted_rows(w, case.n) < 40),
    ("no positive sum", lambda X, w, case: re.search("narrow|self-tuning|row blocks", case.model)),
    ("distinct rows", lambda X, w, case: case.model == "AdaAMClustering"),
]


def rank_below_two(X, weights, case):
    learner = clone(MODELS[case.model])
    prepared = PreparedMetric(learner.preparation).fit(X, sample_weight=weights)
    return len(prepared.components_) < learner.n_components


def asked_neighbors(case):
    return {"LPP": 5, "LPP unit": 5, "LPP consensus": 30, "LPP forest": 3}.get(case.model, 3)


def told_truth(message, X, weights, case):
    """Return whether a message is known, and true of the case."""
    known = [(words, holds) for words, holds in REFUSALS if words in message]
    return bool(known) and any(holds(X, weights, case) for _, holds in known)


# Properties that a fit must have.


def mishandled(case):
    """Return what is wrong with a case, or None, and the message of its refusal, or None."""
    X, weights = data_of(case)
    given = {} if weights is None else {"sample_weight": weights}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        # From scikit-learn's own sum of the largest floats.
        warnings.filterwarnings("ignore", "invalid value encountered in reduce")
        try:
            model = clone(MODELS[case.model]).fit(X, **given)
        except ValueError as error:
            message = str(error)
            return (None, message) if told_truth(message, X, weights, case) else (f"refused by: {message}", None)
        except Exception:
            return traceback.format_exc(limit=-4), None
        try:
            return faults(model, X, weights, case, given), None
        except Exception:
            return traceback.format_exc(limit=-4), None


def faults(model, X, weights, case, given):
    """Return the first property that a fitted model violates, or None."""
    if hasattr(model, "labels_"):
        labels = np.asarray(model.labels_)
        if labels.shape != (case.n,) or labels.min() < 0:
            return f"labels of shape {labels.shape}, from {labels.min()}"
    if hasattr(model, "components_"):
        prepared = PreparedMetric(model.preparation_).fit(X, **given)
        rank = len(prepared.components_)
        wanted = rank if isinstance(model, PreparedMetric | AdaAMClustering) else components_wanted(model, rank)
        found = len(model.components_)
        if found < 1 or (found != wanted and not isinstance(model, AdaAMClustering)):
            return f"{found} components of {wanted}, rank {rank}"
        for name in ("components_", "eigenvalues_", "mean_", "covariance_"):
            if not np.isfinite(getattr(model, name)).all():
                return f"{name} is not finite"
        if not (model.components_ != 0).any(axis=1).all():
            return "a component is zero"
        if (np.diff(model.eigenvalues_) < 0).any() and not isinstance(model, PreparedMetric | AdaAMClustering):
            return "eigenvalues do not ascend"
        Z = model.transform(X)
        if Z.shape != (case.n, found) or not np.isfinite(Z).all():
            return f"mapped rows of shape {Z.shape}, or not finite"
        if not explained(model.explain()):
            return "contributions are not finite"
    if hasattr(model, "predict") and not np.isin(model.predict(X), model.labels_).all():
        return "predicted labels that no row has"
    return unlike_itself(model, X, weights, case, given)


def explained(explanation):
    """Return whether shares are finite, or no effect is NaN (infinite effects have a meaning)."""
    share = getattr(explanation, "share", None)
    return not np.isnan(explanation.effects).any() if share is None else np.isfinite(share).all()


def components_wanted(model, rank):
    return min(model.n_components or model.n_clusters, rank)


def unlike_itself(model, X, weights, case, given):
    """Compare with a second fit, in other units where that must not matter; return the first difference, or None."""
    other = dict(given)
    if weights is not None and weights.sum() < (weights > 0).sum() and weights[weights > 0].min() > 1e-250:
        other = {"sample_weight": weights * 2.0**-20}
    shift = 4 * int(np.random.default_rng([case.seed, 2]).integers(-50, 50))  # fourth roots are powers of two too
    size = largest(X)
    # LAPACK scales matrices far from 1 itself, and not by powers of two.
    magnitude = np.log10(max(size, 1e-320))
    moved = abs(magnitude) < 50 and abs(magnitude + shift * np.log10(2)) < 50
    if not moved or case.model in UNITS_MATTER or case.dtype == "float32" or tiny_parts(X, shift):
        shift = 0
    again = clone(MODELS[case.model]).fit(X * 2.0**shift, **other)
    if hasattr(model, "labels_") and not (np.asarray(again.labels_) == model.labels_).all():
        return f"other labels in other units (2**{shift})"
    if hasattr(model, "components_"):
        factor = 2.0**shift if model.preparation_.column_scaling == "standard" else 1.0
        if model.preparation_.row_scaling == "none" and getattr(model, "scaling", "unit") == "orthonormal":
            factor = 2.0**shift
        difference = np.abs(again.components_ * factor - model.components_).max()
        if not difference <= 1e-7 * np.abs(model.components_).max():
            return f"components differ by {difference:.1g} in other units (2**{shift})"
    return None


def tiny_parts(X, shift):
    """Return whether some numbers would lose digits in other units."""
    values = np.abs(X.data if issparse(X) else X)
    values = values[values > 0]
    return len(values) and (values.min() * 2.0**shift < 1e-140 or values.min() < 1e-140)


# Cases that have failed.
KEPT = [
    Case(0, "AdaAM linear", "one far row", 200, 5),
    Case(179, "AdaAM center", "all equal", 6, 3, weights="equal", sparse=True),
    Case(211, "AdaAM linear", "far from the origin", 70, 59, weights="one", dtype="float32"),
    Case(645, "AdaAM three components", "far from the origin", 2, 4, weights="one", sparse=True),
    Case(1173, "AdaAM narrow heat", "nearly equal", 4, 50),
    Case(10310, "AdaAM standard", "constants", 5, 7, weights="one", exponent=14),
    Case(10764, "PreparedMetric standard", "constants", 35, 3, exponent=-14),
    Case(11188, "AdaAM standard", "nearly equal", 3, 7, weights="tiny"),
    Case(20843, "LPP self-tuning", "unlike columns", 86, 2, exponent=-85, dtype="float32"),
    Case(21070, "AdaAM standard", "constants", 66, 6, weights="sum to 1", exponent=-85, dtype="float32", sparse=True),
    Case(30488, "PreparedMetric standard", "unlike columns", 79, 8, exponent=-41, dtype="float32"),
    Case(2247, "AdaAM center", "lognormal", 58, 7, weights="unlike"),
    Case(2872, "PreparedMetric standard", "far from the origin", 8, 1, exponent=989),
    Case(101143, "AdaAM unit", "very unlike columns", 72, 6, weights="large", exponent=-996),
    Case(104693, "AdaAM narrow heat", "constants", 3, 9, weights="unlike", exponent=9),
    Case(200158, "AdaAM linear", "one far row", 35, 1, weights="nearly all zero", exponent=-67, dtype="float32"),
    Case(11491, "AdaAM standard", "few distinct", 4, 8, weights="unlike", exponent=12, sparse=True),
    Case(1404164, "PreparedMetric standard", "very unlike columns", 6, 93, dtype="float32"),
    Case(2102333, "LPP unit", "far from the origin", 43, 9, exponent=992),
    Case(2102534, "AdaAM standard", "constants", 59, 9, sparse=True),
    Case(1201505, "PCAN", "all equal", 84, 5, exponent=-15, sparse=True),
]


def ids(case):
    return re.sub(r"\W+", "-", f"{case.model} {case.rows} {case.weights} {case.seed}")


@pytest.mark.parametrize("case", KEPT, ids=ids)
def test_cases_that_have_failed(case):
    fault, _ = mishandled(case)
    assert fault is None, (case, fault)


@pytest.mark.parametrize("part", range(5))
def test_odd_numbers_are_handled(part):
    for seed in range(part, CASES_IN_CI, 5):
        case = drawn(seed)
        fault, _ = mishandled(case)
        assert fault is None, (case, fault)


def test_the_fuzzer_sees_faults(monkeypatch):
    """A map without components, and a refusal for a wrong reason, must be reported."""
    case = Case(0, "AdaAM linear", "blobs", 60, 5)
    assert mishandled(case) == (None, None)
    fit = AdaAM.fit

    def emptied(self, X, **given):
        fit(self, X, **given)
        self.components_, self.eigenvalues_ = self.components_[:0], self.eigenvalues_[:0]
        return self

    monkeypatch.setattr(AdaAM, "fit", emptied)
    assert mishandled(case)[0].startswith("0 components of 3")

    def refused(self, X, **given):
        raise ValueError("X holds magnitudes up to 5, and sums of squares of such values overflow in float64.")

    monkeypatch.setattr(AdaAM, "fit", refused)
    assert mishandled(case)[0].startswith("refused by")


def main(n_cases, first):
    """Run many cases and print a summary; return whether any was mishandled."""
    began, slowest, failed, refusals = time.perf_counter(), (0.0, first), [], Counter()
    for seed in range(first, first + n_cases):
        start, case = time.perf_counter(), drawn(seed)
        fault, refusal = mishandled(case)
        slowest = max(slowest, (time.perf_counter() - start, seed))
        if fault is not None:
            failed.append(case)
            print(f"{case}\n    {fault.strip()}\n", flush=True)
        if refusal is not None:
            refusals[next(words for words, _ in REFUSALS if words in refusal)] += 1
    print(f"numbers: {n_cases} tried, {sum(refusals.values())} refused with the reason, {len(failed)} mishandled")
    for words, count in refusals.most_common():
        print(f"    {count:5d}  {words}")
    print(f"{time.perf_counter() - began:.0f} s, the slowest case {slowest[0]:.1f} s (seed {slowest[1]})")
    return len(failed) > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
