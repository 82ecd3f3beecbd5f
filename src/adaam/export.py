"""Doors to other programs: fitted models as ONNX graphs, and the types that skops may load."""

import os
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_word
from adaam.encoding import known_classes
from adaam.estimators import LinearMetric
from adaam.files import atomic_file
from adaam.onnx_graph import model_graph

# A protocol buffer cannot be larger.
LARGEST_BYTES = 2**31 - 2**20
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
    onnx = _onnx()
    check_word("method", method, METHODS)
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


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError("to_onnx needs onnx. Install it with: pip install adaam[onnx]") from error
    return onnx
