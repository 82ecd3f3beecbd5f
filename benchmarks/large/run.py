"""The linear-cost fit: deviation from the fit on all pairs, cost, and rows that do not fit in memory.

    ADAAM_DATA=FOLDER python benchmarks/large/run.py STAGE [STAGE ...] [--cache FOLDER]

Stages: variants (MNIST first 20,000, variants compared), mnist (70,000 rows: angles and accuracy), sets (USPS, COIL20),
times (MNIST 70,000, all pairs and row blocks one after the other), million (time and memory from 100,000 to 1,000,000
rows), stored (a 12 GB file under a limit of 3 GB), all. Each prints a table and writes results/STAGE.json. Exact maps
are cached with the seconds they took, so seconds of `mnist` and `sets` may come from different days.

Angles are principal angles in degrees between mapped rows (all of the set), ascending. Labels are only for scoring.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import variants
from scipy.linalg import subspace_angles
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from adaam import AdaAM, CPUEngine, RowBlocks, plan
from adaam.prepare import Preparation, fit_preparation
from adaam.rows import map_to_file, open_rows
from adaam.scores import clustering_accuracy

RESULTS = Path(__file__).parent / "results"
ENGINE = CPUEngine()
N_SEEDS = 10

# Rows per block, blocks and neighbours of a fit on few rows of MNIST. The neighbours are log2(6,000 / 10), by the rows
# of a block: these are farther apart than all rows, so fewer neighbours reach as far.
FEW_ROWS = (6_000, 4, 9)


def load(name, rows=None):
    with np.load(Path(os.environ["ADAAM_DATA"]) / f"{name}.npz") as archive:
        X, y = archive["X"][:rows].astype(np.float64), archive["y"][:rows]
    return X, y, len(np.unique(y))


def angles(A, B):
    return np.sort(np.degrees(subspace_angles(A, B)))


def accuracy(Z, y, c, n_seeds=N_SEEDS):
    """Return the accuracy (%) for each seed, best of 10 starts; on one thread, which other load slows least."""
    with threadpool_limits(1):
        labels = [KMeans(c, n_init=10, random_state=seed).fit_predict(Z) for seed in range(n_seeds)]
    return [100 * clustering_accuracy(y, found) for found in labels]


def show(name, found, more=""):
    print(f"{name:40} " + " ".join(f"{a:5.1f}" for a in found), more, flush=True)


def write(stage, records):
    RESULTS.mkdir(exist_ok=True)
    machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    (RESULTS / f"{stage}.json").write_text(json.dumps({"machine": machine, "records": records}, indent=1) + "\n")


def halves(n, seed):
    return np.array_split(np.random.default_rng(seed).permutation(n), 2)


def exact_map(cache, name, X, c, rows=None):
    """Return X mapped by the exact fit on all or some of its rows, and the seconds of the fit; both are cached."""
    path = cache / f"{name}.npz"
    if not path.exists():
        start = time.perf_counter()
        model = AdaAM(c, pairs="all").fit(X if rows is None else X[rows])
        seconds = time.perf_counter() - start
        np.savez(path, Z=model.transform(X), seconds=seconds)
    with np.load(path) as kept:
        return kept["Z"], float(kept["seconds"])


def mnist(cache, n_rows=70_000):
    compare("mnist", *load("mnist", n_rows), cache, [FEW_ROWS, (5_000, None, None)], range(3))


def times(cache, repeats=5):
    """Time fits of MNIST on all pairs and from row blocks alternately; processor time too, for busy machines."""
    X, _, c = load("mnist")
    n_rows, n_blocks, k = FEW_ROWS
    forms = {
        "all pairs": AdaAM(c, pairs="all"),
        "row blocks, all rows": AdaAM(c, pairs=RowBlocks()),
        f"{n_blocks} row blocks of {n_rows}": AdaAM(c, n_neighbors=k, pairs=RowBlocks(n_rows, n_blocks)),
    }
    for model in forms.values():
        model.fit(X[:30_000])
    taken = {name: [] for name in forms}
    for _ in range(repeats):
        for name, model in forms.items():
            wall, processor = time.perf_counter(), time.process_time()
            model.fit(X)
            taken[name].append((time.perf_counter() - wall, time.process_time() - processor))
    medians = {name: np.median(turns, axis=0) for name, turns in taken.items()}
    records = []
    for name, (wall, processor) in medians.items():
        faster = medians["all pairs"][0] / wall
        print(f"{name:24} {wall:6.2f} s  {processor:6.2f} s of processor time  {faster:5.2f} x", flush=True)
        record = {"pairs": name, "seconds": wall, "processor_seconds": processor, "times_faster": faster}
        records.append(record | {"all_seconds": [turn[0] for turn in taken[name]]})
    write("times", records)


def sets(cache):
    for name, forms in {
        "usps": [(2500, None, None), (1000, None, None)],
        "coil20": [(720, None, None), (360, None, None)],
    }.items():
        compare(name, *load(name), cache, forms, range(3))


def compare(name, X, y, c, cache, forms, seeds):
    """Compare fits from row blocks with the exact fit, and with exact fits of two halves."""
    records = []

    def record(kind, found, Z, seconds, **more):
        scores = accuracy(Z, y, c)
        records.append(
            {"set": name, "kind": kind, "angles": list(found), "accuracy": scores, "seconds": seconds} | more
        )
        show(f"{name} {kind}", found, f"accuracy {np.mean(scores):.1f} ± {np.std(scores):.1f}  {seconds:.1f} s")
        write(name, records)

    exact, seconds = exact_map(cache, f"{name}-{len(X)}", X, c)
    record("exact", np.zeros(c), exact, seconds)
    for n_rows, n_blocks, k in forms:
        for seed in seeds:
            start = time.perf_counter()
            model = AdaAM(c, n_neighbors=k, pairs=RowBlocks(n_rows, n_blocks, random_state=seed)).fit(X)
            seconds = time.perf_counter() - start
            Z = model.transform(X)
            kind = f"{model.pairs_.n_blocks} blocks of {n_rows} (seed {seed})"
            told = list(model.stability_.angles)
            record(kind, angles(Z, exact), Z, seconds, stability=told)
            show(f"{'':{len(name)}} its stability_", told)
        if n_blocks is not None:
            continue
        kind = f"one sample of {n_rows}"
        start = time.perf_counter()
        Z = AdaAM(c, pairs=RowBlocks(n_rows, 1)).fit(X).transform(X)
        record(kind, angles(Z, exact), Z, time.perf_counter() - start)
    for seed in seeds:
        parts = [exact_map(cache, f"{name}-{len(X)}-{seed}-{i}", X, c, r) for i, r in enumerate(halves(len(X), seed))]
        between = angles(parts[0][0], parts[1][0])
        record(f"exact half 1, angles to half 2 (seed {seed})", between, parts[0][0], parts[0][1])
        record(f"exact half 2, angles to exact (seed {seed})", angles(parts[1][0], exact), parts[1][0], parts[1][1])


def variants_stage(cache, n=20_000, heights=(5_000, 2_500)):
    """Compare variants of the linear-cost fit on the first rows of MNIST."""
    X, _, c = load("mnist", n)
    X = fit_preparation(X, np.ones(n), Preparation(), ENGINE).apply(X, ENGINE)
    k = round(np.log2(n / c))
    everything = [np.arange(n)]
    heat = variants.heat_of(X, everything, k)
    exact = variants.fit(X, c, everything, k, variants.Variant(heat=heat))
    records = []

    def record(kind, A, against=exact):
        found = angles(X @ A, X @ against)
        records.append({"kind": kind, "angles": list(found)})
        show(kind, found)
        write("variants", records)

    for seed in range(2):
        first, second = (variants.fit(X, c, [rows], round(np.log2(n / 2 / c))) for rows in halves(n, seed))
        record(f"exact half to half (seed {seed})", first, second)
    for height in heights:
        blocks = np.array_split(np.random.default_rng(0).permutation(n), n // height)
        own_k = round(np.log2(height / c))
        near = variants.heat_of(X, blocks, k)
        name = f"{len(blocks)} blocks of {height}"
        record(f"one sample of {height}", variants.fit(X, c, blocks[:1], own_k))
        record(name, variants.fit(X, c, blocks, k, variants.Variant(heat=near)))
        record(f"{name}, k = log2(b/c)", variants.fit(X, c, blocks, own_k))
        record(f"{name}, common cut", variants.fit(X, c, blocks, k, variants.Variant(common_cut=True, heat=near)))
        record(
            f"{name}, diagonal scaled", variants.fit(X, c, blocks, k, variants.Variant(diagonal="scaled", heat=near))
        )
        for weight in (0.3, 1.0):
            record(
                f"{name}, control variate x {weight}",
                variants.fit(X, c, blocks, k, variants.Variant(control=weight, heat=near)),
            )
        record(f"{name}, graph of all rows", variants.fit(X, c, blocks, k, variants.Variant(heat=heat)))
        some = blocks[: len(blocks) // 2]
        record(f"half of the {name}", variants.fit(X, c, some, k))
        gram = X.T @ X * (len(some) / len(blocks))
        record(f"half of the {name}, X'X of all rows", variants.fit(X, c, some, k, variants.Variant(gram=gram)))


def blobs(n, d, c, rng, dtype=np.float64):
    """Return rows around c centres, which span c - 1 dimensions, with noise in all dimensions."""
    centres = rng.standard_normal((c, d)) * 1.5
    return (centres[rng.integers(c, size=n)] + rng.standard_normal((n, d)) * 1.0).astype(dtype)


def million(cache):
    """Time and memory of a fit in memory, from 100,000 to a million rows of 100 features, each in a fresh process."""
    records = []
    for n in (100_000, 300_000, 1_000_000):
        print(plan(n, 100, 10, pairs=RowBlocks()))
        records.append(child("million-one", str(n)))
        print(f"{n:9} rows  {records[-1]['seconds']:8.1f} s  peak {records[-1]['peak_gb']:.2f} GB", flush=True)
    growth = np.polyfit(np.log([r["n"] for r in records]), np.log([r["seconds"] for r in records]), 1)[0]
    print(f"growth exponent of time {growth:.2f}")
    write("million", [*records, {"growth_exponent": growth}])


def million_one(n):
    X = blobs(int(n), 100, 10, np.random.default_rng(0))
    start = time.perf_counter()
    model = AdaAM(10, pairs=RowBlocks()).fit(X)
    seconds = time.perf_counter() - start
    return {"n": int(n), "seconds": seconds, "stability": list(model.stability_.angles)}


def stored(cache, gigabytes=12.0, limit_gb=3.0, d=256, n_rows=5_000):
    """Write a .npy file of float32 rows, then fit and map it in a process whose memory is limited."""
    n = int(gigabytes * 1e9 / (4 * d))
    path, out = cache / "stored.npy", cache / "stored-mapped.npy"
    try:
        rng = np.random.default_rng(0)
        centres = (rng.standard_normal((10, d)) * 0.3).astype(np.float32)
        file = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
        noise = rng.standard_normal((50_000, d), dtype=np.float32)
        for start in range(0, n, len(noise)):
            height = min(len(noise), n - start)
            # The same noise, scaled differently in each block: no two rows are equal, and drawing takes no time.
            rows = noise[:height] * np.float32(1.0 + start / n)
            file[start : start + height] = rows + centres[rng.integers(10, size=height)]
        del file
        print(plan(n, d, 10, pairs=RowBlocks(n_rows), itemsize=4, stored=True))
        record = child("stored-one", str(path), str(out), str(limit_gb), str(n_rows))
    finally:
        path.unlink(missing_ok=True)
        out.unlink(missing_ok=True)
    print(
        f"{record['file_gb']:.1f} GB: fit {record['fit_seconds']:.0f} s, map {record['map_seconds']:.0f} s, "
        f"peak resident {record['peak_gb']:.2f} GB of which own {record['peak_own_gb']:.2f} GB, limit {limit_gb} GB"
    )
    write("stored", [record])


def status_gb(field):
    """Return a field of /proc/self/status, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024 / 1e9


def stored_one(path, out, limit_gb, n_rows):
    """Fit and map under RLIMIT_DATA.

    RLIMIT_DATA bounds what the process owns: heap and private writable maps, so every NumPy array, thread stacks and
    BLAS buffers. (RLIMIT_AS would count address space that is never touched, and file maps.) Pages of the file are not
    in it, so the resident set, which counts them, is watched as well.
    """
    limit = int(float(limit_gb) * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    peak_own = [0.0]
    done = threading.Event()

    def watch():
        while not done.wait(0.05):
            peak_own[0] = max(peak_own[0], status_gb("RssAnon"))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    rows = open_rows(path)
    start = time.perf_counter()
    model = AdaAM(10, pairs=RowBlocks(int(n_rows)), verbose=1).fit(rows)
    middle = time.perf_counter()
    n_rows = map_to_file(model, rows, out)
    end = time.perf_counter()
    done.set()
    watcher.join()
    return {
        "file_gb": Path(path).stat().st_size / 1e9,
        "n_rows": n_rows,
        "n_features": rows.n_features,
        "rows_used": model.plan_.n_used,
        "n_blocks": model.plan_.n_blocks,
        "block_rows": model.plan_.block_rows,
        "fit_seconds": middle - start,
        "map_seconds": end - middle,
        "peak_own_gb": peak_own[0],
        "limit_gb": float(limit_gb),
        "stability": list(model.stability_.angles),
    }


def child(*arguments):
    """Run one measurement in a process of its own; its last line is the record."""
    command = [sys.executable, __file__, "--child", *arguments]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[-1])


CHILDREN = {"million-one": million_one, "stored-one": stored_one}
STAGES = {
    "variants": variants_stage,
    "mnist": mnist,
    "sets": sets,
    "times": times,
    "million": million,
    "stored": stored,
}


def main():
    if sys.argv[1:2] == ["--child"]:
        record = CHILDREN[sys.argv[2]](*sys.argv[3:])
        record["peak_gb"] = status_gb("VmHWM")  # ru_maxrss would include the parent's memory at the fork
        print(json.dumps(record))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("stages", nargs="+", choices=[*STAGES, "all"])
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "adaam-large")
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name in STAGES if "all" in arguments.stages else arguments.stages:
        STAGES[name](arguments.cache)


if __name__ == "__main__":
    main()
