"""Table and figure of the comparison with other methods, from its records."""

from methods import METHODS

BASE = "AdaAM, fit"
STRONG = {"AdaAM, fit": "C3", "AdaAM, fit, row blocks": "C1", "AdaAMClustering": "C4", "UMAP, fit": "C0"}


def draw(records, folder):
    """Write peers.md and peers.svg."""
    sizes = sorted({n for _, n in records})
    (folder / "peers.md").write_text(table(records, sizes))
    figure(records, folder / "peers.svg")


def table(records, sizes):
    lines = [
        "# Time and memory beside peers",
        "",
        "First rows of MNIST. Seconds; in brackets the ratio to AdaAM's fit on",
    ]
    threads = sorted({record["threads"] for record in records.values()})
    lines[-1] += f" all pairs at the same size; {' and '.join(map(str, threads))} threads. Medians, after warm-up."
    lines += [
        "",
        "| method | gives | " + " | ".join(f"{n:,}" for n in sizes) + " |",
        "|---|---|" + "---:|" * len(sizes),
    ]
    for name, method in METHODS.items():
        cells = [time_cell(records, name, n) for n in sizes]
        if any(cells):
            lines.append(f"| {name} | {method.gives} | " + " | ".join(cells) + " |")
    lines += ["", "Memory beyond the rows, MB (high-water mark of the first fit less the resident set before it):", ""]
    lines += ["| method | " + " | ".join(f"{n:,}" for n in sizes) + " |", "|---|" + "---:|" * len(sizes)]
    for name in METHODS:
        cells = [f"{records[name, n]['extra_mb']:,}" if (name, n) in records else "" for n in sizes]
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "Accuracy (%) of those that give clusters, one run each:", ""]
    lines += ["| method | " + " | ".join(f"{n:,}" for n in sizes) + " |", "|---|" + "---:|" * len(sizes)]
    for name in METHODS:
        cells = [
            f"{100 * records[name, n]['accuracy']:.1f}" if "accuracy" in records.get((name, n), {}) else ""
            for n in sizes
        ]
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    versions = {key: value for record in records.values() for key, value in record["versions"].items()}
    lines += ["", "Versions: " + ", ".join(f"{name} {found}" for name, found in sorted(versions.items())) + "."]
    return "\n".join(lines) + "\n"


def time_cell(records, name, n):
    if (name, n) not in records:
        return ""
    seconds = records[name, n]["seconds"]
    if (BASE, n) not in records:
        return f"{seconds:.2f}"
    return f"{seconds:.2f} ({seconds / records[BASE, n]['seconds']:.1f} ×)"


def figure(records, path):
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "adaam"
    import matplotlib.pyplot as plt

    chart, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for ax, key, title in zip(
        axes, ("seconds", "extra_mb"), ("Time of a fit, s", "Memory beyond the rows, MB"), strict=True
    ):
        for name in METHODS:
            points = sorted((n, record[key]) for (method, n), record in records.items() if method == name)
            if points:
                style = (
                    {"color": STRONG[name], "linewidth": 2.2} if name in STRONG else {"linewidth": 0.9, "alpha": 0.7}
                )
                ax.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name, **style)
        ax.set(xscale="log", yscale="log", xlabel="rows", title=title)
        ax.grid(True, which="both", alpha=0.2)
    axes[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    chart.savefig(path, metadata={"Date": None})
