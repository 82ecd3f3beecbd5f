"""Assembles the page of a clustering, as a pure function of its data."""

from html import escape

from adaam.cluster_report.data import ClusterCard, ReportData
from adaam.cluster_report.markup import card, choice, hue, layer_tree, outliers, percent, plural
from adaam.cluster_report.payload import payload
from adaam.palette import cluster_color, ink_on
from adaam.webpage import PageKind, html_document

KIND = PageKind(
    package="adaam.cluster_report",
    scripts=("data.js", "apart.js", "table.js", "map.js", "main.js"),
    skip="Skip to the clusters",
    noscript="Cards, layers and method are complete without scripts; the map and the table of rows need them.",
)
LINKS = (
    ("overview", "Overview"),
    ("map", "Map"),
    ("clusters", "Clusters"),
    ("layers", "Layers"),
    ("outliers", "Outliers"),
    ("rows", "Rows"),
    ("choice", "Method"),
)
UNNAMED = (
    "The features have no names, so the cards do not show what sets clusters apart. To see it, pass names=, texts= or "
    "images= to report, or cluster a table that also has a column of texts."
)
ALIKE = "No feature differs much between the clusters."
ONE = "All rows are in one cluster, so there is nothing to compare it with."
LEAST_NAMED = 0.025  # share of the rows above which a cluster's number fits into the bar of sizes


def page(data: ReportData, charting: str | None = None) -> str:
    """Return the page as text.

    Parameters
    ----------
    data : ReportData
        What the page shows.
    charting : str, default=None
        Source of the charting library; None means the plotly.js of the package `plotly`.
    """
    parts = {
        "title": escape(data.title),
        "headline": headline(data),
        "lead": _lead(data),
        "sampled": f'<p class="sampled">{sampled(data)}</p>' if data.is_sampled else "",
        "facts": "\n".join(f"<li><b>{value}</b><span>{name}</span></li>" for name, value in _facts(data)),
        "sizes": "\n".join(_size(each, data.n_rows) for each in sorted(data.cards, key=_size_of, reverse=True)),
        "cards_hint": _cards_hint(data),
        "untold": f'<p class="hint">{untold}</p>' if (untold := _untold(data)) else "",
        "cards": "\n".join(card(data, each) for each in data.cards),
        "layers": _layers(data),
        "outliers": outliers(data),
        "rows_hint": _rows_hint(data),
        "choice": choice(data.choice),
    }
    links = [each for each in LINKS if each[0] != "layers" or data.layers]
    return html_document(KIND, title=data.title, links=links, parts=parts, data=payload(data), charting=charting)


def headline(data: ReportData) -> str:
    """Return a one-line summary."""
    return f"{plural(data.n_clusters, 'cluster')} in {plural(data.n_rows, 'row')}"


def sampled(data: ReportData) -> str:
    """Say that not all rows are shown, and which parts of the report cover all of them."""
    kept = "; sizes, effects" + (" and the download of labels" if data.holds_all_labels else "")
    return (
        f"Map and table show {len(data.shown):,} of {data.n_rows:,} rows, drawn at random from each cluster{kept} "
        "cover all of them."
    )


def _lead(data: ReportData) -> str:
    what = "text" if data.texts is not None else "image" if data.images is not None else "row"
    said = f"{plural(data.n_rows, what)}, {plural(data.n_features, 'feature')} each, grouped without labels."
    largest, smallest = max(data.cards, key=_size_of), min(data.cards, key=_size_of)
    if data.n_clusters > 1:
        said += (
            f" Each cluster has {plural(largest.size, 'row')}."
            if largest.size == smallest.size
            else f" The largest cluster has {largest.size:,} rows, the smallest {smallest.size:,}."
        )
    return said


def _size_of(each: ClusterCard) -> int:
    return each.size


def _facts(data: ReportData) -> list[tuple[str, str]]:
    count = data.choice.count
    clusters = f"{data.n_clusters}"
    if count is not None and count.low != count.high:
        clusters += f" <small>({count.low} to {count.high} plausible)</small>"
    facts = [
        ("clusters", clusters),
        ("mean strength", f"{float(data.strengths.mean()):.2f}" if data.n_rows else "–"),
        ("rows below strength 0.5", percent(float((data.strengths < 0.5).mean()))),
    ]
    if (data.labels < 0).any():
        facts.append(("rows in no cluster", f"{int((data.labels < 0).sum()):,}"))
    if data.layers:
        facts.append(("layers", str(len(data.layers))))
    return facts


def _size(each: ClusterCard, n_rows: int) -> str:
    words = escape(f"Cluster {each.label}: {plural(each.size, 'row')}" + (f". {each.summary}" if each.summary else ""))
    shown = each.label if each.size > LEAST_NAMED * n_rows else ""
    light, dark = ink_on(cluster_color(each.label)), ink_on(cluster_color(each.label, "dark"))
    style = hue(each.label, f"flex-grow:{each.size};--on-light:{light};--on-dark:{dark}")
    return (
        f'<a class="hue" {style} href="#cluster-{each.label}" title="{words}" '
        f'aria-label="{words}"><span>{shown}</span></a>'
    )


def _untold(data: ReportData) -> str:
    """Say why the page does not describe what sets clusters apart, or return ""."""
    if data.n_clusters == 1:
        return ONE + (" Groups in it that are less clear are shown as layers." if len(data.layers) > 1 else "")
    if data.texts is not None or any(each.effects or each.pictures for each in data.cards):
        return ""
    return ALIKE if data.names_features else UNNAMED


def _cards_hint(data: ReportData) -> str:
    said = []
    if any(each.effects for each in data.cards):
        said.append(
            "Bars show how far the mean of the cluster is from that of all other rows, in standard deviations "
            "(Cohen's d; 0.8 is called large), followed by the two means."
        )
    if any(each.words or each.categories for each in data.cards):
        said.append("Words and categories come with the share of the cluster's rows that have them.")
    if any(each.firmness is not None for each in data.cards):
        said.append(
            "Firmness tells how separate a cluster is from the one it would be merged with first: 1 is fully separate, "
            "0 not at all."
        )
    said.append("Strength is the mean over the rows of the share of a row's links that stay within the cluster.")
    said.append(
        "Exemplars are the most typical rows. Borderline rows are the least certain ones, with their strength and the "
        "cluster they could belong to instead."
    )
    said.append("Neighbouring clusters are the nearest ones, with the share of membership they have in common.")
    return " ".join(said)


def _layers(data: ReportData) -> str:
    if not data.layers:
        return ""
    return (
        '<section id="layers" aria-labelledby="layers-title"><h2 id="layers-title">Layers</h2><p class="hint">The same '
        "rows in coarser and finer clusters. The top line is the coarsest layer; below each cluster are the finer ones "
        "it consists of. Click a cluster to colour the map by its layer and highlight it. The clusters described above "
        "are tinted.</p>"
        f"{layer_tree(data)}</section>"
    )


def _rows_hint(data: ReportData) -> str:
    if not data.is_sampled:
        return f"All {data.n_rows:,} rows. Strength is how firmly a row belongs to its cluster, from 0 to 1."
    rest = (
        f"The download of all labels has all {data.n_rows:,}."
        if data.holds_all_labels
        else "Labels of all rows are in the model's labels_."
    )
    return f"The {len(data.shown):,} rows shown on the map. {rest}"
