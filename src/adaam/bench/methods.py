"""The compared methods, each with a function that makes its estimator for a case."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from typing import Any, Literal

from sklearn.cluster import SpectralClustering
from sklearn.decomposition import PCA
from sklearn.manifold import MDS, Isomap, LocallyLinearEmbedding, SpectralEmbedding
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from adaam.affinity import ConsensusAffinity, DominantAffinity, ForestAffinity, HeatKernel, KNNAffinity
from adaam.estimators import CAN, LPP, LSC, PCAN, AdaAM, AdaAMClustering
from adaam.prepare import Preparation

# How rows are prepared for a method: as in the reference interpretation of AdaAM, as in the method's own literature, or
# not at all ("raw"), for methods that are commonly used so.
PreparationName = Literal["reference", "literature", "raw"]

# Neighbours of the spectral and manifold baselines: scikit-learn's default for spectral clustering, used for all.
BASELINE_NEIGHBORS = 10
UMAP_COMPONENTS = 10

LPP_LITERATURE = Preparation(row_scaling="none", keep=0.99)


@dataclass(frozen=True, slots=True)
class Case:
    """What a method may know of the data set it is run on: sizes, never labels."""

    n: int
    d: int
    n_clusters: int
    n_neighbors: int
    preparation: PreparationName
    seed: int

    @property
    def n_components(self) -> int:
        """Dimension of every embedding: the number of clusters, or of features if that is smaller."""
        return min(self.n_clusters, self.d)


@dataclass(frozen=True, slots=True)
class Method:
    """A method and how the benchmark runs it."""

    name: str
    title: str
    reference: str
    kind: Literal["embedding", "labels"]  # fit_transform, then k-means rounds; or fit_predict
    make: Callable[[Case], Any]
    preparations: tuple[PreparationName, ...] = ("reference", "literature")
    max_rows: int | None = None
    random: bool = False  # whether the fit itself depends on the seed
    refits: bool = False  # whether such an embedding is fitted again in each round, to show how much it varies
    package: str = ""  # package needed beyond the library's own requirements; our extra has the method's name

    @property
    def is_refitted(self) -> bool:
        """Whether each round is a fit of its own, rather than k-means on one embedding."""
        return self.random and (self.refits or self.kind == "labels")

    def n_rounds(self, most: int) -> int:
        """Number of rounds that differ: a deterministic method that gives labels has one."""
        return 1 if self.kind == "labels" and not self.random else most

    @property
    def lacking(self) -> str | None:
        """Message on what must be installed before the method can run here, and how; None if it can."""
        try:
            if self.package:
                version(self.package)
        except PackageNotFoundError:
            how = f"Install it with: pip install adaam[{self.name}]"
            return f"{self.title} needs {self.package}, which is not installed. {how}"
        return None


def _lpp(learner: Callable[..., Any], case: Case, **settings: Any) -> Any:
    affinity = learner(n_neighbors=case.n_neighbors, **settings)
    if case.preparation == "literature":
        return LPP(case.n_components, affinity=affinity, scaling="orthonormal", preparation=LPP_LITERATURE)
    return LPP(case.n_components, affinity=affinity, preparation="unit")


def _heated(learner: Callable[..., Any], case: Case) -> Any:
    return _lpp(learner, case, heat=HeatKernel(width=1.0) if case.preparation == "literature" else HeatKernel())


def _forest(case: Case) -> Any:
    # The forest itself uses 30 components under either preparation, as in its own literature.
    return _lpp(ForestAffinity, case, random_state=case.seed)


def _adaptive_neighbors(learner: type[CAN] | type[PCAN], case: Case) -> Any:
    preparation = "center" if case.preparation == "literature" else "unit"
    return learner(case.n_clusters, n_neighbors=case.n_neighbors, preparation=preparation)


def _adaam(case: Case) -> Any:
    return AdaAM(case.n_clusters, n_neighbors=case.n_neighbors)


def _chosen(case: Case) -> Any:
    return AdaAMClustering(case.n_clusters, random_state=case.seed)


def _lsc(case: Case) -> Any:
    if case.preparation == "literature":
        return LSC(case.n_clusters, bandwidth="mean-squared", random_state=case.seed)
    # The reference preparation as scikit-learn transformers.
    reference = (Normalizer(), PCA(n_components=0.99, svd_solver="full"))
    return make_pipeline(*reference, LSC(case.n_clusters, random_state=case.seed))


def _manifold(learner: Callable[..., Any], case: Case, **settings: Any) -> Any:
    return learner(n_neighbors=BASELINE_NEIGHBORS, n_components=case.n_clusters, **settings)


def _lle(case: Case) -> Any:
    return _manifold(LocallyLinearEmbedding, case, eigen_solver="arpack", random_state=case.seed)


def _mds(case: Case) -> Any:
    # Releases of scikit-learn before 1.8 have no `init` and always start at random.
    start = {"init": "random"} if "init" in signature(MDS).parameters else {}
    return MDS(case.n_clusters, n_init=1, random_state=case.seed, **start)


def _umap(case: Case) -> Any:
    with warnings.catch_warnings():
        # On every import, an unused part of umap warns that TensorFlow is missing.
        warnings.filterwarnings("ignore", "Tensorflow not installed", ImportWarning)
        umap = import_module("umap")
    # As its documentation advises for clustering: more than two dimensions, and a minimum distance of 0. With a seed
    # it runs on one thread; n_jobs=1 avoids a warning about it.
    n_components = min(UMAP_COMPONENTS, case.n - 2)
    return umap.UMAP(n_components=n_components, min_dist=0.0, random_state=case.seed, n_jobs=1)


def _spectral(learner: Callable[..., Any], case: Case) -> Any:
    return learner(
        case.n_clusters, affinity="nearest_neighbors", n_neighbors=BASELINE_NEIGHBORS, random_state=case.seed
    )


NIE = "Nie, Wang, Huang, KDD 2014"
NG = "Ng, Jordan, Weiss, NIPS 2001"
UMAP = "McInnes, Healy, Melville, arXiv:1802.03426"
TENENBAUM = "Tenenbaum, de Silva, Langford, Science 2000"
LAPLACIAN = "Belkin, Niyogi, Neural Computation 2003"
OWN_CHOICE = "this library: metric and head chosen without labels"
RAW: tuple[PreparationName, ...] = ("raw",)
LISTED = (
    Method("adaam", "AdaAM", "Li, Chen, Zhao, Lu, ICME 2017", "embedding", _adaam, ("reference",)),
    Method("adaam-clustering", "AdaAMClustering", OWN_CHOICE, "labels", _chosen, RAW, random=True),
    Method("knn", "k-NN", "He, Niyogi, NIPS 2003", "embedding", partial(_heated, KNNAffinity)),
    Method(
        "cons-knn", "Cons-kNN", "Premachandran, Kakarala, CVPR 2013", "embedding", partial(_heated, ConsensusAffinity)
    ),
    Method("dn", "DN", "Pavan, Pelillo, PAMI 2007", "embedding", partial(_heated, DominantAffinity)),
    Method("clustrf-bi", "ClustRF-Bi", "Zhu, Loy, Gong, CVPR 2014", "embedding", _forest, random=True),
    Method("pcan-kmeans", "PCAN + k-means", NIE, "embedding", partial(_adaptive_neighbors, PCAN)),
    Method("pcan", "PCAN", NIE, "labels", partial(_adaptive_neighbors, PCAN)),
    Method("can", "CAN", NIE, "labels", partial(_adaptive_neighbors, CAN)),
    Method("lsc", "LSC", "Chen, Cai, AAAI 2011", "labels", _lsc, random=True),
    Method("spectral", "Spectral clustering", NG, "labels", partial(_spectral, SpectralClustering), RAW, random=True),
    Method(
        "spectral-embedding", "Laplacian eigenmaps", LAPLACIAN, "embedding", partial(_spectral, SpectralEmbedding), RAW
    ),
    # It stores the shortest paths between all pairs of rows.
    Method("isomap", "Isomap", TENENBAUM, "embedding", partial(_manifold, Isomap), RAW, max_rows=12_000),
    # It factorises an n x n matrix that fills up.
    Method("lle", "LLE", "Roweis, Saul, Science 2000", "embedding", _lle, RAW, max_rows=12_000),
    # Each of its hundreds of iterations visits all pairs of rows.
    Method(
        "mds", "MDS", "Kruskal, Psychometrika 1964; de Leeuw 1977", "embedding", _mds, RAW, max_rows=3_000, random=True
    ),
    Method("umap", "UMAP + k-means", UMAP, "embedding", _umap, RAW, random=True, refits=True, package="umap-learn"),
    Method("pca", "PCA", "Pearson 1901", "embedding", lambda case: PCA(case.n_components, svd_solver="full"), RAW),
    Method("kmeans", "k-means", "Lloyd 1957/1982", "embedding", lambda case: FunctionTransformer(), RAW),
)
METHODS: dict[str, Method] = {method.name: method for method in LISTED}
