"""Roofline: time of each kernel of a fit, divided by the time of the bare product or copy that it cannot avoid.

    ADAAM_DATA=FOLDER python benchmarks/kernels.py [--sizes 10000 20000 40000 70000] [--repeats 5] [--kernels numba]

Kernels get their arguments from a fit of AdaAM(10) on the first n rows of MNIST. A kernel and its bare product are
timed alternately, on the same threads, after a warm-up; the minimum over the repeats counts. Records go to
results/kernels.json and the table to results/kernels.md; records of sizes and kernels that were not run are kept.
"""

import argparse
import json
import os
import platform
import time
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from adaam import AdaAM
from adaam.engines import CPUEngine
from adaam.engines.blocks import blas_threads

RESULTS = Path(__file__).parent / "results"
STRIP_ROWS = 1000  # rows per strip of the bare n x n products, which do not fit into memory as a whole


class Recording(CPUEngine):
    """CPU engine that records the arguments of its calls in a fit."""

    asked: ClassVar[dict] = {}

    def neighbor_graph(self, X, n_neighbors, weights):
        self.asked["neighbors"] = (X, n_neighbors)
        return super().neighbor_graph(X, n_neighbors, weights)

    def cut_laplacian(self, P, t, X, weights, diagonal, half):
        self.asked.setdefault("passes", []).append((P, t, X, weights, diagonal))
        return super().cut_laplacian(P, t, X, weights, diagonal, half)


def all_products(A):
    """Return a function that computes AA' in float32 for all pairs, both triangles."""
    narrow = A.astype(np.float32)
    turned = np.ascontiguousarray(narrow.T)
    strip = np.zeros((min(STRIP_ROWS, len(A)), len(A)), np.float32)

    def run():
        for start in range(0, len(A), STRIP_ROWS):
            rows = narrow[start : start + STRIP_ROWS]
            np.matmul(rows, turned, out=strip[: len(rows)])

    return run


def cases(X, engine):
    """Yield the name of a kernel, a call of it, the name of the bare operation, and a call of that."""
    Recording.asked.clear()
    recording = Recording(kernels=engine.kernels)
    model = AdaAM(10, engine=recording, pairs="all").fit(X)
    asked = Recording.asked
    scale, mean = 1.0 / np.linalg.norm(X, axis=1), X.mean(axis=0)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1], asked["passes"][0][2].shape[1])))[0].T
    room = np.empty_like(X)
    for name, (P, t, Z, weights, diagonal) in zip(("intermediate", "final"), asked["passes"], strict=True):
        cut = engine.cut_laplacian(P, t, Z, weights, diagonal)[0]
        given = {
            "cut and pruned pass in one": (engine.cut_laplacian, (P, t, Z, weights, diagonal, None)),
            "pruned pass": (partial(engine.cut_laplacian, cut=cut), (P, t, Z, weights, diagonal, None)),
        }
        for kernel, (verb, values) in given.items():
            yield f"{kernel}, {name}", partial(verb, *values), "PP' in float32", all_products(P)
    Z, k = asked["neighbors"]
    yield "neighbours", lambda: engine.neighbor_graph(Z, k, 1.0), "ZZ' in float32", all_products(Z)
    yield "scatter matrix", lambda: engine.scatter(X, scale, mean, 1.0), "X'X in float64", lambda: X.T @ X
    yield "preparation of rows", lambda: engine.project(X, scale, mean, basis), "XB in float64", lambda: X @ basis.T
    yield "transform", lambda: model.transform(X), "XC in float64", lambda: X @ model.components_.T
    yield "equal rows", lambda: engine.distinct(X, 1.0), "copy of X", lambda: np.copyto(room, X)
    yield "row lengths", lambda: engine.row_norms(X), "copy of X", lambda: np.copyto(room, X)


def seconds(work):
    start, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - used


def measured(X, engine, repeats):
    for name, work, bare_name, bare in cases(X, engine):
        work(), bare()
        turns = [(seconds(work), seconds(bare)) for _ in range(repeats)]
        (wall, cpu), (bare_wall, bare_cpu) = (np.min([turn[side] for turn in turns], axis=0) for side in (0, 1))
        yield {
            "n": len(X),
            "kernels": engine.kernels,
            "kernel": name,
            "bare": bare_name,
            "seconds": round(float(wall), 4),
            "bare_seconds": round(float(bare_wall), 4),
            "ratio": round(float(wall / bare_wall), 2),
            "cpu_ratio": round(float(cpu / bare_cpu), 2),
            "threads": blas_threads(),
        }


def table(records):
    sizes = sorted({record["n"] for record in records})
    by_key = {(r["kernels"], r["kernel"], r["n"]): r for r in records}
    rows = list(dict.fromkeys((r["kernels"], r["kernel"], r["bare"]) for r in records))
    lines = [
        "Seconds of each kernel (in brackets: over the bare product or copy, in the same run); MNIST, first n rows.",
        "",
        "| kernels | kernel | bare | " + " | ".join(f"n = {n:,}" for n in sizes) + " |",
        "|---|---|---|" + "---|" * len(sizes),
    ]
    for kernels, kernel, bare in rows:
        found = [by_key.get((kernels, kernel, n)) for n in sizes]
        cells = ["–" if r is None else f"{r['seconds']:.3f} ({r['ratio']:.1f}×)" for r in found]
        lines.append(f"| {kernels} | {kernel} | {bare} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 20_000, 40_000, 70_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kernels", nargs="+", default=["numba", "numpy"])
    parser.add_argument("--numpy-limit", type=int, default=20_000, help="largest size for the kernels of NumPy")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with np.load(Path(os.environ["ADAAM_DATA"]) / "mnist.npz") as archive:
        rows = archive["X"][: max(arguments.sizes)]
    target = arguments.output / "kernels.json"
    before = json.loads(target.read_text())["records"] if target.exists() else []
    records = []
    for n in arguments.sizes:
        X = rows[:n].astype(np.float64)
        for kernels in arguments.kernels:
            if kernels == "numpy" and n > arguments.numpy_limit:
                continue
            for record in measured(X, CPUEngine(kernels=kernels), arguments.repeats):
                records.append(record)
                print(record, flush=True)
    fresh = {(record["n"], record["kernels"]) for record in records}
    records = sorted(
        [record for record in before if (record["n"], record["kernels"]) not in fresh] + records,
        key=lambda record: (record["kernels"], record["n"]),
    )
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    target.write_text(json.dumps({"machine": machine, "records": records}, indent=1) + "\n")
    (arguments.output / "kernels.md").write_text(table(records))
    print(table(records))


if __name__ == "__main__":
    main()
