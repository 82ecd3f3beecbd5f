"""Measure row blocks on a cluster: overhead, growth with n, and other libraries on the same rows.

Run from the repository root:

    PYTHONPATH=src python benchmarks/cluster/run.py --data FOLDER [--stage overhead,growth,peers]

FOLDER holds mnist.npz (X, y). Results go to benchmarks/cluster/results/, the chart to docs/images/cluster_growth.png.
"""

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import time
import traceback
import warnings
from datetime import date
from pathlib import Path

import numpy as np
from scipy.linalg import subspace_angles

HERE = Path(__file__).parent
RESULTS = HERE / "results"
CHART = HERE.parent.parent / "docs" / "images" / "cluster_growth.png"
STAGES = ("overhead", "growth", "peers")
PEER_SECONDS = 1800
warnings.simplefilter("ignore")


def rows_of(arguments, n):
    with np.load(Path(arguments.data) / "mnist.npz") as archive:
        return archive["X"][:n].astype(np.float64), archive["y"][:n]


def start(n_workers, memory="4GB"):
    from distributed import Client, LocalCluster

    local = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        memory_limit=memory,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
    )
    return local, Client(local)


def on_cluster(X, n_workers, repeats, kernels, memory="4GB", in_turn=lambda: None):
    """Fit on fresh workers after a warm-up; return the model, a record of each repeat, and the peak bytes of a worker.

    `in_turn` is called before each repeat.
    """
    from distributed import get_task_stream

    from adaam import AdaAM, DaskEngine, RowBlocks

    local, client = start(n_workers, memory)
    engine = DaskEngine(kernels=kernels)
    try:
        AdaAM(10, engine=engine, pairs=RowBlocks()).fit(X[:10_000])
        runs = []
        for _ in range(repeats):
            in_turn()
            before = moved(client)
            with get_task_stream(client) as stream:
                begin, own, theirs = time.perf_counter(), time.process_time(), cpu_of(client)
                model = AdaAM(10, engine=engine, pairs=RowBlocks()).fit(X)
                seconds = time.perf_counter() - begin
            cpu = time.process_time() - own + cpu_of(client) - theirs
            run = {"seconds": seconds, "cpu": cpu, "tasks": len(stream.data), "moved": moved(client) - before}
            runs.append(run)
        peak = max(int(line.split()[1]) for line in client.run(high_water).values()) * 1024
    finally:
        client.close()
        local.close()
    return model, runs, peak


def high_water():
    """Return the high-water mark of this process; that of `resource` includes the memory of its parent at the fork."""
    from pathlib import Path

    return next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))


def moved(client):
    """Return the bytes that workers have fetched from one another."""
    return sum(
        client.run(lambda dask_worker: sum(sent["total"] for sent in dask_worker.transfer_incoming_log)).values()
    )


def cpu_of(client):
    return sum(client.run(time.process_time).values())


def overhead(arguments):
    """Compare two workers of one thread with the CPU engine on two threads, alternately since other load varies."""
    from adaam import AdaAM, CPUEngine, RowBlocks

    X, _ = rows_of(arguments, arguments.rows)
    engine = CPUEngine(kernels=arguments.kernels)
    AdaAM(10, pairs=RowBlocks(), engine=engine).fit(X[:10_000])
    on_host = []

    def fit_on_host():
        begin, cpu = time.perf_counter(), time.process_time()
        model = AdaAM(10, pairs=RowBlocks(), engine=engine).fit(X)
        run = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
        on_host.append({**run, "components": model.components_})

    model, runs, peak = on_cluster(X, 2, arguments.repeats, arguments.kernels, in_turn=fit_on_host)
    expected = [run.pop("components") for run in on_host][-1]
    seconds, host_seconds = (statistics.median(run["seconds"] for run in each) for each in (runs, on_host))
    cpu, host_cpu = (statistics.median(run["cpu"] for run in each) for each in (runs, on_host))
    return {
        "rows": len(X),
        "kernels": arguments.kernels,
        "cpu_engine": on_host,
        "cluster": runs,
        "ratio": seconds / host_seconds,
        "cpu_ratio": cpu / host_cpu,
        "peak_worker_bytes": peak,
        "largest_angle": float(subspace_angles(model.components_.T, expected.T).max()),
    }


def growth(arguments):
    """Measure tasks, bytes moved and memory of a worker for several n, and compare with the plan."""
    from adaam import RowBlocks, plan

    points = []
    for n in (10_000, 20_000, 40_000, 70_000):
        if n > arguments.largest:
            break
        X, _ = rows_of(arguments, n)
        _, (run,), peak = on_cluster(X, 3, 1, arguments.kernels, memory="1.5GB")
        planned = plan(n, X.shape[1], 10, pairs=RowBlocks(), engine="dask", workers=3, memory=1.5e9).cluster
        points.append(
            {
                "rows": n,
                **run,
                "peak_worker_bytes": peak,
                "planned_tasks": planned.n_tasks,
                "planned_moved": planned.moved_bytes,
                "planned_worker_bytes": planned.worker_bytes,
            }
        )
        print(points[-1], flush=True)
    draw(points)
    return points


def draw(points):
    import matplotlib.pyplot as plt

    n = [point["rows"] for point in points]
    panels = [
        ("tasks", "tasks", 1),
        ("moved", "GB moved between workers", 1e9),
        ("peak_worker_bytes", "GB a worker", 1e9),
    ]
    planned = ["planned_tasks", "planned_moved", "planned_worker_bytes"]
    figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
    for axis, (name, title, unit), expected in zip(axes, panels, planned, strict=True):
        axis.plot(n, [point[name] / unit for point in points], "o-", label="measured")
        axis.plot(n, [point[expected] / unit for point in points], "s--", label="planned", alpha=0.6)
        axis.set(xlabel="rows of MNIST", title=title, ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(CHART, dpi=110)


def peer(name, X, queue):
    """Fit one peer; runs in its own process, which may run out of memory."""
    begin = time.perf_counter()
    try:
        if name == "scikit-learn":
            from sklearn.cluster import SpectralClustering

            labels = SpectralClustering(10, affinity="nearest_neighbors", n_neighbors=10, random_state=0).fit_predict(X)
        else:
            import dask.array as da
            from dask_ml.cluster import SpectralClustering as DaskSpectralClustering

            rows = da.from_array(X, chunks=(len(X) // 6, X.shape[1]))
            model = DaskSpectralClustering(10, n_components=100, random_state=0, gamma=1.0 / X.var() / X.shape[1])
            labels = np.asarray(model.fit(rows).labels_)
        queue.put({"seconds": time.perf_counter() - begin, "labels": labels.tolist()})
    except BaseException as error:
        queue.put({"error": f"{type(error).__name__}: {error}"[:400], "where": traceback.format_exc()[-1200:]})


def peers(arguments):
    """Compare spectral clustering of dask-ml and scikit-learn with adaam on the same rows."""
    from sklearn.metrics import adjusted_rand_score

    from adaam import AdaAM, AdaAMClustering
    from adaam.scores import clustering_accuracy

    X, y = rows_of(arguments, arguments.peer_rows)
    found = {}
    context = multiprocessing.get_context("spawn")
    for name in ("scikit-learn", "dask-ml"):
        queue = context.Queue()
        process = context.Process(target=peer, args=(name, X, queue))
        process.start()
        try:
            answer = queue.get(timeout=PEER_SECONDS)
        except Exception:
            answer = {"error": f"no answer in {PEER_SECONDS} seconds, or killed for memory (exit {process.exitcode})"}
        process.terminate()
        process.join()
        labels = answer.pop("labels", None)
        if labels is not None:
            answer["accuracy"] = clustering_accuracy(y, np.array(labels))
            answer["ari"] = adjusted_rand_score(y, labels)
        found[name] = answer
        print(name, answer, flush=True)
    local, client = start(2)
    try:
        AdaAM(10, engine="dask").fit(X[:1000])
        for name, model in {
            "adaam, paper's method": AdaAMClustering(10, learner=AdaAM(10, engine="dask"), head="k-means"),
            "adaam, chosen": AdaAMClustering(10, engine="dask"),
        }.items():
            begin = time.perf_counter()
            labels = model.fit_predict(X)
            seconds = time.perf_counter() - begin
            accuracy, ari = clustering_accuracy(y, labels), adjusted_rand_score(y, labels)
            found[name] = {"seconds": seconds, "accuracy": accuracy, "ari": ari}
    finally:
        client.close()
        local.close()
    return {"rows": len(X), "methods": found}


def write(record):
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "run.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known.update(record)
    path.write_text(json.dumps(known, indent=1))
    (RESULTS / "run.md").write_text(table(known))
    print(table(known))


def table(record):
    lines = ["# The cluster engine, measured", "", f"Made by `run.py`, {record['date']}: {record['machine']}.", ""]
    if "overhead" in record:
        o = record["overhead"]
        host, ours = (statistics.median(run["seconds"] for run in o[name]) for name in ("cpu_engine", "cluster"))
        lines += [
            f"**Overhead**, row blocks of MNIST, {o['rows']:,} x 784, two workers of one thread against the CPU "
            "engine on two, "
            f"{o['kernels']} kernels on both sides, median of {len(o['cluster'])}: "
            f"{ours:.1f} s against {host:.1f} s, **{o['ratio']:.2f} x** "
            f"({o['cpu_ratio']:.2f} x the processor time); largest angle {o['largest_angle']:.1e}.",
            "",
        ]
    if "growth" in record:
        lines += [
            "**Growth**, row blocks on three workers of 1.5 GB, rows of MNIST sent by the client; planned in brackets.",
            "",
            "| rows | tasks | GB moved | GB a worker, peak |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {p['rows']:,} | {p['tasks']} ({p['planned_tasks']}) | {p['moved'] / 1e9:.2f} "
            f"({p['planned_moved'] / 1e9:.2f}) | {p['peak_worker_bytes'] / 1e9:.2f} "
            f"({p['planned_worker_bytes'] / 1e9:.2f}) |"
            for p in record["growth"]
        ]
        lines.append("")
    if "peers" in record:
        lines += [
            f"**Peers**, MNIST {record['peers']['rows']:,} x 784.",
            "",
            "| method | seconds | accuracy | ARI |",
            "|---|---|---|---|",
        ]
        for name, answer in record["peers"]["methods"].items():
            if "error" in answer:
                lines.append(f"| {name} | fails: {answer['error'].splitlines()[0]} | | |")
            else:
                lines.append(f"| {name} | {answer['seconds']:.1f} | {answer['accuracy']:.3f} | {answer['ari']:.3f} |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("ADAAM_DATA"), help="folder with mnist.npz")
    parser.add_argument("--stage", default=",".join(STAGES))
    parser.add_argument("--kernels", default="auto", help="of the workers, and of the CPU engine beside them")
    parser.add_argument("--rows", type=int, default=40_000, help="of the overhead stage")
    parser.add_argument("--largest", type=int, default=70_000, help="rows of the growth stage, at most")
    parser.add_argument("--peer-rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    import adaam

    record = {
        "date": str(date.today()),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"adaam {adaam.__version__}",
    }
    for stage in arguments.stage.split(","):
        record[stage] = globals()[stage](arguments)
        write(record)


if __name__ == "__main__":
    main()
