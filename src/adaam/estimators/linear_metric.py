"""Base class of all fitted linear maps: transform and its inverse, distances, explanations."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from adaam._checks import check_lengths, check_magnitude, host_rows, in_kind
from adaam._typing import FloatMatrix, FloatVector, Tall
from adaam.engines import Engine, resolve_engine
from adaam.linalg import Projection
from adaam.metric import FeatureContributions, Mahalanobis, contributions
from adaam.prepare import LinearMap, Preparation, resolve_preparation, scaled_rows
from adaam.rows import RowSource, as_rows, checked_blocks

# Largest entry of a map stored in float32; its square still fits.
LARGEST_FLOAT32 = 1e18


class LinearMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A fitted linear map and the Mahalanobis metric it defines."""

    components_: FloatMatrix
    covariance_: FloatMatrix
    mean_: FloatVector
    preparation_: Preparation
    eigenvalues_: FloatVector
    engine_: str
    n_components_: int
    n_features_in_: int

    @in_kind
    def transform(self, X: Any) -> FloatMatrix:
        """Map rows to the space in which Euclidean distance is the learned metric.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowSource
            Rows to map. Memory maps, Zarr arrays and files opened by `adaam.rows.open_rows` are read block by block;
            `adaam.rows.map_to_file` writes the mapped rows block by block too.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Mapped rows, in the wider precision of X and of the rows the map was learned from. Under scikit-learn's
            `array_api_dispatch`, an array of the library and on the device of X.
        """
        check_is_fitted(self)
        engine, source = self._engine(), as_rows(X)
        if source is not None:
            self._take_features(source, reset=False)
            blocks = (engine.asarray(block) for _, block in checked_blocks(source))
            return np.vstack([engine.to_host(self._map().apply(block, engine)) for block in blocks])
        Z: FloatMatrix = engine.to_host(self._map().apply(self._rows(X, reset=False), engine), X)
        return Z

    @in_kind
    def inverse_transform(self, Z: Any) -> FloatMatrix:
        """Return the rows closest to the mean that map to Z.

        If the preparation scales rows to unit length, the result holds scaled rows: their lengths are not recovered.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_components)
            Mapped rows.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Minimum-norm preimages; a tensor if Z is a tensor that the engine accepts.
        """
        check_is_fitted(self)
        engine = self._engine()
        rows = engine.own(Z, 1)
        if rows is None:
            rows = np.asarray(Z, dtype=self.components_.dtype)
        n_components = len(self.components_)
        if len(rows.shape) != 2 or rows.shape[1] != n_components:
            raise ValueError(f"Z has shape {tuple(rows.shape)}, but the map has {n_components} components.")
        spread = engine.project(rows, 1.0, np.zeros(n_components), np.linalg.pinv(self.components_))
        X: FloatMatrix = engine.to_host(spread, Z) + engine.to_host(self.mean_, Z)
        return X

    @in_kind
    def pair_distance(self, pairs: Any) -> FloatVector:
        """Return the learned distance between the two rows of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of rows.

        Returns
        -------
        distances : ndarray of shape (n_pairs,)
            Euclidean distances after `transform`; a tensor if `pairs` is a tensor that the engine accepts.
        """
        check_is_fitted(self)
        engine = self._engine()
        if engine.own(pairs) is None:
            try:
                pairs = np.asarray(pairs)
            except ValueError as error:
                raise ValueError(f"pairs is ragged; it must be (n_pairs, 2, {self.n_features_in_}).") from error
        if tuple(pairs.shape[1:]) != (2, self.n_features_in_):
            raise ValueError(f"pairs has shape {tuple(pairs.shape)}; it must be (n_pairs, 2, {self.n_features_in_}).")
        rows = self._nameless(pairs.reshape(-1, pairs.shape[2]))
        Z = engine.to_host(self._map().apply(rows, engine), pairs)
        distances: FloatVector = ((Z[::2] - Z[1::2]) ** 2).sum(axis=1) ** 0.5
        return distances

    def pair_score(self, pairs: Any) -> FloatVector:
        """Return the similarity of the two rows of each pair: the negative of their `pair_distance`."""
        return -self.pair_distance(pairs)

    def get_metric(self) -> Mahalanobis:
        """Return the learned distance as a function of two vectors, for estimators that take a `metric`."""
        check_is_fitted(self)
        return Mahalanobis(self.components_.copy(), self.preparation_.row_scaling)

    def get_mahalanobis_matrix(self) -> FloatMatrix:
        """Return M = components_.T @ components_, of shape (n_features, n_features).

        It applies to rows scaled as in the preparation: to unit length if `preparation_.row_scaling` is "unit".
        """
        return self.get_metric().matrix()

    def explain(self, a: Any = None, b: Any = None, *, names: Sequence[str] | None = None) -> FeatureContributions:
        """Explain what each input feature contributes to the metric, or to the distance between two rows.

        Parameters
        ----------
        a, b : array-like of shape (n_features,), default=None
            Two rows. Without them, the mean squared distance between training rows is explained.
        names : sequence of str, default=None
            Names of the features; None means those seen in fit, or x0, x1, ...

        Returns
        -------
        FeatureContributions
            Shares that sum to 1, in the order of the input features.
        """
        check_is_fitted(self)
        if (a is None) != (b is None):
            raise ValueError("explain takes two rows or none, but one was given.")
        labels = feature_names(self, names)
        if a is None:
            return contributions(labels, self.components_, self.covariance_)
        shapes = np.shape(a), np.shape(b)
        if shapes != ((self.n_features_in_,),) * 2:
            raise ValueError(
                f"explain takes two rows of {self.n_features_in_} features, but got shapes {shapes[0]} and {shapes[1]}."
            )
        pair = self._nameless(np.vstack([a, b]).astype(np.float64))
        difference = np.diff(scaled_rows(pair, self.preparation_.row_scaling), axis=0)
        return contributions(labels, self.components_, self.components_ @ difference.T @ difference)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _engine(self) -> Engine:
        return resolve_engine(self.engine)

    def _map(self) -> LinearMap:
        return LinearMap(self.components_, self.mean_, self.preparation_.row_scaling)

    def _store_map(
        self, prepared: LinearMap, projection: Projection, moments: FloatMatrix, dtype: Any, engine: Engine
    ) -> None:
        """Combine projection and preparation in one map with fixed signs; `moments` are those of the prepared rows."""
        self.preparation_, self.engine_ = resolve_preparation(self.preparation), engine.name
        signed = projection.components * row_signs(projection.components @ prepared.components)[:, None]
        components = signed @ prepared.components
        # Covariances with the original features: the components were divided by the column units, so multiply twice.
        covariance = signed @ moments @ prepared.components * np.square(prepared.column_units)
        # Very small or very large column units may take the result out of the range of float32.
        fits = max(np.abs(components).max(), np.abs(covariance).max()) <= LARGEST_FLOAT32
        dtype = np.float32 if dtype == np.float32 and fits else np.float64
        self.components_, self.covariance_ = components.astype(dtype), covariance.astype(dtype)
        self.mean_ = prepared.mean.astype(dtype)
        self.eigenvalues_ = projection.eigenvalues
        self.n_components_ = len(projection.components)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """Validate rows once; arrays of the engine's own kind are checked where they are stored."""
        if isinstance(X, str | os.PathLike):
            raise TypeError(
                f"X={str(X)!r} is a path, not rows. Read them into an array; or open the file by adaam.rows.open_rows, "
                "which AdaAM and AdaAMClustering read block by block."
            )
        # Checking an array against the protocol of row sources would take longer than mapping a row.
        if not isinstance(X, np.ndarray) and isinstance(X, RowSource):
            raise TypeError(
                f"{type(self).__name__} wants its rows in memory, but X is a {type(X).__name__}. Read them into an "
                "array; AdaAM and AdaAMClustering are fitted, and every map applied, to such rows as they are."
            )
        rows = self._engine().own(X, 2 if reset else 1)
        if rows is not None:
            named = getattr(rows, "named", None)
            validate_data(self, rows if named is None else named, reset=reset, skip_check_array=True)
            return rows
        rows, largest = host_rows(self, X, reset=reset)
        if not reset:
            self._check_magnitude(rows, largest)
        return rows

    def _check_magnitude(self, rows: Tall, largest: float) -> None:
        """Raise if distances of new rows would overflow, or their lengths if rows are scaled."""
        if self.preparation_.row_scaling == "none":
            check_magnitude("X", largest, rows.dtype, learning=False)
        else:
            check_lengths("X", largest * float(np.sqrt(rows.shape[1])))

    def _nameless(self, rows: Any) -> Any:
        """Validate rows that cannot have feature names, such as those of pairs, without a warning about it."""
        own = self._engine().own(rows, 1)
        if own is not None:
            return own
        checked, largest = host_rows(clone(self), rows, reset=True)
        self._check_magnitude(checked, largest)
        return checked

    def _take_features(self, source: RowSource, *, reset: bool) -> None:
        """Store number and names of a source's features, or compare them with those stored in fit."""
        if reset:
            validate_data(self, np.empty((1, source.n_features)), reset=True, skip_check_array=True)
            if source.names is not None:
                self.feature_names_in_ = np.array(source.names, dtype=object)
            return
        if source.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {source.n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and source.names is not None and list(known) != source.names:
            raise ValueError(
                f"{source.label}: its columns are not those the map was learned from, in their order: "
                f"{', '.join(map(str, known[:8]))}{', ...' if len(known) > 8 else ''}."
            )

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are accepted and float32 is preserved."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def feature_names(model: LinearMetric, given: Sequence[str] | None = None) -> tuple[str, ...]:
    """Names of the input features: those given, those of the frame seen in fit, or x0, x1, ..."""
    n = model.n_features_in_
    if given is not None:
        if len(given) != n:
            n_given = "1 name" if len(given) == 1 else f"{len(given)} names"
            raise ValueError(f"names holds {n_given}, but the rows have {n} features.")
        return tuple(str(name) for name in given)
    # For an encoded table only the metric has the names, since new rows come to the model without them.
    named = model if hasattr(model, "feature_names_in_") else getattr(model, "metric_", model)
    names = getattr(named, "feature_names_in_", None)
    return tuple(f"x{j}" for j in range(n)) if names is None else tuple(str(name) for name in names)


def row_signs(components: FloatMatrix) -> FloatVector:
    """Signs that make the entry of largest magnitude in each row positive (the first one on a tie)."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return np.asarray(np.where(signs == 0, 1.0, signs))
