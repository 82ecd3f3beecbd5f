# ruff: noqa: B023, E501 (each piece of work is run before the loop goes on; calls read better on one line)
"""Check and time the GPU engine on one device: ceilings, correctness, kernels, whole fits and the paper's protocol.

Run from the repository root: PYTHONPATH=src python benchmarks/gpu/run.py --data FOLDER [--stage check,kernels,...]
"""

import argparse
import cProfile
import io
import json
import os
import pstats
import statistics
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from scipy.linalg import eigh, subspace_angles
from sklearn.metrics import adjusted_rand_score

from adaam import AdaAM, AdaAMClustering
from adaam.engines import CPUEngine, FittedHeat, GPUEngine
from adaam.engines.blocks import coordinate_order
from adaam.engines.gpu import arrays as gpu_arrays
from adaam.engines.gpu import engine as gpu_engine
from adaam.engines.gpu import fused as gpu_fused
from adaam.engines.gpu import kmeans as gpu_kmeans
from adaam.engines.gpu import neighbors as gpu_neighbors
from adaam.engines.gpu import pruned as gpu_pruned
from adaam.engines.pruned.cut import Bracket, exact_cut
from adaam.scores import clustering_accuracy

warnings.simplefilter("ignore")
SETS = {"umist": None, "coil20": None, "exyaleb": None, "usps": None, "mnist": 10_000}
STAGES = ("ceilings", "check", "kernels", "mnist", "million", "table1", "peers")
CONFIGURATIONS = [
    (128, 64, 128, 8, 3),
    (128, 128, 128, 8, 2),
    (64, 64, 256, 8, 3),
    (64, 64, 128, 4, 3),
    (64, 64, 256, 4, 2),
    (128, 64, 256, 8, 2),
    (128, 64, 128, 8, 2),
    (128, 64, 128, 8, 4),
]


class Bench:
    """Clock, records and the table printed last."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.device = torch.device(arguments.device)
        self.cuda = self.device.type == "cuda"
        self.records = []
        self.ceilings = {}
        self.failed = []

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def seconds(self, work, repeats=7, warm=2):
        """Median seconds of a piece of work, warm-up excluded, and the spread between its repeats."""
        for _ in range(warm):
            work()
        times = []
        for _ in range(repeats):
            self.sync()
            start = time.perf_counter()
            work()
            self.sync()
            times.append(time.perf_counter() - start)
        return statistics.median(times), min(times), max(times)

    def record(self, stage, name, **numbers):
        entry = {"stage": stage, "name": name, **numbers}
        self.records.append(entry)
        shown = "  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in numbers.items())
        print(f"[{stage}] {name}: {shown}", flush=True)

    def expect(self, stage, name, passed, **numbers):
        self.record(stage, name, ok=bool(passed), **numbers)
        if not passed:
            self.failed.append(f"{stage}: {name}")

    def timed(self, stage, name, work, flops=0.0, rate="fp32", bytes_=0.0, repeats=7, **extra):
        """Time a piece of work and its floor: operations or bytes divided by the ceilings of this run."""
        middle, low, high = self.seconds(work, repeats)
        floors = [flops / self.ceilings[rate] if flops and rate in self.ceilings else 0.0]
        floors.append(bytes_ / self.ceilings["copy"] if bytes_ and "copy" in self.ceilings else 0.0)
        floor = max(floors)
        ratio = {"floor_s": floor, "over_floor": middle / floor} if floor else {}
        self.record(stage, name, seconds=middle, min_s=low, max_s=high, **ratio, **extra)
        return middle

    def peak(self):
        """Peak device memory since the last call, in MiB."""
        if not self.cuda:
            return 0.0
        peak = torch.cuda.max_memory_allocated(self.device) / 2**20
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)
        return peak

    def load(self, name, rows=None, dtype=np.float32):
        limit = self.arguments.rows
        rows = rows if limit is None else min(limit, rows or limit)
        with np.load(Path(self.arguments.data) / f"{name}.npz") as archive:
            return archive["X"][:rows].astype(dtype), archive["y"][:rows]

    def engine(self, **options):
        return GPUEngine(device=str(self.device), **options)


class TimedEngine:
    """Engine whose verbs, and those of its graphs, are timed one by one, with the device idle before and after each."""

    def __init__(self, engine, bench, spent=None, calls=None):
        self.engine, self.bench, self.shapes = engine, bench, []
        self.spent, self.calls = ({} if spent is None else spent), ({} if calls is None else calls)

    def __getattr__(self, name):
        value = getattr(self.engine, name)
        if not callable(value) or name.startswith("_"):
            return value

        def run(*args, **kwargs):
            self.bench.sync()
            start = time.perf_counter()
            out = value(*args, **kwargs)
            self.bench.sync()
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - start
            self.calls[name] = self.calls.get(name, 0) + 1
            if name == "project":
                self.shapes.append(tuple(out.shape))
            return (
                TimedEngine(out, self.bench, self.spent, self.calls) if name in ("neighbor_graph", "asgraph") else out
            )

        return run


def angle(A, B):
    return float(subspace_angles(np.asarray(A, np.float64).T, np.asarray(B, np.float64).T).max())


class PrunedExpectation:
    """X'WSWX and WSw from a dense float64 S, and how much entries within rounding of the threshold can change them.

    The cut is the magnitude of an entry, so some entries always lie within rounding of the threshold; which side of it they
    fall on is not an error. All others must be pruned or kept as in float64.
    """

    def __init__(self, P, w, X, threshold):
        P, X = P.double(), X.double()
        w = torch.ones(len(P), dtype=torch.float64, device=P.device) if w is None else w
        S = P @ P.T
        S.fill_diagonal_(0.0)
        lengths = torch.linalg.vector_norm(P, dim=1)
        # Entries are sums of products of 22-bit numbers in float32: off by no more than this.
        rounding = 2.0**-20 * lengths[:, None] * lengths
        kept = S.abs() >= threshold
        open_ = (S.abs() - threshold).abs() <= rounding
        open_.fill_diagonal_(False)
        self.undecided = float(open_.sum() / kept.sum())
        WX, S_kept, maybe = X * w[:, None], torch.where(kept, S, 0.0), torch.where(open_, S.abs(), 0.0)
        self.gram, self.degrees = WX.T @ S_kept @ WX, w * (S_kept @ w)
        # The rows are random and centred, so contributions of undecided entries to the Gram matrix add up like noise;
        # for the row sums the worst case is allowed.
        long = torch.linalg.vector_norm(WX, dim=1)
        self.gram_room, self.degrees_room = 4 * (maybe * long[:, None] * long).norm(), w * (maybe @ w)
        self.gram_room = float(self.gram_room / self.gram.norm())

    def errors(self, gram, degrees):
        """Return relative errors of the Gram matrix, and of the row sums beyond what undecided entries can explain."""
        beyond = ((degrees - self.degrees).abs() - self.degrees_room).clamp(min=0)
        return float((gram - self.gram).norm() / self.gram.norm()), float(beyond.norm() / self.degrees.norm())


def ceilings(bench):
    """Measure the rates that this device reaches on random numbers."""
    n = 8192 if bench.cuda else 512
    for name, dtype, tf32, size in (
        ("fp32", torch.float32, False, n),
        ("tf32", torch.float32, True, n),
        ("bf16", torch.bfloat16, False, n),
        ("fp16", torch.float16, False, n),
        ("fp64", torch.float64, False, n // 2),
    ):
        A = torch.randn(size, size, device=bench.device).to(dtype)
        B = torch.randn(size, size, device=bench.device).to(dtype)
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        middle, _, _ = bench.seconds(lambda A=A, B=B: A @ B)
        bench.ceilings[name] = 2.0 * size**3 / middle
        bench.record("ceilings", name, tflops=bench.ceilings[name] / 1e12)
    torch.set_float32_matmul_precision("highest")
    source = torch.randn((1 << 29) if bench.cuda else (1 << 22), device=bench.device)
    target = torch.empty_like(source)
    middle, _, _ = bench.seconds(lambda: target.copy_(source))
    bench.ceilings["copy"] = 2.0 * source.nbytes / middle
    bench.record("ceilings", "copy", tb_per_s=bench.ceilings["copy"] / 1e12)


def device_cut(pairs, t, diagonal):
    return exact_cut(gpu_pruned.DeviceEntries(pairs, diagonal), t) * pairs.unit


def kmeans_rounds(engine, Z, n_clusters, seeds, n_init=10):
    """Labels of the best of ten k-means++ runs for each seed, as many at once as memory allows."""
    place, ones = engine._place(), torch.ones(len(Z), dtype=torch.float64, device=Z.device)
    rows = Z[coordinate_order(Z)]
    together = max(1, engine.tile_bytes // (128 * n_init * len(Z)))
    for part in (seeds[first : first + together] for first in range(0, len(seeds), together)):
        centers, inertia = gpu_kmeans.kmeans_runs(place, rows, ones, n_clusters, n_init, part)
        best = inertia.view(-1, n_init).argmin(dim=1) + n_init * torch.arange(len(part), device=Z.device)
        for run in centers[best]:
            yield gpu_neighbors.nearest_known(place, Z, run, 1)[0][:, 0].cpu().numpy()


def check(bench):
    """Kernels against plain float64 tiles on fresh random rows, then five whole fits against the CPU engine."""
    place = gpu_arrays.Place(bench.device, 1 << 28)
    if gpu_fused.available(bench.device):
        for n, d, r, weighted in (
            (5000, 300, 10, False),
            (4093, 70, 20, True),
            (3000, 200, 38, False),
            (2500, 9, 1, True),
        ):
            torch.manual_seed(n)
            X = torch.randn(n, d, device=bench.device)
            X[:, : min(d, r)] *= 4.0
            P = torch.linalg.qr(X[:, :r].double() + X[:, -r:].double())[0].float()
            w = torch.randint(1, 5, (n,), device=bench.device).double() if weighted else None
            size = float(n if w is None else w.sum())
            diagonal = torch.ones(n, device=bench.device, dtype=torch.float64) if w is None else w**2
            fused = gpu_fused.fused_pairs(P, w)
            plain = gpu_pruned.TilePairs(P.double(), w, 2048)
            for share in (0.04, 0.004, 0.5):
                t = float(np.floor(size**2 * share))
                cut = device_cut(fused, t, diagonal)
                exact = device_cut(plain, t, diagonal)
                level = float(np.float32(cut / fused.unit))
                tally = gpu_pruned.DeviceEntries(fused, diagonal).tally(Bracket(level, level))
                again = device_cut(fused, t, diagonal)
                passed = tally.holds(t) and cut == again
                label = f"n={n} r={r} weighted={weighted} share={share}"
                bench.expect("check", f"cut is the t-th magnitude, {label}", passed and abs(cut - exact) < 1e-5 * exact,
                             relative_to_float64=abs(cut - exact) / exact)  # fmt: skip
                threshold = cut * (1 - 16 * 1.1920929e-07)
                _, kept = gpu_fused.row_sums(fused, threshold)
                unweighted = gpu_fused.fused_pairs(P, None)
                counted = unweighted.count(float(np.float32(threshold / fused.unit)), 3e38).inside / 2
                bench.expect(
                    "check", f"pruning keeps what counting counts, {label}", int(kept) == int(counted), kept=int(kept)
                )
                expected = PrunedExpectation(P, w, X, threshold)
                for shape in CONFIGURATIONS if (n, share) == (5000, 0.04) else CONFIGURATIONS[:1]:
                    try:
                        gram, degrees = gpu_fused.pruned_gram(fused, threshold, X, shape)
                    except Exception as error:
                        bench.record("check", f"configuration {shape} cannot run", reason=str(error)[:200])
                        continue
                    errors = expected.errors(gram, degrees)
                    # Ten times the largest errors measured over these cases on an H200.
                    passed = errors[0] < 4e-4 + expected.gram_room and errors[1] < 3e-6 and expected.undecided < 1e-3
                    bench.expect("check", f"pruned gram {shape}, {label}", passed, gram=errors[0], degrees=errors[1],
                                 undecided=expected.undecided)  # fmt: skip
        for n, d, k in ((20_001, 100, 13), (33_000, 330, 34), (17_000, 20, 5)):
            torch.manual_seed(n)
            X = torch.randn(n, 8, device=bench.device) @ torch.randn(8, d, device=bench.device)
            X += 0.3 * torch.randn(n, d, device=bench.device)
            X[7:19] = X[3]
            ids, distances, proven = gpu_neighbors._fused(place, X, k)
            ids64, distances64 = gpu_neighbors.neighbors(place, X.double(), k, fused=False)
            same = (ids == ids64).all(dim=1)
            error = float((distances - distances64).abs()[proven].max())
            bench.expect("check", f"fused neighbours n={n} d={d} k={k}", bool(same[proven].all()) and error < 1e-9,
                         proven=float(proven.float().mean()), distance_error=error)  # fmt: skip
            final, _ = gpu_neighbors.neighbors(place, X, k, fused=True)
            bench.expect(
                "check", f"neighbours after the open rows n={n}", bool((final == ids64).float().mean() > 0.9999)
            )
    for name, rows in SETS.items():
        X, y = bench.load(name, rows, np.float64)
        c = len(np.unique(y))
        # Pixels are integers, equal in both precisions, and the CPU engine computes in float64: one fit is enough.
        host = AdaAMClustering(c, learner=AdaAM(c, engine=CPUEngine())).fit(X)
        for dtype, limit in ((np.float64, 1e-6), (np.float32, 2e-2)):
            found = AdaAMClustering(c, learner=AdaAM(c, engine=bench.engine())).fit(
                torch.tensor(X.astype(dtype), device=bench.device)
            )
            off, ari = angle(host.components_, found.components_), adjusted_rand_score(host.labels_, found.labels_)
            bench.expect("check", f"{name} {np.dtype(dtype).name} fit = CPU fit", off < limit and ari >= 0.98,
                         angle=off, ari=float(ari), accuracy=float(clustering_accuracy(y, found.labels_)))  # fmt: skip
    if bench.cuda:
        X, y = bench.load("mnist")
        n_half = min(len(X), 40_000)  # enough rows for the tensor-core path, few enough for the CPU engine
        X, c = X[:n_half], 10
        start = time.perf_counter()
        host = AdaAM(c, engine=CPUEngine()).fit(X)
        cpu_seconds = time.perf_counter() - start
        found = AdaAM(c, engine=bench.engine()).fit(torch.tensor(X, device=bench.device))
        full = AdaAM(c, engine=bench.engine(precision="full")).fit(torch.tensor(X, device=bench.device))
        off, best = angle(host.components_, found.components_), angle(host.components_, full.components_)
        bench.expect("check", f"mnist {n_half} float32 fast fit = CPU fit", off < 2e-2 and best < 1e-4,
                     angle=off, angle_full=best, cpu_seconds=cpu_seconds)  # fmt: skip


def prepared(bench, X):
    """Return prepared rows and the two factors of a real fit, so that kernels are timed on realistic input."""
    caught = {}

    class Catcher(TimedEngine):
        def __getattr__(self, name):
            value = getattr(self.engine, name)
            if name not in ("neighbor_graph", "cut_laplacian"):
                return value

            def run(*args):
                caught.setdefault(name, []).append(args)
                return value(*args)

            return run

    AdaAM(10, engine=Catcher(bench.engine(), bench)).fit(X)
    return caught["neighbor_graph"][0][0], [args[:2] for args in caught["cut_laplacian"]]


def kernels(bench):
    """Time each kernel, and compare with its floor, on prepared MNIST rows."""
    X, _ = bench.load("mnist")
    n, d = X.shape
    device_rows = torch.tensor(X, device=bench.device)
    engine, place = bench.engine(), gpu_arrays.Place(bench.device, 1 << 28)
    zeros = np.zeros(d)
    rows = engine.asarray(gpu_arrays.DeviceRows(device_rows))
    bench.timed("kernels", "scatter (float64)", lambda: engine.scatter(rows, 1.0, zeros, 1.0), 2.0 * n * d * d, "fp64")
    bench.timed("kernels", "row_norms", lambda: engine.row_norms(rows), bytes_=4.0 * n * d)
    bench.timed("kernels", "distinct", lambda: engine.distinct(rows, 1.0), bytes_=4.0 * n * d)
    for size in (d, 330):
        A = np.random.default_rng(0).standard_normal((2 * size, size))
        A = A.T @ A
        on_device = torch.tensor(A, device=bench.device)
        bench.timed("kernels", f"eigh {size} on the host (evr)", lambda A=A: eigh(A), repeats=3)
        bench.timed("kernels", f"eigh {size} on the host (evd)", lambda A=A: eigh(A, driver="evd"), repeats=3)
        bench.timed("kernels", f"eigh {size} on the device", lambda A=on_device: torch.linalg.eigh(A), repeats=3)

    Z, cuts = prepared(bench, device_rows)
    Y, dz = Z.tensor, Z.shape[1]
    graph = engine.neighbor_graph(Z, 13, 1.0)
    heat = FittedHeat(graph.mean_distance(1.0), 1)
    half = graph.heat_half(heat, 1.0)
    bench.timed("kernels", "graph of 13 neighbours, ties shared", lambda: engine.neighbor_graph(Z, 13, 1.0))
    bench.timed("kernels", "its pieces", graph.piece_sizes)
    bench.timed("kernels", "its heat weights", lambda: graph.heat_half(heat, 1.0))
    bench.timed("kernels", "their degrees", half.degrees)
    bench.timed("kernels", "their Gram matrix", lambda: half.gram(Z))
    bench.record("kernels", "prepared rows", n=n, d=dz, dtype=str(Y.dtype))
    bench.timed("kernels", "cross X'X (float64)", lambda: engine.cross(Z, Z), 2.0 * n * dz * dz, "fp64")
    k = 15  # 13 neighbours and two more, as in a fit
    pairs_flops = 2.0 * n * n * dz
    bench.timed(
        "kernels",
        "neighbours, all",
        lambda: gpu_neighbors.neighbors(place, Y, k, fused=bench.cuda),
        pairs_flops,
        "fp16",
    )
    if not gpu_fused.available(bench.device):
        return
    if Y.dtype == torch.float32:
        ids, _, proven = gpu_neighbors._fused(place, Y, k)
        width = min(k + gpu_neighbors.SPARE, n - 1)
        near = torch.rand((n, gpu_neighbors.CAPACITY), device=bench.device)
        bench.timed("kernels", "neighbours, smallest of the candidates",
                    lambda: torch.topk(near, width + 1, dim=1, largest=False), bytes_=4.0 * near.numel())  # fmt: skip
        candidates = torch.cat([ids, ids[:, : width - k]], dim=1)
        everyone = torch.arange(n, device=bench.device)
        bench.timed("kernels", "neighbours, candidates measured",
                    lambda: gpu_neighbors._measured(place, Y, everyone, Y, candidates, k), bytes_=4.0 * candidates.numel() * dz)  # fmt: skip
        del near
        half, _ = gpu_fused.half_rows(Y, -(-n // 128) * 128, 64, 2.0**10)
        squares = torch.full((len(half),), torch.inf, device=bench.device)
        squares[:n] = half[:n].float().square().sum(dim=1)
        bench.timed("kernels", "neighbours, bounds from a sample", lambda: gpu_neighbors._bounds(place, half, squares, n, k),
                    pairs_flops / gpu_neighbors.SAMPLED_SHARE, "fp16", proven=float(proven.float().mean()))  # fmt: skip
    for stage, (P, t) in enumerate(cuts):
        factor = P.tensor.float()
        r = factor.shape[1]
        fused = gpu_fused.fused_pairs(factor, None)
        diagonal = torch.ones(n, device=bench.device, dtype=torch.float64)
        upper = n * n / 2.0
        K = fused.left.shape[1]
        cut = device_cut(fused, t, diagonal)
        threshold = cut * (1 - 16 * 1.1920929e-07)
        level = float(np.float32(cut / fused.unit))
        # Each entry needs its product on the tensor cores and at least one comparison on the CUDA cores.
        per_entry = {"flops": upper * 4.0, "rate": "fp32"}
        bench.timed("kernels", f"cut, stage {stage}", lambda f=fused, t=t: device_cut(f, t, diagonal), **per_entry, K=K)
        bench.timed("kernels", f"the guess of it, stage {stage}",
                    lambda f=fused, t=t: gpu_pruned.DeviceEntries(f, diagonal).guess(t))  # fmt: skip
        usual = gpu_pruned.MAX_COLLECTED, gpu_pruned.SAMPLED_PAIRS
        for collected, sampled in ((1 << 22, 1 << 22), (1 << 23, 1 << 22), (1 << 24, 1 << 20)):
            gpu_pruned.MAX_COLLECTED, gpu_pruned.SAMPLED_PAIRS = collected, sampled
            bench.timed("kernels", f"cut, {collected} collected, {sampled} sampled at most, stage {stage}",
                        lambda f=fused, t=t: device_cut(f, t, diagonal))  # fmt: skip
        gpu_pruned.MAX_COLLECTED, gpu_pruned.SAMPLED_PAIRS = usual
        bench.timed("kernels", f"count pass, stage {stage}", lambda f=fused: f.count(level, level), **per_entry)
        bench.timed(
            "kernels",
            f"bin pass, stage {stage}",
            lambda f=fused: f.count(level * 0.99, level * 1.01, binned=True),
            **per_entry,
        )
        bench.timed("kernels", f"collect pass, stage {stage}",
                    lambda f=fused: f.count(level * (1 - 1e-6), level * (1 + 1e-6), capacity=1 << 20), **per_entry)  # fmt: skip
        bench.timed("kernels", f"row sums, stage {stage}", lambda f=fused: gpu_fused.row_sums(f, threshold),
                    flops=2 * upper * 4.0, rate="fp32")  # fmt: skip
        for shape in CONFIGURATIONS:
            try:
                bench.timed("kernels", f"pruned gram {shape}, stage {stage}",
                            lambda f=fused, s=shape: gpu_fused.pruned_gram(f, threshold, Y.float(), s),
                            2.0 * upper * dz, "fp16", r=r)  # fmt: skip
            except Exception as error:
                bench.record("kernels", f"pruned gram {shape} cannot run", reason=str(error)[:200])
        plain = gpu_pruned.TilePairs(factor, None, 8192)
        bench.timed("kernels", f"pruned gram by plain float32 tiles, stage {stage}",
                    lambda p=plain: gpu_pruned.pruned_gram(p, threshold, Y.float()), 2.0 * upper * dz, "fp32", repeats=3)  # fmt: skip


def timed_fit(bench, stage, X, repeats):
    """Time whole fits with the rows on the device, median of several."""
    n, d = X.shape
    model = AdaAM(10, engine=bench.engine())
    bench.sync()
    start = time.perf_counter()
    model.fit(X)
    bench.sync()
    bench.record(stage, "first call, kernels compiled where they are new", first_s=time.perf_counter() - start)
    bench.seconds(lambda: model.fit(X), repeats=1)
    bench.peak()
    middle, low, high = bench.seconds(lambda: model.fit(X), repeats=repeats, warm=0)
    bench.record(stage, f"fit {n} x {d} float32", seconds=middle, min_s=low, max_s=high, peak_mib=bench.peak(),
                 rows_mib=X.nbytes / 2**20, n_neighbors=model.n_neighbors_)  # fmt: skip
    return model


def fit_by_verb(bench, stage, X):
    """Time each verb of one fit, with the device idle before and after it."""
    timed = TimedEngine(bench.engine(), bench)
    bench.sync()
    start = time.perf_counter()
    model = AdaAM(10, engine=timed).fit(X)
    bench.sync()
    total = time.perf_counter() - start
    spent = dict(sorted(timed.spent.items(), key=lambda pair: -pair[1]))
    bench.record(stage, "of which by verb", **spent, rest_on_host=total - sum(spent.values()), total=total,
                 projected=str(timed.shapes), calls=str(timed.calls))  # fmt: skip
    return model, total


def crossings(bench, X):
    """Count the copies between host and device in one fit, and the waits of the host that PyTorch reports."""
    if not bench.cuda:
        return
    engine = bench.engine()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            AdaAM(10, engine=engine).fit(X)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = sum("synchroniz" in str(one.message).lower() for one in told)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        AdaAM(10, engine=engine).fit(X)
        bench.sync()
    times = {}
    for event in profile.key_averages():
        spent = getattr(event, "self_device_time_total", 0.0) or getattr(event, "self_cuda_time_total", 0.0)
        if spent > 0:
            times[event.key] = (spent * 1e-6, event.count)
    copies = {key: count for key, (_, count) in times.items() if "Memcpy" in key}
    on_device = {key: pair for key, pair in times.items() if not key.startswith("aten::")}
    bench.record("mnist", "waits and copies of one fit", waits=waits, copies=str(copies),
                 device_busy=sum(seconds for seconds, _ in on_device.values()))  # fmt: skip
    for key, (seconds, count) in sorted(on_device.items(), key=lambda item: -item[1][0])[:25]:
        print(f"    {seconds * 1e3:8.3f} ms  {count:5d} x  {key[:110]}", flush=True)


def eigenproblems(bench, X):
    """Time fits with eigenproblems below a given size solved on the host, the others on the device."""
    usual = gpu_engine.DEVICE_EIGH_SIZE
    model = AdaAM(10, engine=bench.engine())
    for size in (usual, 512, 4096):
        gpu_engine.DEVICE_EIGH_SIZE = size
        middle, low, high = bench.seconds(lambda: model.fit(X), repeats=7, warm=1)
        bench.record("mnist", f"fit, eigenproblems below {size} on the host", seconds=middle, min_s=low, max_s=high)
    gpu_engine.DEVICE_EIGH_SIZE = usual


def host_profile(bench, X):
    """Print the host functions of one fit, by cumulative time."""
    profile = cProfile.Profile()
    profile.enable()
    AdaAM(10, engine=bench.engine()).fit(X)
    profile.disable()
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(
        "adaam/(graph|prepare|linalg|affinity|sample|projection|estimators|engines)|eigh", 40
    )
    print(text.getvalue()[-6500:], flush=True)


def mnist(bench):
    X, y = bench.load("mnist")
    X = torch.tensor(X, device=bench.device)
    model = timed_fit(bench, "mnist", X, 11)
    fit_by_verb(bench, "mnist", X)
    host_profile(bench, X)
    try:
        crossings(bench, X)
    except Exception as error:  # a profiler that cannot run here must not prevent the timing
        bench.record("mnist", "waits and copies cannot be counted", reason=str(error)[:200])
    eigenproblems(bench, X)
    middle, low, high = bench.seconds(lambda: model.fit(X), repeats=15, warm=2)
    bench.record("mnist", "fit, a second loop", seconds=middle, min_s=low, max_s=high)
    Z = model.transform(X)
    bench.timed("mnist", "transform", lambda: model.transform(X), bytes_=4.0 * X.numel())
    engine = bench.engine()
    clusters = engine.kmeans(gpu_arrays.DeviceRows(Z), 10, 10, 0, 1.0)
    bench.timed("mnist", "k-means, 10 starts", lambda: engine.kmeans(gpu_arrays.DeviceRows(Z), 10, 10, 0, 1.0), repeats=3,
                accuracy=float(clustering_accuracy(y, clusters.labels)))  # fmt: skip


def million(bench):
    """Noisy copies of MNIST made on the device: 1,000,000 rows, or --million of them."""
    base = torch.tensor(bench.load("mnist")[0], device=bench.device)
    n = bench.arguments.million
    source = torch.Generator(device=bench.device).manual_seed(0)
    X = torch.empty((n, base.shape[1]), device=bench.device)
    for start in range(0, n, len(base)):
        part = X[start : start + len(base)]
        part.copy_(base[: len(part)])
        part.add_(torch.randn(part.shape, generator=source, device=bench.device), alpha=bench.arguments.noise)
    del base
    # Kernels are compiled on fewer rows; the large fit then runs once. Its verbs end on the host anyway, so timing each
    # of them adds no noticeable time.
    AdaAM(10, engine=bench.engine()).fit(X[: min(n, 100_000)])
    bench.peak()
    model, total = fit_by_verb(bench, "million", X)
    bench.record("million", f"fit {n} x {X.shape[1]} float32", seconds=total, peak_mib=bench.peak(),
                 rows_mib=X.nbytes / 2**20, n_neighbors=model.n_neighbors_)  # fmt: skip


def table1(bench):
    """Five sets: one deterministic fit each, then 100 rounds, each the best of 10 k-means++ runs, scored by round."""
    total = 0.0
    for name, rows in SETS.items():
        X, y = bench.load(name, rows, np.float64)
        c = len(np.unique(y))
        on_device = torch.tensor(X, device=bench.device)
        engine = bench.engine()
        AdaAM(c, engine=engine).fit(on_device[: max(200, len(X) // 4)])  # libraries are loaded before the clock starts
        bench.sync()
        start = time.perf_counter()
        Z = gpu_arrays.DeviceRows(AdaAM(c, engine=engine).fit(on_device).transform(on_device))
        bench.sync()
        fitted = time.perf_counter()
        rounds = kmeans_rounds(engine, Z.tensor, c, range(bench.arguments.rounds))
        accuracies = [float(clustering_accuracy(y, labels)) for labels in rounds]
        bench.sync()
        done = time.perf_counter()
        total += done - start
        bench.record("table1", name, average=100 * statistics.mean(accuracies), maximum=100 * max(accuracies),
                     fit_s=fitted - start, rounds_s=done - fitted, rounds=len(accuracies))  # fmt: skip
    bench.record("table1", "all five sets", seconds=total)


def peers(bench):
    """Plain torch: brute-force k-NN by float32 products and topk, and one k-means start after the other."""
    X, _ = bench.load("mnist")
    engine = bench.engine()
    rows = torch.tensor(X, device=bench.device)
    Y = prepared(bench, rows)[0].tensor.float()
    n, place = len(Y), gpu_arrays.Place(bench.device, 1 << 28)

    def plain_knn(Y=Y, k=14):
        squares = Y.square().sum(dim=1)
        found = []
        for start in range(0, len(Y), 8192):
            near = torch.addmm(squares, Y[start : start + 8192], Y.T, alpha=-2.0)
            found.append(torch.topk(near, k + 1, largest=False).indices)
        return torch.cat(found)

    flops = 2.0 * n * n * Y.shape[1]
    bench.peak()
    bench.timed("peers", f"plain torch k-NN, float32, n={n}", plain_knn, flops, "fp32", repeats=3)
    bench.record("peers", "its memory", peak_mib=bench.peak())
    torch.set_float32_matmul_precision("high")
    bench.timed("peers", f"plain torch k-NN, tf32 (not exact), n={n}", plain_knn, flops, "tf32", repeats=3)
    torch.set_float32_matmul_precision("highest")
    bench.peak()
    bench.timed(
        "peers",
        f"adaam k-NN, n={n}",
        lambda: gpu_neighbors.neighbors(place, Y, 14, fused=bench.cuda),
        flops,
        "fp16",
        repeats=3,
    )
    bench.record("peers", "its memory", peak_mib=bench.peak())

    Z = Y[:, :10].contiguous()

    def plain_kmeans(n_init=10, c=10):
        best = np.inf
        for seed in range(n_init):
            torch.manual_seed(seed)
            centers = Z[torch.randperm(n, device=Z.device)[:c]]
            old = None
            for _ in range(300):
                labels = torch.cdist(Z, centers).argmin(dim=1)
                if old is not None and torch.equal(labels, old):
                    break
                old = labels
                sums = torch.zeros_like(centers).index_add_(0, labels, Z)
                centers = sums / torch.bincount(labels, minlength=c)[:, None].clamp(min=1)
            best = min(best, float((Z - centers[labels]).square().sum()))
        return best

    bench.timed("peers", f"plain torch k-means (random starts), 10 starts one by one, n={n}", plain_kmeans, repeats=3,
                inertia=plain_kmeans())  # fmt: skip
    bench.timed("peers", f"adaam k-means (k-means++), 10 starts as a batch, n={n}",
                lambda: engine.kmeans(gpu_arrays.DeviceRows(Z), 10, 10, 0, 1.0), repeats=3,
                inertia=engine.kmeans(gpu_arrays.DeviceRows(Z), 10, 10, 0, 1.0).inertia)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the .npz files")
    parser.add_argument("--stage", default=",".join(STAGES), help=f"some of {','.join(STAGES)}")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rows", type=int, help="use no more rows of a set, for a dry run")
    parser.add_argument("--million", type=int, default=1_000_000, help="rows of the large fit")
    parser.add_argument("--noise", type=float, default=4.0, help="deviation of its noise, pixels being 0 to 255")
    parser.add_argument("--rounds", type=int, default=100)
    bench = Bench(parser.parse_args())
    wanted = bench.arguments.stage.split(",")
    unknown = set(wanted) - set(STAGES)
    if unknown:
        parser.error(f"--stage: unknown {sorted(unknown)}")
    versions = {"torch": torch.__version__, "python": sys.version.split()[0], "numpy": np.__version__}
    if bench.cuda:
        versions["device"] = torch.cuda.get_device_name(bench.device)
    print(versions, flush=True)
    if "ceilings" not in wanted and {"kernels", "peers", "mnist"} & set(wanted):
        wanted = ["ceilings", *wanted]
    out = Path(os.environ.get("OUT", ".")) / "gpu.json"
    for stage in wanted:
        start = time.perf_counter()
        try:
            globals()[stage](bench)
        except Exception:
            bench.failed.append(f"{stage}: raised")
            bench.record(stage, "raised", error=traceback.format_exc())
        bench.peak()
        bench.record(stage, "whole stage", seconds=time.perf_counter() - start)
        out.write_text(
            json.dumps({"versions": versions, "ceilings": bench.ceilings, "records": bench.records}, indent=1)
        )

    print("\nseconds    over floor  stage      what")
    for entry in bench.records:
        if "seconds" in entry:
            over = f"{entry['over_floor']:8.2f}" if "over_floor" in entry else " " * 8
            print(f"{entry['seconds']:9.4f}  {over}    {entry['stage']:<9}  {entry['name']}")
    print("FAILED: " + "; ".join(bench.failed) if bench.failed else "all checks passed")
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
