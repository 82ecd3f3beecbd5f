"""Benchmark of the clusterer: time compared with UMAP + k-means, time on a GPU, accuracy and number of clusters.

    python benchmarks/clusterer/run.py --data FOLDER --stage times
    PYTHONPATH=src python benchmarks/clusterer/run.py --data FOLDER --stage gpu        # needs a CUDA device
    python benchmarks/clusterer/run.py --data FOLDER --stage accuracy,count --seeds 10

FOLDER holds the paper's .npz files (`X`, `y`) and, in a folder `embeddings`, those of embeddings. Labels are used
only for scoring. Results are appended to results/clusterer.jsonl, or to the file given by --out.
"""

import argparse
import json
import resource
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from adaam import AdaAMClustering
from adaam.scores import adjusted_rand_index, clustering_accuracy

PAPER = ("umist", "coil20", "exyaleb", "usps", "mnist10k")
EMBEDDINGS = ("stackoverflow_use", "banking77_use", "imagenet50_moco", "biomedical_lsa")


def load(folder, name):
    if name == "digits":
        return datasets.load_digits(return_X_y=True)
    if name.startswith("cloud"):
        return np.random.default_rng(0).standard_normal((2000, int(name[5:]))), np.zeros(2000, dtype=int)
    if name == "300 gaussians":
        rng, y = np.random.default_rng(0), np.arange(6000) % 300
        return 4.0 * rng.standard_normal((300, 20))[y] + rng.standard_normal((6000, 20)), y
    path = Path(folder) / ("embeddings" if name in EMBEDDINGS else "") / f"{name.removesuffix('10k')}.npz"
    with np.load(path) as file:
        X, y = file["X"].astype(float), file["y"]
    return (X[:10_000], y[:10_000]) if name == "mnist10k" else (X, y)


def clock(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def umap_kmeans(X, n_clusters, metric="euclidean", seed=None):
    import umap

    Z = umap.UMAP(n_components=10, min_dist=0.0, metric=metric, random_state=seed).fit_transform(X)
    return KMeans(n_clusters, n_init=10, random_state=0).fit_predict(Z)


def times(arguments, record):
    """Time both methods alternately, so that other load on the machine affects both."""
    X, _ = load(arguments.data, "mnist10k")
    whole, _ = load(arguments.data, "mnist")
    cases = [(X, c, f"10k, c = {c}") for c in (10, 30, 100)] + [(whole, 10, "70k, c = 10")]
    AdaAMClustering(10).fit(X[:5000])
    umap_kmeans(X[:2000], 10)
    for rows, c, name in cases:
        ours, theirs = [], []
        for turn in range(arguments.turns if len(rows) <= 10_000 else 1):
            ours.append(clock(lambda: AdaAMClustering(c, random_state=turn).fit(rows))[0])  # noqa: B023
            theirs.append(clock(lambda: umap_kmeans(rows, c))[0])  # noqa: B023
        a, b = statistics.median(ours), statistics.median(theirs)
        record("times", name, seconds=a, umap_kmeans_seconds=b, ratio=a / b)


def gpu(arguments, record):
    """Time fits of rows on the device; the warm-up is excluded."""
    import torch

    from adaam import GPUEngine

    engine = GPUEngine(device=arguments.device)
    X, y = load(arguments.data, "mnist")
    X = torch.tensor(X, dtype=torch.float32, device=arguments.device)

    def fit(rows, c):
        model = AdaAMClustering(c, engine=engine)
        torch.cuda.synchronize()
        seconds, model = clock(lambda: model.fit(rows))
        torch.cuda.synchronize()
        return seconds, model

    fit(X, 10)
    for name, rows, c in (("10k", X[:10_000], 10), ("70k", X, 10), ("70k", X, 50), ("70k", X, 100)):
        found = [fit(rows, c) for _ in range(3)]
        accuracy = clustering_accuracy(y[: len(rows)], found[0][1].labels_) if c == 10 else None
        seconds = statistics.median(f[0] for f in found)
        record("gpu", f"{name}, c = {c}", seconds=seconds, accuracy=accuracy, best=str(found[0][1].selection_.best))
    profile(lambda: fit(X, 10), record)
    if arguments.million:
        copies = -(-arguments.million // len(X))
        large = torch.cat([X + 4.0 * torch.randn(X.shape, device=X.device) for _ in range(copies)])[: arguments.million]
        seconds, model = fit(large, 10)
        truth = np.tile(y, copies)[: arguments.million]
        record("gpu", f"{len(large)} rows, c = 10", seconds=seconds, accuracy=clustering_accuracy(truth, model.labels_))


def profile(work, record):
    import cProfile
    import io
    import pstats

    profiler = cProfile.Profile()
    profiler.runcall(work)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(45)
    print(text.getvalue())


def texts(n_texts, n_terms, n_topics=20, n_words=40, seed=0):
    """Return TF-IDF rows and topics of synthetic texts: a third of the words are of the topic, the others Zipfian."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_topics, size=n_texts)
    zipf = 1.0 / np.arange(1, n_terms + 1)
    words = np.searchsorted(np.cumsum(zipf) / zipf.sum(), rng.random((n_texts, n_words)))
    own = rng.random((n_texts, n_words)) < 1 / 3
    vocabulary = rng.integers(n_terms, size=(n_topics, n_terms // 50))
    ranks = np.minimum((len(vocabulary[0]) ** rng.random((n_texts, n_words))).astype(int), len(vocabulary[0]) - 1)
    words = np.where(own, vocabulary[y[:, None], ranks], words)
    ones = np.ones(words.size)
    counts = csr_array((ones, (np.repeat(np.arange(n_texts), n_words), words.ravel())), shape=(n_texts, n_terms))
    return csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(counts)), y


def text(arguments, record):
    """Time, memory beyond the rows, and accuracy, compared with TruncatedSVD + k-means."""
    for n_texts, n_terms in ((7600, 20_000), (100_000, 100_000))[: 1 if arguments.turns == 1 else 2]:
        X, y = texts(n_texts, n_terms)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, model = clock(lambda: AdaAMClustering(20).fit(X))  # noqa: B023
        extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
        peer = make_pipeline(TruncatedSVD(100, random_state=0), Normalizer(), KMeans(20, n_init=10, random_state=0))
        peer_seconds, labels = clock(lambda: peer.fit_predict(X))  # noqa: B023
        record(
            "text", f"{n_texts} x {n_terms}", seconds=seconds, extra_gib=extra, svd_kmeans_seconds=peer_seconds,
            accuracy=100 * clustering_accuracy(y, model.labels_), svd_kmeans=100 * clustering_accuracy(y, labels),
        )  # fmt: skip


def accuracy(arguments, record):
    for name in arguments.sets or (*PAPER, "digits", *EMBEDDINGS):
        X, y = load(arguments.data, name)
        c = len(np.unique(y))
        found = [AdaAMClustering(c, random_state=seed).fit(X) for seed in range(arguments.seeds)]
        scores = [100 * clustering_accuracy(y, model.labels_) for model in found]
        best = found[0].selection_.best
        extra = {}
        if name in EMBEDDINGS and arguments.umap:
            peers = [100 * clustering_accuracy(y, umap_kmeans(X, c, "cosine", seed)) for seed in range(3)]
            extra = {"umap_kmeans": float(np.mean(peers))}
        record(
            "accuracy", name, mean=float(np.mean(scores)), deviation=float(np.std(scores)), chosen=best.metric,
            preparation=best.preparation, head=best.head, columns=found[0].n_components_, **extra,
        )  # fmt: skip


def count(arguments, record):
    for name in arguments.sets or ("cloud2", "cloud10", "cloud100", "300 gaussians", *PAPER, "digits", *EMBEDDINGS):
        X, y = load(arguments.data, name)
        seconds, model = clock(lambda: AdaAMClustering("auto").fit(X))  # noqa: B023
        found, classes = model.selection_.count, len(np.unique(y))
        record(
            "count", name, found=found.n_clusters, low=found.low, high=found.high, classes=classes, seconds=seconds,
            log2=abs(float(np.log2(found.n_clusters / classes))), ari=100 * adjusted_rand_index(y, model.labels_),
        )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data")
    parser.add_argument("--stage", default="times")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--million", type=int, default=1_000_000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sets", nargs="*", help="sets to score; all without it")
    parser.add_argument("--umap", action="store_true", help="score UMAP + k-means on the embeddings too")
    parser.add_argument("--out", default=Path(__file__).parent / "results" / "clusterer.jsonl", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)

    def record(stage, name, **figures):
        print(stage, name, figures, flush=True)
        with arguments.out.open("a") as file:
            file.write(json.dumps({"stage": stage, "name": name, **figures}) + "\n")

    for stage in arguments.stage.split(","):
        {"times": times, "gpu": gpu, "accuracy": accuracy, "count": count, "text": text}[stage](arguments, record)


if __name__ == "__main__":
    main()
