"""Base class of clusterers that explain and report their clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from adaam._typing import FloatVector, IntVector
from adaam.cluster_profile import ClusterProfiles, engine_profiles
from adaam.estimators.linear_metric import LinearMetric, feature_names
from adaam.metric import FeatureContributions
from adaam.partition import ClusterLayer
from adaam.selection import DistinctRows

if TYPE_CHECKING:  # imported by `report` only
    from adaam.cluster_report import ClusterReport


class DescribedClusters(LinearMetric):
    """A clusterer in a linear metric that can explain and report its clusters."""

    cluster_profiles_: ClusterProfiles
    labels_: IntVector
    n_clusters_: int
    cluster_layers_: tuple[ClusterLayer, ...]
    memberships_: csr_array | None
    probabilities_: FloatVector | None
    outlier_scores_: FloatVector | None

    def explain(  # type: ignore[override]
        self, a: Any = None, b: Any = None, *, names: Sequence[str] | None = None
    ) -> ClusterProfiles | FeatureContributions:
        """Explain what sets each cluster apart, or what each feature contributes to the distance between two rows.

        Parameters
        ----------
        a, b : array-like of shape (n_features,), default=None
            Two rows whose distance is explained. Without them, the clusters are explained; `metric_.explain()` explains
            the metric itself.
        names : sequence of str, default=None
            Names of the features, such as those of the columns that a `TableEncoder` makes; None means those seen in
            fit, or x0, x1, ...

        Returns
        -------
        ClusterProfiles or FeatureContributions
            Effect sizes of the features in each cluster, sorted by `top(cluster)` and when printed; for two rows, the
            features' shares of their squared distance, which sum to 1.
        """
        check_is_fitted(self)
        if a is None and b is None:
            return replace(self.cluster_profiles_, names=feature_names(self, names))
        return super().explain(a, b, names=names)

    def report(
        self,
        X: Any,
        *,
        names: Sequence[str] | None = None,
        images: Any = None,
        texts: Sequence[str] | None = None,
        ids: Sequence[Any] | None = None,
        table: Any = None,
        columns: Mapping[str, Any] | None = None,
        title: str = "Clusters",
    ) -> "ClusterReport":
        """Return a page about the clusters: a map to explore, a card for each cluster, layers, outliers, all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows the model was fitted to.
        names : sequence of str, default=None
            Names of the features; None means those of X or of the model, or x0, x1, ...
        images : array-like of shape (n_samples, height, width[, 3]) or (height, width), default=None
            An image for each row; (height, width) means that the features of X are its pixels.
        texts : sequence of str, default=None
            A text for each row; the most distinctive words of each cluster are shown.
        ids : sequence, default=None
            Names of the rows; None means their numbers.
        table : DataFrame or mapping of str to array-like of shape (n_samples,), default=None
            The table that X was made from, as returned by `TableEncoder.own_units`, for example: its columns are shown
            instead of the features of X, in their own units.
        columns : mapping of str to array-like of shape (n_samples,), default=None
            Further columns of numbers or words to colour by and to list, which the fit did not use.
        title : str, default="Clusters"
            Title of the page.

        Returns
        -------
        ClusterReport
            Its `save(path)` writes one self-contained HTML file (`adaam[page]`); in a notebook it shows a table.
        """
        from adaam.cluster_report import ClusterReport, report_data

        about = {"names": names, "images": images, "texts": texts, "ids": ids, "table": table, "columns": columns}
        return ClusterReport(report_data(self, X, **about, title=title))

    def _describe(self, rows: DistinctRows, labels: IntVector) -> None:
        """Compute and store the profiles of the clusters of these rows."""
        self.cluster_profiles_ = engine_profiles(rows.X, labels, int(labels.max()) + 1, rows.weights, rows.engine)
