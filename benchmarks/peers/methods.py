"""The methods that are compared: how each is called, with the settings its users would choose."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Raced:
    """A method that fits rows; `load` imports it."""

    load: Callable[[], Callable[[Any], Any]]
    packages: tuple[str, ...] = ()
    gives: str = "map"  # map: also for new rows; embedding: of these rows only; clusters: labels


def adaam_fit():
    from adaam import AdaAM

    return lambda X: AdaAM(10, pairs="all").fit(X)


def adaam_blocks():
    from adaam import AdaAM, RowBlocks

    return lambda X: AdaAM(10, pairs=RowBlocks()).fit(X)


def adaam_kmeans():
    from adaam import AdaAM, AdaAMClustering

    return lambda X: AdaAMClustering(10, learner=AdaAM(10, pairs="all"), head="k-means").fit_predict(X)


def adaam_clustering():
    from adaam import AdaAMClustering

    return lambda X: AdaAMClustering(10).fit_predict(X)


def compared(name):
    def load():
        from adaam.bench.methods import METHODS, Case
        from adaam.graph import paper_neighbors

        method = METHODS[name]

        def fit(X):
            case = Case(len(X), X.shape[1], 10, paper_neighbors(len(X), 10), method.preparations[0], 0)
            estimator = method.make(case)
            return estimator.fit_predict(X) if method.kind == "labels" else estimator.fit_transform(X)

        return fit

    return load


def umap_fit():
    from umap import UMAP

    return lambda X: UMAP(n_components=10, min_dist=0.0).fit(X)


def umap_kmeans():
    from sklearn.cluster import KMeans
    from umap import UMAP

    def fit(X):
        Z = UMAP(n_components=10, min_dist=0.0).fit_transform(X)
        return KMeans(10, n_init=10, random_state=0).fit_predict(Z)

    return fit


def spectral_clustering():
    from sklearn.cluster import SpectralClustering

    return lambda X: SpectralClustering(10, affinity="nearest_neighbors", random_state=0, n_jobs=-1).fit_predict(X)


def spectral_embedding():
    from sklearn.manifold import SpectralEmbedding

    return lambda X: SpectralEmbedding(10, random_state=0, n_jobs=-1).fit(X)


def pacmap_fit():
    from pacmap import PaCMAP

    return lambda X: PaCMAP(n_components=10, random_state=None).fit_transform(X)


def faiss_kmeans():
    import faiss
    import numpy as np

    def fit(X):
        rows = np.ascontiguousarray(X, dtype=np.float32)
        kmeans = faiss.Kmeans(rows.shape[1], 10, niter=100, nredo=10, seed=0, max_points_per_centroid=len(rows))
        kmeans.train(rows)
        return kmeans.index.search(rows, 1)[1][:, 0]

    return fit


def sklearn_kmeans():
    from sklearn.cluster import KMeans

    return lambda X: KMeans(10, n_init=10, random_state=0).fit_predict(X)


METHODS = {
    "AdaAM, fit": Raced(adaam_fit),
    "AdaAM, fit, row blocks": Raced(adaam_blocks),
    "AdaAM + k-means": Raced(adaam_kmeans, gives="clusters"),
    "AdaAMClustering": Raced(adaam_clustering, gives="clusters"),
    "k-NN": Raced(compared("knn")),
    "Cons-kNN": Raced(compared("cons-knn")),
    "DN": Raced(compared("dn")),
    "ClustRF-Bi": Raced(compared("clustrf-bi")),
    "PCAN": Raced(compared("pcan")),
    "LSC": Raced(compared("lsc"), gives="clusters"),
    "UMAP, fit": Raced(umap_fit, ("umap-learn",)),
    "UMAP + k-means": Raced(umap_kmeans, ("umap-learn",), "clusters"),
    "SpectralClustering": Raced(spectral_clustering, gives="clusters"),
    "SpectralEmbedding": Raced(spectral_embedding, gives="embedding"),
    "PaCMAP, fit": Raced(pacmap_fit, ("pacmap",)),
    "k-means (faiss)": Raced(faiss_kmeans, ("faiss-cpu",), "clusters"),
    "k-means (scikit-learn)": Raced(sklearn_kmeans, gives="clusters"),
}
