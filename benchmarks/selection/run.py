"""How good is the choice without labels? Every candidate scored against the classes, beside what was chosen.

    python benchmarks/selection/run.py --data FOLDER --seeds 3 --out benchmarks/selection/results

Sets: the paper's five where the folder has them, any other .npz (X, y) in `--more`, scikit-learn's embedded sets, and
generators. Each is run as it is and on random shares of its rows. Labels only score.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn import datasets
from sklearn.cluster import HDBSCAN
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from adaam import AdaAM, AdaAMClustering, DisconnectedGraphWarning
from adaam.engines import CPUEngine
from adaam.estimators.choosing import SEARCH_ROWS, counted_clusters
from adaam.partition import HEADS
from adaam.scores import adjusted_rand_index, clustering_accuracy, normalized_mutual_information
from adaam.selection import candidates, fitted_candidates, random_rows

ENGINE = CPUEngine()
PAPER = ("umist", "coil20", "exyaleb", "usps", "mnist10k")


def generated():
    rng = check_random_state(0)
    blobs, blob_classes = datasets.make_blobs(600, 2, centers=5, cluster_std=0.9, random_state=8)
    aniso, aniso_classes = datasets.make_blobs(600, 2, centers=3, random_state=170)
    wide = [datasets.make_blobs([300, 200, 100], 10, cluster_std=[1.0, 2.0, 0.5], random_state=4)][0]
    roll, along = datasets.make_swiss_roll(900, noise=0.3, random_state=0)
    return {
        "moons": datasets.make_moons(500, noise=0.06, random_state=0),
        "circles": datasets.make_circles(500, noise=0.04, factor=0.4, random_state=0),
        "blobs": (blobs, blob_classes),
        "stretched blobs": (aniso @ np.array([[0.6, -0.6], [-0.4, 0.8]]), aniso_classes),
        "unequal blobs": wide,
        "swiss roll": (roll, np.digitize(along, np.quantile(along, [0.25, 0.5, 0.75]))),
        "one cloud": (rng.standard_normal((500, 6)), np.zeros(500, dtype=int)),
    }


def embedded():
    loaders = {"digits": datasets.load_digits, "wine": datasets.load_wine, "iris": datasets.load_iris}
    loaders["breast cancer"] = datasets.load_breast_cancer
    return {name: load(return_X_y=True) for name, load in loaders.items()}


def from_folder(folder, names=None):
    found = {}
    for path in sorted(Path(folder).glob("*.npz")):
        if names and path.stem not in {name.removesuffix("10k") for name in names}:
            continue
        with np.load(path) as file:
            X, y = file["X"], file["y"]
        if path.stem == "mnist":
            found["mnist10k"] = (X[:10_000].astype(float), y[:10_000])
        else:
            found[path.stem] = (X.astype(float), y)
    return found


def scores(y, labels):
    return {
        "acc": clustering_accuracy(y, labels),
        "nmi": normalized_mutual_information(y, labels),
        "ari": adjusted_rand_index(y, labels),
    }


def run(name, X, y, seed, share):
    """Return a record of what was chosen, what could have been, and what others find."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", DisconnectedGraphWarning)
    rng = np.random.default_rng(seed)
    if share < 1:
        rows = np.sort(rng.choice(len(X), int(share * len(X)), replace=False))
        X, y = X[rows], y[rows]
    n_clusters = len(np.unique(y))
    start = time.perf_counter()
    model = AdaAMClustering(n_clusters, random_state=seed).fit(X) if n_clusters > 1 else None
    seconds = time.perf_counter() - start
    rows, weights = ENGINE.distinct(X, 1.0)
    distinct = len(rows) == len(X)
    trials = []
    if model is not None and distinct and len(X) <= SEARCH_ROWS:
        # The same search again, with the labels of every trial at hand.
        for fitted in fitted_candidates(candidates(rows, weights, ENGINE), rows, weights, n_clusters, ENGINE):
            candidate = fitted.candidate
            for head in HEADS:
                if head == "k-means" and candidate.width:
                    continue
                labels = HEADS[head].labels(fitted.view, n_clusters, 10, seed)
                trials.append(
                    {"preparation": candidate.preparation, "metric": candidate.name, "head": head} | scores(y, labels)
                )
    record = {
        "set": name,
        "seed": seed,
        "share": share,
        "n": len(X),
        "d": X.shape[1],
        "c": n_clusters,
        "trials": trials,
    }
    if model is not None:
        best = model.selection_.best
        record["chosen"] = {
            "preparation": best.preparation,
            "metric": best.metric,
            "head": best.head,
            "seconds": seconds,
        }
        record["chosen"] |= scores(y, model.labels_)
        paper = AdaAMClustering(n_clusters, learner=AdaAM(n_clusters), head="k-means", random_state=seed)
        record["reference AdaAM + k-means"] = scores(y, paper.fit_predict(X))
        standard = StandardScaler().fit_transform(X)
        labels = ENGINE.kmeans(standard, n_clusters, 10, seed, 1.0).labels
        record["k-means, standardised"] = scores(y, labels)
    few = (rows, weights) if len(rows) <= SEARCH_ROWS else random_rows(rows, weights, SEARCH_ROWS, seed)
    count = counted_clusters(*few, ENGINE, seed)
    record["count"] = {"found": count.n_clusters, "low": count.low, "high": count.high}
    record["count"]["hdbscan"] = (
        int(HDBSCAN(min_cluster_size=max(5, len(X) // 200), copy=True).fit(X).labels_.max()) + 1
    )
    record["count"]["leiden"] = leiden_count(rows, weights, seed)
    return record


def leiden_count(rows, weights, seed):
    try:
        import igraph
        import leidenalg
    except ImportError:
        return None
    wanted = [candidate for candidate in candidates(rows, weights, ENGINE) if candidate.width == 0][:1]
    (fitted,) = fitted_candidates(wanted, rows, weights, 1, ENGINE)
    links = fitted.view.links.tocoo()
    upper = links.row < links.col
    graph = igraph.Graph(links.shape[0], np.c_[links.row[upper], links.col[upper]])
    found = leidenalg.find_partition(
        graph, leidenalg.ModularityVertexPartition, weights=links.data[upper].tolist(), seed=seed
    )
    return len(found)


def table(records):
    """Averages over seeds and shares, one row a set."""
    lines = [
        "| set | n | c | chosen | best candidate | reference AdaAM + k-means | k-means, standardised | "
        "chosen most often |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = []
    for name in dict.fromkeys(record["set"] for record in records):
        mine = [record for record in records if record["set"] == name and "chosen" in record]
        if not mine:
            continue
        tried = [record for record in mine if record["trials"]]
        best = 100 * np.mean([max(trial["acc"] for trial in record["trials"]) for record in tried]) if tried else np.nan
        picks = [f"{r['chosen']['head']}, {r['chosen']['metric']} ({r['chosen']['preparation']})" for r in mine]
        often = max(set(picks), key=picks.count)
        others = ("reference AdaAM + k-means", "k-means, standardised")
        chosen, *rest = (100 * np.mean([record[key]["acc"] for record in mine]) for key in ("chosen", *others))
        values = (chosen, best, *rest)
        rows.append(values)
        shown = " | ".join(f"{value:.1f}" for value in values)
        lines.append(
            f"| {name} | {mine[0]['n']} | {mine[0]['c']} | {shown} | {often} ({picks.count(often)} of {len(picks)}) |"
        )
    complete = [values for values in rows if not np.isnan(values).any()]
    means = " | ".join(f"**{value:.1f}**" for value in np.mean(complete, axis=0))
    lines.append(f"| **mean of the {len(complete)} complete sets** | | | {means} | |")
    lines += ["", "| set | c | found | range | HDBSCAN | Leiden |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(record["set"] for record in records):
        first = next(record for record in records if record["set"] == name)
        count = first["count"]
        found = f"{count['found']} | {count['low']} to {count['high']} | {count['hdbscan']} | {count['leiden']}"
        lines.append(f"| {name} | {first['c']} | {found} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder with the paper's sets")
    parser.add_argument("--more", help="folder with other .npz files")
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shares", type=float, nargs="*", default=[1.0, 0.7])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", default="benchmarks/selection/results")
    arguments = parser.parse_args()
    sets = embedded() | generated()
    sets |= from_folder(arguments.more) if arguments.more else {}
    sets |= from_folder(arguments.data, PAPER) if arguments.data else {}
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "selection.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(record["set"], record["seed"], record["share"]) for record in records}
    wanted = [
        (name, np.asarray(X, dtype=float), np.asarray(y), seed, share)
        for name, (X, y) in sets.items()
        for share in arguments.shares
        for seed in range(arguments.seeds)
        if (name, seed, share) not in done and (not arguments.sets or name in arguments.sets)
    ]
    wanted.sort(key=lambda case: -len(case[1]))  # the longest first, so that none is left over at the end
    with path.open("a") as stream:
        for record in Parallel(arguments.jobs, return_as="generator_unordered")(delayed(run)(*case) for case in wanted):
            records.append(record)
            stream.write(json.dumps(record) + "\n")
            stream.flush()
            print(record["set"], record["share"], record["seed"], record.get("chosen"), record["count"], flush=True)
    order = {name: place for place, name in enumerate(sets)}
    records.sort(key=lambda record: (order.get(record["set"], len(order)), -record["share"], record["seed"]))
    (out / "selection.md").write_text(table(records))
    print(table(records))


if __name__ == "__main__":
    main()
