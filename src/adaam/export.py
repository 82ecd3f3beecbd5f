"""Doors to other programs: fitted models as ONNX graphs, drawn node by node, and the types that skops may load."""

import os
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_word
from adaam._version import __version__
from adaam.encoding import known_classes
from adaam.estimators import AdaAMClustering, LinearMetric
from adaam.estimators.membership import SAME_ROW, place_values
from adaam.files import atomic_file
from adaam.partition import LINKS_PER_ROW

# Old enough for the runtimes in use, new enough for every operator below in double precision.
OPSET = 17
IR_VERSION = 8
# Rows that are near by a product of matrices, and then ranked by their differences: rounding moves none so far.
SPARE_VOTERS = 10

# A protocol buffer cannot be larger.
LARGEST_BYTES = 2**31 - 2**20
__all__ = ["skops_types", "to_onnx"]


class Drawing:
    """Nodes and constants of a graph in the making; every method returns the name of what it added."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        """Add an array or a number."""
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def node(self, operator: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Add a node of one output."""
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def cast(self, source: str, name: str, kind: Any) -> str:
        """Add a change of type."""
        return self.node("Cast", [source], name, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def model_graph(onnx: Any, model: LinearMetric, kind: "np.dtype[Any]", *, labels: bool) -> Any:
    """Graph from rows `X` to their `embedding` and, where asked for, their `label`."""
    helper, drawing = onnx.helper, Drawing(onnx)
    mapped = _mapped(drawing, model)
    drawing.cast(mapped, "embedding", kind)
    outside = helper.np_dtype_to_tensor_dtype(kind)
    m, d = model.components_.shape
    outputs = [helper.make_tensor_value_info("embedding", outside, ["rows", m])]
    if labels:
        _label(drawing, model, mapped)
        outputs.append(helper.make_tensor_value_info("label", onnx.TensorProto.INT64, ["rows"]))
    inputs = [helper.make_tensor_value_info("X", outside, ["rows", d])]
    return helper.make_model(
        helper.make_graph(drawing.nodes, type(model).__name__, inputs, outputs, drawing.constants),
        producer_name="adaam",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )


def _mapped(drawing: Drawing, model: LinearMetric) -> str:
    """Rows scaled or not, minus the mean, times the components; in double precision."""
    rows = drawing.cast("X", "wide", np.float64)
    if model.preparation_.row_scaling == "unit":
        lengths = drawing.node("ReduceL2", [rows], "lengths", axes=[1], keepdims=1)
        is_zero = drawing.node("Less", [lengths, drawing.constant("tiny", np.finfo(np.float64).tiny)], "is_zero")
        divisors = drawing.node("Where", [is_zero, drawing.constant("one", 1.0), lengths], "divisors")
        rows = drawing.node("Div", [rows, divisors], "scaled")
    mean = drawing.constant("mean", model.mean_.astype(np.float64))
    components = drawing.constant("components", model.components_.T.astype(np.float64))
    centred = drawing.node("Sub", [rows, mean], "centred")
    return drawing.node("MatMul", [centred, components], "mapped")


def _label(drawing: Drawing, model: Any, mapped: str) -> None:
    """What `predict` says: the nearest centre, the vote of the nearest known rows, or the nearest known row's own."""
    if not isinstance(model, AdaAMClustering):
        nearest = drawing.node("ArgMin", [_offsets(drawing, mapped, model.embedding_)], "nearest", axis=1, keepdims=0)
        drawing.node("Gather", [drawing.constant("labels", model.labels_.astype(np.int64)), nearest], "label")
    elif model.head_ == "k-means":
        drawing.node("ArgMin", [_offsets(drawing, mapped, model.cluster_centers_)], "label", axis=1, keepdims=0)
    else:
        _voted(drawing, mapped, model.embedding_, model.cluster_layers_[model.layer_].leaves[model.embedding_leaves_])


def _offsets(drawing: Drawing, mapped: str, known: Any) -> str:
    """|z - k|² less |z|², which is the same for every known place k; the places themselves are named "known"."""
    places = drawing.cast(drawing.constant("stored", known), "known", np.float64)
    squares = drawing.constant("squares", np.square(known, dtype=np.float64).sum(axis=1))
    return drawing.node("Gemm", [mapped, places, squares], "offsets", alpha=-2.0, transB=1)


def _voted(drawing: Drawing, mapped: str, known: Any, labels: Any) -> None:
    """`Voters.labels` as nodes: a row that is known keeps its cluster, others take that of most of their nearest."""
    n_voters = min(LINKS_PER_ROW, len(known))
    n_near = min(n_voters + SPARE_VOTERS, len(known))
    near = _nearest(drawing, _offsets(drawing, mapped, known), n_near, "near")
    # Distances from differences: those from products cannot tell a row from itself.
    places = drawing.node("Gather", ["known", near["indices"]], "places")
    alone = drawing.node("Unsqueeze", [mapped, drawing.constant("axis_1", np.array([1]))], "alone")
    apart = drawing.node("Sub", [places, alone], "apart")
    distances = drawing.node("ReduceL2", [apart], "distances", axes=[2], keepdims=0)
    voters = _nearest(drawing, distances, n_voters, "voters")

    known_labels = drawing.constant("labels", np.asarray(labels, np.int64))
    near_labels = drawing.node("Gather", [known_labels, near["indices"]], "near_labels")
    votes = drawing.node("GatherElements", [near_labels, voters["indices"]], "votes", axis=1)
    ballots = drawing.node("Unsqueeze", [votes, drawing.constant("axis_2", np.array([2]))], "ballots")
    names = drawing.constant("names", np.arange(int(np.max(labels)) + 1))
    cast = drawing.cast(drawing.node("Equal", [ballots, names], "is_for"), "for", np.float64)
    values = drawing.constant("values", place_values(n_voters)[:, None])
    worth = drawing.node("Mul", [cast, values], "worth")
    counts = drawing.node("ReduceSum", [worth, "axis_1"], "counts", keepdims=0)
    most = drawing.node("ArgMax", [counts], "most", axis=1, keepdims=0)

    first = drawing.constant("first", 0)
    nearest = drawing.node("Gather", [voters["values"], first], "nearest_distance", axis=1)
    last = drawing.node("Gather", [voters["values"], drawing.constant("last", n_voters - 1)], "last_distance", axis=1)
    limit = drawing.node("Mul", [last, drawing.constant("same_row", SAME_ROW)], "limit")
    is_known = drawing.node("LessOrEqual", [nearest, limit], "is_known")
    own = drawing.node("Gather", [votes, first], "own", axis=1)
    drawing.node("Where", [is_known, own, most], "label")


def _nearest(drawing: Drawing, distances: str, count: int, name: str) -> dict[str, str]:
    """Smallest entries of each row, ascending, and their places."""
    found = {"values": f"{name}_values", "indices": f"{name}_indices"}
    size = drawing.constant(f"{name}_count", np.array([count]))
    drawing.nodes.append(
        drawing.onnx.helper.make_node("TopK", [distances, size], [*found.values()], axis=1, largest=0, sorted=1)
    )
    return found


def to_onnx(
    model: LinearMetric,
    path: str | os.PathLike[str] | None = None,
    *,
    method: str = "auto",
    dtype: Any = None,
) -> Any:
    """Turn a fitted model into an ONNX graph.

    Parameters
    ----------
    model : LinearMetric
        A fitted learner or clusterer.
    path : path-like, default=None
        Where to write the graph; None writes nothing.
    method : {"auto", "transform", "predict"}, default="auto"
        What the graph gives: "transform" the output `embedding` of shape (rows, n_components); "predict" the output
        `label` as well, of shape (rows,). "auto" means "predict" where the model has one.
    dtype : {np.float32, np.float64}, default=None
        Precision of the input `X` and of `embedding`; None means that of the rows the model was fitted on.

    Returns
    -------
    onnx.ModelProto
        The graph. Its input `X` has shape (rows, n_features) for any number of rows. Inside, it computes in double
        precision, as `transform` does; all-zero rows stay zero where rows are scaled to unit length.

    Raises
    ------
    TypeError
        If the model has no linear map, or no `predict` that was asked for.

    Notes
    -----
    The map is kilobytes. Labels by centres (head "k-means") add little. Labels by the nearest known rows (the other
    heads, and `PCAN`) need those rows in the learned space, n_distinct * n_components numbers: 0.6 MB for the digits
    below. Running them compares every new row with every known one, all at once: pass many rows in batches.

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
    """Names of all types a model of this library is made of that skops does not know by itself.

    Returns
    -------
    list of str
        What to pass as `trusted` to `skops.io.load`: classes of this library, whose loading runs no code but their
        own, and SciPy's sparse array.

    Examples
    --------
    >>> from adaam.export import skops_types
    >>> "adaam.estimators.adaam.AdaAM" in skops_types()
    True
    """
    # Pipelines are scikit-learn's, and skops knows them.
    classes = [*(cls for cls in known_classes().values() if cls.__module__.startswith("adaam.")), csr_array]
    return sorted({f"{cls.__module__}.{cls.__qualname__}" for cls in classes})
