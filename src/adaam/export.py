"""Export to other programs: fitted models as ONNX graphs, and the types that skops may load."""

import os
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_word
from adaam._version import __version__
from adaam.estimators import AdaAMClustering, LinearMetric
from adaam.estimators.membership import SAME_ROW, place_values
from adaam.files import atomic_file
from adaam.model_contents import known_classes
from adaam.partition import LINKS_PER_ROW
from adaam.prepare import unit_rows

# Old enough for the runtimes in use, new enough for every operator below in double precision.
OPSET = 17
IR_VERSION = 8
# Candidates beyond the voters, found by a matrix product and then ranked by differences, so that rounding hides none.
SPARE_VOTERS = 10

# Largest protocol buffer, with some space to spare.
LARGEST_BYTES = 2**31 - 2**20
__all__ = ["skops_types", "to_onnx"]


# Parts of the graph, in ONNX's text format; type 11 is double precision. Names that no node outputs are constants.
SCALED = """
    lengths = ReduceL2 <axes = [1], keepdims = 1> (wide)
    is_zero = Less (lengths, tiny)
    divisors = Where (is_zero, one, lengths)
    scaled = Div (wide, divisors)
"""
# Mapped rows as they are, or scaled to unit length, which `distance_ == "cosine"` compares.
POINTS = "points = Identity (mapped)"
UNIT_POINTS = """
    mapped_lengths = ReduceL2 <axes = [1], keepdims = 1> (mapped)
    has_no_length = Less (mapped_lengths, least)
    mapped_divisors = Where (has_no_length, unit, mapped_lengths)
    points = Div (mapped, mapped_divisors)
"""
# |z - k|² minus |z|², which is the same for every known point k.
OFFSETS = """
    known = Cast <to = 11> (stored)
    offsets = Gemm <alpha = -2.0, transB = 1> (points, known, squares)
"""
NEAREST_CENTER = "label = ArgMin <axis = 1, keepdims = 0> (offsets)"
NEAREST_ROW = """
    nearest = ArgMin <axis = 1, keepdims = 0> (offsets)
    label = Gather (labels, nearest)
"""
# `Voters.labels`: known rows keep their cluster, others take the majority of their nearest rows. Distances are computed
# from differences: rounding of those from products would hide that a row is known.
VOTED = """
    near_offsets, near = TopK <axis = 1, largest = 0, sorted = 1> (offsets, n_near)
    places = Gather (known, near)
    alone = Unsqueeze (points, axis_1)
    apart = Sub (places, alone)
    distances = ReduceL2 <axes = [2], keepdims = 0> (apart)
    voter_distances, voters = TopK <axis = 1, largest = 0, sorted = 1> (distances, n_voters)

    near_labels = Gather (labels, near)
    votes = GatherElements <axis = 1> (near_labels, voters)
    ballots = Unsqueeze (votes, axis_2)
    is_for = Equal (ballots, names)
    counted = Cast <to = 11> (is_for)
    worth = Mul (counted, values)
    counts = ReduceSum <keepdims = 0> (worth, axis_1)
    most = ArgMax <axis = 1, keepdims = 0> (counts)

    nearest_distance = Gather <axis = 1> (voter_distances, first)
    last_distance = Gather <axis = 1> (voter_distances, last)
    limit = Mul (last_distance, same_row)
    is_known = LessOrEqual (nearest_distance, limit)
    own = Gather <axis = 1> (votes, first)
    label = Where (is_known, own, most)
"""


def model_graph(onnx: Any, model: LinearMetric, kind: "np.dtype[Any]", *, labels: bool) -> Any:
    """Graph from rows `X` to their `embedding` and, with `labels`, their `label`."""
    constants: dict[str, Any] = {"mean": np.float64(model.mean_), "components": np.float64(model.components_.T)}
    nodes, rows = "wide = Cast <to = 11> (X)", "wide"
    if model.preparation_.row_scaling == "unit":
        constants |= {"tiny": np.finfo(np.float64).tiny, "one": 1.0}
        nodes, rows = nodes + SCALED, "scaled"
    nodes += f"""
        centred = Sub ({rows}, mean)
        mapped = MatMul (centred, components)
        embedding = Cast <to = {onnx.helper.np_dtype_to_tensor_dtype(kind)}> (mapped)
    """
    if labels:
        labelled, known = _label(model)
        nodes, constants = nodes + labelled, constants | known
    m, d = model.components_.shape
    number = "float" if kind == np.float32 else "double"
    outputs = f"{number}[rows, {m}] embedding" + (", int64[rows] label" if labels else "")
    graph = onnx.parser.parse_graph(f"{type(model).__name__} ({number}[rows, {d}] X) => ({outputs}) {{\n{nodes}\n}}")
    arrays = [onnx.numpy_helper.from_array(np.asarray(value, order="C"), key) for key, value in constants.items()]
    graph.initializer.extend(arrays)
    opset = onnx.helper.make_opsetid("", OPSET)
    return onnx.helper.make_model(
        graph, producer_name="adaam", producer_version=__version__, ir_version=IR_VERSION, opset_imports=[opset]
    )


def _label(model: Any) -> tuple[str, dict[str, Any]]:
    """Nodes and constants of `predict`: nearest centre, vote of the nearest known rows, or label of the nearest one."""
    by_centers = isinstance(model, AdaAMClustering) and model.head_ == "k-means"
    by_cosine = isinstance(model, AdaAMClustering) and model._by_cosine
    stored = model.cluster_centers_ if by_centers else model.embedding_
    stored = unit_rows(stored) if by_cosine else stored
    constants = {"stored": stored, "squares": np.square(stored, dtype=np.float64).sum(axis=1)}
    if by_cosine:
        constants |= {"least": np.finfo(np.float64).tiny, "unit": 1.0}
    nodes = (UNIT_POINTS if by_cosine else POINTS) + OFFSETS
    if by_centers:
        return nodes + NEAREST_CENTER, constants
    if not isinstance(model, AdaAMClustering):
        return nodes + NEAREST_ROW, constants | {"labels": model.labels_.astype(np.int64)}
    labels = model.cluster_layers_[model.layer_].leaves[model.embedding_leaves_]
    n_voters = min(LINKS_PER_ROW, len(stored))
    constants |= {
        "labels": np.asarray(labels, np.int64),
        "names": np.arange(int(np.max(labels)) + 1),
        "n_near": np.array([min(n_voters + SPARE_VOTERS, len(stored))]),
        "n_voters": np.array([n_voters]),
        "values": place_values(n_voters)[:, None],
        "axis_1": np.array([1]),
        "axis_2": np.array([2]),
        "first": 0,
        "last": n_voters - 1,
        "same_row": SAME_ROW,
    }
    return nodes + VOTED, constants


def to_onnx(
    model: LinearMetric,
    path: str | os.PathLike[str] | None = None,
    *,
    method: str = "auto",
    dtype: Any = None,
) -> Any:
    """Convert a fitted model to an ONNX graph.

    Parameters
    ----------
    model : LinearMetric
        A fitted learner or clusterer.
    path : path-like, default=None
        Where to write the graph; None writes nothing.
    method : {"auto", "transform", "predict"}, default="auto"
        Outputs of the graph: "transform" has `embedding` of shape (rows, n_components); "predict" also has `label` of
        shape (rows,). "auto" means "predict" if the model has that method.
    dtype : {np.float32, np.float64}, default=None
        Precision of the input `X` and of `embedding`; None means that of the rows the model was fitted on.

    Returns
    -------
    onnx.ModelProto
        The graph. Its input `X` has shape (rows, n_features) for any number of rows. Inside, it computes in double
        precision, as `transform` does; all-zero rows stay zero if rows are scaled to unit length.

    Notes
    -----
    The map takes kilobytes. Labels by centres (head "k-means") add little. Labels by the nearest known rows (the other
    heads, and `PCAN`) need those rows in the learned space, n_distinct * n_components numbers: 0.6 MB for the digits
    below. Running such a graph compares all new rows with all known ones at once: pass many rows in batches.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAMClustering
    >>> from adaam.export import to_onnx
    >>> X, _ = load_digits(return_X_y=True)
    >>> graph = to_onnx(AdaAMClustering(10).fit(X))
    >>> [output.name for output in graph.graph.output]
    ['embedding', 'label']
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError("to_onnx needs onnx. Install it with: pip install adaam[onnx]") from error
    check_word("method", method, ("auto", "transform", "predict"))
    if not isinstance(model, LinearMetric):
        raise TypeError(
            f"model={model!r} is a {type(model).__name__}, which has no linear map to export. "
            "Use AdaAM, LPP, PCAN or AdaAMClustering; save the others with skops."
        )
    check_is_fitted(model)
    labels = method != "transform" and hasattr(model, "predict")
    if method == "predict" and not labels:
        raise TypeError(f'{type(model).__name__} has no predict to export. Use method="transform".')
    kind = np.dtype(model.components_.dtype if dtype is None else dtype)
    if kind not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} is not known; use np.float32 or np.float64.")
    if labels and np.isfinite(getattr(model, "noise_threshold_", np.inf)):
        raise ValueError(
            f"contamination={model.contamination!r} labels outliers as noise, which an ONNX graph cannot. "
            'Use method="transform", or fit with contamination=0.0.'
        )
    known = getattr(model, "embedding_", None) if labels and getattr(model, "head_", "") != "k-means" else None
    if known is not None and known.nbytes > LARGEST_BYTES:
        raise ValueError(
            f'method="predict" would store {known.shape[0]} known rows in {known.nbytes / 2**30:.1f} GiB, and ONNX '
            'holds 2. Use method="transform", or a clusterer with head="k-means", which keeps its centres alone.'
        )
    graph = model_graph(onnx, model, kind, labels=labels)
    onnx.checker.check_model(graph, full_check=True)
    if path is not None:
        with atomic_file(path) as stream:
            stream.write(graph.SerializeToString())
    return graph


def skops_types() -> list[str]:
    """Names of all types in models of this library that skops does not know by itself.

    Pass them as `trusted` to `skops.io.load`: classes of this library, whose loading runs no code but their own, and
    SciPy's sparse array.

    Examples
    --------
    >>> from adaam.export import skops_types
    >>> "adaam.estimators.adaam.AdaAM" in skops_types()
    True
    """
    # Pipelines are scikit-learn's, and skops knows them.
    classes = [*(cls for cls in known_classes().values() if cls.__module__.startswith("adaam.")), csr_array]
    return sorted({f"{cls.__module__}.{cls.__qualname__}" for cls in classes})
