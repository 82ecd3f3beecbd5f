"""Figures that the documents quote, read from the records.

    python benchmarks/figures.py            # update all quoted figures and tables
    python benchmarks/figures.py --check    # list documents that differ from the records; exit status 1 if any does

In Markdown, a quoted figure is followed by a comment that names its source: a file under benchmarks/ (or `scores`, the
averages of results/records.jsonl.gz), the record in it, and the field:

    reaches 93.5<!-- scores dataset=usps method=adaam-clustering average*100 --> %

It is written with as many decimals as it had before. A whole table is enclosed by `<!-- table: NAME ... -->` and
`<!-- end of table -->` and made by the function `NAME_table` of this file.
"""

import argparse
import json
import re
import shlex
import statistics
import sys
from functools import cache
from pathlib import Path

from adaam.bench.records import read_records
from adaam.report.summary import method_title, paper_accuracy, summaries

HERE = Path(__file__).parent
ROOT = HERE.parent
FIGURE = re.compile(r"(?P<number>\d[\d,]*(?:\.\d+)?)<!-- (?P<source>[^:>]+?) -->")
TABLE = re.compile(
    r"(?P<head><!-- table: (?P<call>[^>]+?) -->\n)(?P<body>.*?)(?P<tail><!-- end of table -->)", re.DOTALL
)
SETS = {"umist": "UMIST", "coil20": "COIL20", "usps": "USPS", "mnist10k": "MNIST 10k", "exyaleb": "Extended Yale B"}


class FigureError(ValueError):
    """A comment that names no record, or several."""


def documents():
    """Documents whose figures come from the records."""
    return [
        ROOT / "README.md",
        ROOT / "results" / "README.md",
        HERE / "README.md",
        *(HERE / folder / "README.md" for folder in ("clusterer", "gpu", "large")),
        *sorted((ROOT / "docs").glob("*.md")),
    ]


@cache
def records_of(name):
    """Records of a source, as dictionaries."""
    if name == "scores":
        found = summaries(read_records(ROOT / "results" / "records.jsonl.gz").records)
        return [
            {"dataset": each.setting.dataset, "method": each.setting.method, "preparation": each.setting.preparation}
            | {field: getattr(each, field) for field in ("average", "maximum", "nmi", "ari", "rounds")}
            for each in found
            if each.setting.is_default
        ]
    path = HERE / name
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    content = json.loads(path.read_text(encoding="utf-8"))
    return content.get("records", [content])


def record_of(source, **wanted):
    """Return the record with these values; in a log, a later line of the same case replaces the earlier ones."""
    found = [each for each in records_of(source) if all(str(each.get(k)) == v for k, v in wanted.items())]
    if not found or (len(found) > 1 and source == "scores"):
        raise FigureError(f"{len(found)} records of {source} have {wanted}")
    return found[-1]


def value_of(source):
    """Return the number that a comment names."""
    name, *filters, field = shlex.split(source)
    record = record_of(name, **dict(each.split("=", 1) for each in filters))
    path, _, factor = field.partition("*")
    value = record
    for step in path.split("/"):
        if step not in value:
            raise FigureError(f"{source}: the record has no {step!r}, but {sorted(value)}")
        value = value[step]
    if isinstance(value, list):  # repeated runs
        value = statistics.median(each["seconds"] for each in value)
    return float(value) * float(factor or 1)


def written_like(value, example):
    """Format a number with as many decimals as an example, and with its thousands separators."""
    decimals = len(example.partition(".")[2])
    return f"{value:,.{decimals}f}" if "," in example else f"{value:.{decimals}f}"


def refreshed(text):
    """Return a document with figures and tables updated from the records."""

    def table(found):
        name, *arguments = shlex.split(found["call"])
        return found["head"] + globals()[f"{name}_table"](*arguments) + found["tail"]

    def figure(found):
        return written_like(value_of(found["source"]), found["number"]) + f"<!-- {found['source']} -->"

    return FIGURE.sub(figure, TABLE.sub(table, text))


def markdown(head, rows):
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def accuracy_table(*methods):
    """Average accuracy on the paper's five sets; `paper:NAME` is the paper's own figure. The best of each is bold."""
    lines = []
    for method in methods:
        name = method.removeprefix("paper:")
        if method.startswith("paper:"):
            lines.append(
                (f"{method_title(name)} + k-means, the paper", [paper_accuracy(each, name)[0] for each in SETS])
            )
        else:
            title = f"`{method_title(name)}`" if name == "adaam-clustering" else method_title(name)
            lines.append((f"{title} + k-means" if name == "adaam" else title, [_average(each, name) for each in SETS]))
    best = [max(values[place] for _, values in lines) for place in range(len(SETS))]
    cells = [
        [title, *(f"**{v:.1f}**" if v == b else f"{v:.1f}" for v, b in zip(values, best, strict=True))]
        for title, values in lines
    ]
    means = [f"{statistics.mean(values):.1f}" for _, values in lines]
    return markdown(
        ["accuracy, %", *SETS.values(), "mean"], [[*row, mean] for row, mean in zip(cells, means, strict=True)]
    )


def _average(dataset, method):
    preparation = "reference" if method == "adaam" else "raw"
    return 100 * record_of("scores", dataset=dataset, method=method, preparation=preparation)["average"]


CLUSTERER = "clusterer/results/clusterer.jsonl"


def _stage(stage):
    """Return the last record of each name in a stage of the clusterer's benchmark, in order of first appearance."""
    return list({each["name"]: each for each in records_of(CLUSTERER) if each["stage"] == stage}.values())


def _set_title(name):
    return SETS.get(name, f"`{name}`")


def clusterer_accuracy_table():
    """Accuracy of the default clusterer on every set, and what it chose."""
    rows = [
        [_set_title(each["name"]), f"{each['mean']:.1f}", f"{each['deviation']:.1f}", each["chosen"]]
        for each in sorted(_stage("accuracy"), key=_by_set)
    ]
    return markdown(["accuracy, %", "mean", "deviation over seeds", "chosen"], rows)


def clusterer_count_table():
    """Estimated numbers of clusters, and numbers of classes."""
    rows = [
        [_set_title(each["name"]), str(each["classes"]), str(each["found"]), f"{each['low']} to {each['high']}"]
        for each in sorted(_stage("count"), key=_by_set)
    ]
    return markdown(["number of clusters", "classes", "found", "range"], rows)


def _by_set(record):
    known = [*SETS, "digits"]
    return (known.index(record["name"]) if record["name"] in known else len(known), record["name"])


def clusterer_gpu_table():
    """Seconds on a GPU."""
    rows = [
        [f"MNIST, {each['name']}", f"{each['seconds']:.1f}", _percent(each.get("accuracy"))] for each in _stage("gpu")
    ]
    return markdown(["one H200", "seconds", "accuracy, %"], rows)


def _percent(share):
    return "" if share is None else f"{100 * share:.1f}"


def clusterer_times_table():
    """Seconds of the clusterer and of UMAP + k-means on two cores."""
    rows = [
        [f"MNIST, {each['name']}", *(f"{each[field]:.1f}" for field in ("seconds", "umap_kmeans_seconds"))]
        + [f"{each['ratio']:.2f}"]
        for each in _stage("times")
    ]
    return markdown(["2 cores, numba, medians", "AdaAMClustering, s", "UMAP + k-means, s", "ratio"], rows)


def dask_peers_table():
    """Clusterings of a Dask array, compared with other methods."""
    titles = {
        "scikit-learn": "scikit-learn `SpectralClustering`, 10 neighbours",
        "dask-ml": "dask-ml `SpectralClustering`, 100 sampled rows",
        "adaam, paper's method": "AdaAM + k-means, 2 workers",
        "adaam, chosen": "`AdaAMClustering`, 2 workers",
    }
    methods = record_of("cluster/results/run.json")["peers"]["methods"]
    rows = [
        [title, f"{each['seconds']:.1f}", f"{100 * each['accuracy']:.1f}", f"{each['ari']:.2f}"]
        for title, each in ((titles[name], each) for name, each in methods.items())
    ]
    return markdown(["MNIST, first 10,000 rows, two cores", "seconds", "accuracy, %", "ARI"], rows)


def peers_table():
    """Seconds of all methods; those with a single record were measured in the first run, with older code."""
    records, sizes = records_of("peers/results/records.jsonl"), (10_000, 70_000)
    rows = []
    for method in dict.fromkeys(each["method"] for each in records if each["n"] in sizes):
        cells = []
        for n in sizes:
            found = [each for each in records if (each["method"], each["n"]) == (method, n)]
            cells.append(f"{found[-1]['seconds']:.2f}{' (older)' * (len(found) == 1)}" if found else "")
        rows.append([method, *cells])
    return markdown(["MNIST, seconds", *(f"{n:,} rows" for n in sizes)], rows)


def memory_table():
    """Memory of a fit beyond its rows."""
    rows = [
        [f"{each['n']:,}", f"{each['x_mb']} MB", f"{each['extra_mb']} MB"]
        for each in records_of("results/memory-float64.json")
    ]
    return markdown(["rows", "X", "extra"], rows)


def large_angles_table():
    """Directions of MNIST 70,000 from row blocks and from exact fits of halves: angles and accuracy."""
    titles = {
        "4 blocks of 6000": "4 blocks of 6,000",
        "14 blocks of 5000": "14 blocks of 5,000, the default",
        "exact half 1, angles to half 2": "exact fits of two halves, from each other",
        "exact": "exact fit",
    }
    rows = []
    for kind, title in titles.items():
        found = [each for each in records_of("large/results/mnist.json") if each["kind"].partition(" (")[0] == kind]
        angles = [statistics.mean(each["angles"][place] for each in found) for place in range(9)]
        accuracy = statistics.mean(value for each in found for value in each["accuracy"])
        rows.append([title, " ".join(f"{angle:.1f}" for angle in angles), f"{accuracy:.1f}"])
    return markdown(["MNIST, 70,000 rows", "degrees from the exact fit, directions 1 to 9", "accuracy, %"], rows)


def large_times_table():
    """Seconds of all pairs and of row blocks."""
    rows = [
        [each["pairs"], f"{each['seconds']:.2f}", f"{each['processor_seconds']:.1f}", f"{each['times_faster']:.1f}"]
        for each in records_of("large/results/times.json")
    ]
    return markdown(["MNIST, 70,000 rows", "seconds", "processor seconds", "times faster"], rows)


def large_million_table():
    """Seconds and memory of many rows."""
    found = [each for each in records_of("large/results/million.json") if "n" in each]
    rows = [[f"{each['n']:,}", f"{each['seconds']:.1f}", f"{each['peak_gb']:.2f}"] for each in found]
    return markdown(["rows of 100 features", "seconds", "peak memory, GB, rows included"], rows)


def _gpu(run, stage, name):
    return record_of(f"gpu/results/{run}.json", stage=stage, name=name)


def gpu_fits_table(run):
    """Fits on a GPU, and how far they are from those of the CPU engine."""
    fit, million = _gpu(run, "mnist", "fit 70000 x 784 float32"), _gpu(run, "million", "fit 1000000 x 784 float32")
    checks = [each for each in records_of(f"gpu/results/{run}.json") if each["stage"] == "check" and "ari" in each]
    angles = [max(each["angle"] for each in checks if kind in each["name"]) for kind in ("float64", "float32")]
    fast = _gpu(run, "check", "mnist 40000 float32 fast fit = CPU fit")
    host = _gpu(run, "mnist", "of which by verb")["rest_on_host"]
    rows = [
        ["fit of 70,000 x 784 float32, seconds", f"{fit['seconds']:.3f} ({fit['min_s']:.3f} to {fit['max_s']:.3f})"],
        ["of which on the host, seconds", f"{host:.3f}"],
        ["fit of 1,000,000 x 784 float32, exact, seconds", f"{million['seconds']:.1f}"],
        ["peak memory of it, rows included, GiB", f"{million['peak_mib'] / 1024:.1f}"],
        ["five sets, 100 rounds of 10 k-means, seconds", f"{_gpu(run, 'table1', 'all five sets')['seconds']:.2f}"],
        ["largest angle to the CPU engine, five sets, float64", f"{angles[0]:.0e}"],
        ["the same, float32", f"{angles[1]:.0e}"],
        ["the same, 40,000 rows on tensor cores", f"{fast['angle']:.0e}"],
        ["smallest ARI with the CPU engine's labels", f"{min(each['ari'] for each in checks):.2f}"],
    ]
    return markdown(["", "measured"], rows)


def gpu_verbs_table(run):
    """Seconds of a fit by verb, the slowest first."""
    small, large = (_gpu(run, stage, "of which by verb") for stage in ("mnist", "million"))
    verbs = sorted((name for name in small if name in small["calls"]), key=lambda name: -large.get(name, 0.0))
    rows = [[f"`{name}`", f"{small[name]:.3f}", f"{large[name]:.2f}"] for name in verbs if small[name] >= 0.002]
    return markdown(["seconds", "70,000 rows", "1,000,000 rows"], rows)


def gpu_kernels_table(run):
    """Kernels compared with their floors; of several tile shapes, the fastest."""
    best = {}
    for each in records_of(f"gpu/results/{run}.json"):
        if each["stage"] == "kernels" and "over_floor" in each and "stage 1" not in each["name"]:
            name = re.sub(r" \([\d, ]+\)|, stage 0", "", each["name"])
            best[name] = min(best.get(name, each), each, key=lambda record: record["seconds"])
    rows = [
        [name, f"{1e3 * each['floor_s']:.2f}", f"{1e3 * each['seconds']:.2f}", f"{each['over_floor']:.1f}"]
        for name, each in best.items()
    ]
    return markdown(["70,000 prepared rows", "floor, ms", "measured, ms", "times the floor"], rows)


def gpu_peers_table(run):
    """Neighbours and k-means in plain torch, compared with those of the engine."""
    found = [
        each for each in records_of(f"gpu/results/{run}.json") if each["stage"] == "peers" and "n=70000" in each["name"]
    ]
    rows = [[each["name"].removesuffix(", n=70000"), f"{each['seconds']:.3f}"] for each in found]
    return markdown(["70,000 prepared rows", "seconds"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        try:
            fresh = refreshed(text)
        except FigureError as error:
            sys.exit(f"{path.relative_to(ROOT)}: {error}")
        if fresh != text:
            stale.append(path)
            if not check:
                path.write_text(fresh, encoding="utf-8")
    for path in stale:
        print(("differs from the records: " if check else "written: ") + str(path.relative_to(ROOT)))
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
