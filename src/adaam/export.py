"""Doors to other programs: fitted models as ONNX graphs, and the types that skops may load."""

import os
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_word
from adaam._version import __version__
from adaam.encoding import known_classes
from adaam.estimators import AdaAMClustering, LinearMetric
from adaam.files import atomic_file

# Old enough for the runtimes in use, new enough for every operator below in double precision.
OPSET = 17
IR_VERSION = 8
METHODS = ("auto", "transform", "predict")

__all__ = ["skops_types", "to_onnx"]


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
        `label` as well, of shape (rows,). "auto" means "predict" where the model can be exported that way.
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
        If the model, or its `predict`, has no form as a graph.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAMClustering
    >>> from adaam.export import to_onnx
    >>> X, _ = load_digits(return_X_y=True)
    >>> graph = to_onnx(AdaAMClustering(10, head="k-means").fit(X))
    >>> [output.name for output in graph.graph.output]
    ['embedding', 'label']
    """
    onnx = _onnx()
    check_word("method", method, METHODS)
    if not isinstance(model, LinearMetric):
        raise TypeError(
            f"model={model!r} is a {type(model).__name__}, which has no linear map to export. "
            "Use AdaAM, LPP, PCAN or AdaAMClustering; save the others with skops."
        )
    check_is_fitted(model)
    reason = _no_predict(model)
    if method == "predict" and reason:
        raise TypeError(f'method="predict" cannot be exported: {reason} Use method="transform".')
    kind = np.dtype(model.components_.dtype if dtype is None else dtype)
    if kind not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} is not known; use np.float32 or np.float64.")
    graph = _graph(onnx, model, kind, labels=method != "transform" and not reason)
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
    classes = [*known_classes().values(), csr_array]
    return sorted({f"{cls.__module__}.{cls.__qualname__}" for cls in classes})


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError("to_onnx needs onnx. Install it with: pip install adaam[onnx]") from error
    return onnx


def _no_predict(model: Any) -> str:
    """Why `predict` has no form as a graph; empty where it has one."""
    if not hasattr(model, "predict"):
        return f"{type(model).__name__} has no predict."
    if not isinstance(model, AdaAMClustering):
        return f"predict of {type(model).__name__} compares new rows with every training row."
    if model.embedding_ is not None:
        return f"head_={model.head_!r} asks the nearest training rows; head='k-means' compares with centres alone."
    return ""


def _graph(onnx: Any, model: Any, kind: "np.dtype[Any]", *, labels: bool) -> Any:
    """Nodes straight from the definition: rows scaled or not, minus the mean, times the components."""
    helper = onnx.helper
    outside = helper.np_dtype_to_tensor_dtype(kind)
    inside = onnx.TensorProto.DOUBLE
    constants: dict[str, Any] = {"mean": model.mean_, "components": model.components_.T}
    nodes = [helper.make_node("Cast", ["X"], ["rows"], to=inside)]
    last = "rows"
    if model.preparation_.row_scaling == "unit":
        constants |= {"tiny": np.array(np.finfo(np.float64).tiny), "one": np.array(1.0)}
        nodes += [
            helper.make_node("ReduceL2", ["rows"], ["lengths"], axes=[1], keepdims=1),
            helper.make_node("Less", ["lengths", "tiny"], ["is_zero"]),
            helper.make_node("Where", ["is_zero", "one", "lengths"], ["divisors"]),
            helper.make_node("Div", ["rows", "divisors"], ["scaled"]),
        ]
        last = "scaled"
    nodes += [
        helper.make_node("Sub", [last, "mean"], ["centred"]),
        helper.make_node("MatMul", ["centred", "components"], ["mapped"]),
        helper.make_node("Cast", ["mapped"], ["embedding"], to=outside),
    ]
    m, d = model.components_.shape
    outputs = [helper.make_tensor_value_info("embedding", outside, ["rows", m])]
    if labels:
        # |z - c|² less |z|², which is the same for every centre.
        centers = np.asarray(model.cluster_centers_, dtype=np.float64)
        constants |= {"centers": -2.0 * centers.T, "squares": (centers**2).sum(axis=1)}
        nodes += [
            helper.make_node("MatMul", ["mapped", "centers"], ["products"]),
            helper.make_node("Add", ["products", "squares"], ["distances"]),
            helper.make_node("ArgMin", ["distances"], ["label"], axis=1, keepdims=0),
        ]
        outputs.append(helper.make_tensor_value_info("label", onnx.TensorProto.INT64, ["rows"]))
    graph = helper.make_graph(
        nodes,
        type(model).__name__,
        [helper.make_tensor_value_info("X", outside, ["rows", d])],
        outputs,
        [
            onnx.numpy_helper.from_array(np.ascontiguousarray(value, np.float64), name)
            for name, value in constants.items()
        ],
    )
    return helper.make_model(
        graph,
        producer_name="adaam",
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
