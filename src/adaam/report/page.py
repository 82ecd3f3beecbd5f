"""The evaluation page: one self-contained HTML file, built from records and exhibits."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from adaam import webpage
from adaam._typing import IntMatrix
from adaam.bench.datasets import title_of
from adaam.bench.exhibit import Exhibit
from adaam.files import atomic_file
from adaam.palette import COLORS, cluster_color
from adaam.report.charts import Chart, all_charts
from adaam.report.overview import Standing, findings, standings
from adaam.report.summary import Record, Summary, default_summaries, method_colors
from adaam.report.tables import MISSING, all_tables, cases_table, html_table
from adaam.tables import counted

NAME = "report.html"
UNKNOWN = "not recorded"
N_QUERIES = 5  # rows whose neighbours are shown until the reader selects one
N_CONFUSIONS = 3
NO_EXHIBIT = "There are no pictures beside these records; adaam reproduce makes them."
FIGURE_NOTES = {
    "fig1a": "Averages over rounds; bars are standard deviations. The axis spans at least five points of accuracy.",
    "fig1b": "All entries of the final affinity, the diagonal included, counted before the small ones are set to zero.",
    "fig2": "Averages over rounds; bars are standard deviations. Dashed: the method's own preparation.",
    "fig3": "Seconds of one fit, without k-means, on the first rows of the data set; one case at a time.",
}
KIND = webpage.PageKind(
    package="adaam.report",
    scripts=("charts.js", "exhibits.js", "main.js"),
    skip="Skip to the results",
    noscript="Tables are complete without scripts; charts and exhibits need them.",
    footer="Method: Y. Li, J. Chen, Y. Zhao, H. Lu, <cite>Adaptive Affinity Matrix for Unsupervised Metric "
    "Learning</cite>, ICME 2017.",
)
LINKS = {
    "summary": "Summary",
    "sets": "Data sets",
    "tables": "Tables",
    "figures": "Figures",
    "provenance": "Provenance",
}


def write_page(records: Sequence[Record], exhibits: Sequence[Exhibit], folder: Path) -> Path:
    """Write the page atomically."""
    with atomic_file(folder / NAME) as stream:
        stream.write(page(records, exhibits, webpage.plotly_script()).encode())
    return folder / NAME


def page(records: Sequence[Record], exhibits: Sequence[Exhibit], charting: str) -> str:
    """Return the page as text: a pure function of the records of a file, the exhibits and the text of plotly.js."""
    found = default_summaries(records)
    sets, charts = standings(found), all_charts(records)
    parts = {
        "what": escape(_what(sets, found)),
        "difference": escape(difference(exhibits)),
        "findings": "\n".join(f"<li>{escape(sentence)}</li>" for sentence in findings(sets)),
        "standings": "\n".join(map(_standing, sets)),
        "tables": "\n".join(map(html_table, all_tables(records))) or "<p>No table can be filled yet.</p>",
        "figures": "\n".join(map(_figure, charts)) or "<p>These records fill no figure.</p>",
        "tabs": "\n".join(starmap(_tab, enumerate(exhibits))),
        "panels": "\n".join(starmap(_panel, enumerate(exhibits))) or f"<p>{NO_EXHIBIT}</p>",
        "sessions": "\n".join(starmap(_session, enumerate(sessions(records), start=1))),
        "cases": html_table(cases_table(records)),
    }
    data = {
        "standings": [asdict(each) for each in sets],
        "charts": [asdict(chart) for chart in charts],
        "palette": COLORS,
        "methods": method_colors(),
    }
    return webpage.html_document(
        KIND, title="AdaAM, reproduced", links=tuple(LINKS.items()), parts=parts, data=data, charting=charting
    )


def _what(sets: Sequence[Standing], found: Sequence[Summary]) -> str:
    if not sets:
        return "Nothing yet."
    rounds = [each.rounds for each in found]
    least, most = min(rounds), max(rounds)
    each_has = f"{most} rounds each" if least == most else f"{least} to {most} rounds each"
    methods = counted(len({each.setting.method for each in found}), "method")
    names = ", ".join(each.title for each in sets)
    return f"{methods} on {counted(len(sets), 'data set')} ({names}), {each_has}, {sum(rounds):,} in all."


def _standing(each: Standing) -> str:
    lead = each.lead
    averages = {} if each.paper is None else {"AdaAM, the paper": each.paper}
    for score in (each.ours, *each.today, each.published):
        if score is not None and score is not lead:
            averages[score.name] = score.average
    lines = "".join(
        f"<div><dt>{_swatch(name)}{escape(name)}</dt><dd>{average:.1f}</dd></div>"
        for name, average in sorted(averages.items(), key=lambda pair: -pair[1])
    )
    is_led = each.is_best(lead)
    if is_led:
        best = f"Best of {each.n_methods} methods."
    elif each.n_methods == 1:
        best = "No other method was run."
    else:
        best = f"Best of {each.n_methods} methods: {escape(each.best.name)}, {each.best.average:.1f}."
    name, average = ("", MISSING) if lead is None else (lead.name, f"{lead.average:.1f}")
    return (
        f'<li class="card{" won" if is_led else ""}"><h3>{escape(each.title)}</h3>'
        f'<p class="big"><span>{average}</span><small>%</small></p>'
        f'<p class="by">{_swatch(name)}{escape(name)}</p>'
        f'<dl>{lines}</dl><p class="best">{best}</p></li>'
    )


def _swatch(name: str) -> str:
    """Return a dot in the colour that a method has in every figure; a ring if the name is of the paper's result."""
    method, is_paper, _ = name.partition(", the paper")
    place = method_colors().get(method)
    if place is None:
        return ""
    colors = f"--light:{cluster_color(place)};--dark:{cluster_color(place, 'dark')}"
    return f'<i class="swatch hue{" open" if is_paper else ""}" style="{colors}"></i>'


def difference(exhibits: Sequence[Exhibit]) -> str:
    """Describe how the two methods of this library differ, and on which data sets the learned metric was chosen."""
    told = (
        "AdaAM is the paper's method: it learns one metric, and k-means follows. AdaAMClustering also considers the "
        "rows as they are and clusters along the neighbour graph; it takes a learned metric only where that clearly "
        "helps."
    )
    sets: dict[bool, list[str]] = {True: [], False: []}
    for each in exhibits:
        sets[each.about["chosen"]["learned"]].append(title_of(each.about["dataset"]))
    parts = [f"{'' if taken else 'not '}taken on {', '.join(names)}" for taken, names in sets.items() if names]
    return f"{told} Here the learned metric was {' and '.join(parts)}." if parts else told


def _figure(chart: Chart) -> str:
    name, title = escape(chart.name), escape(f"{chart.name.replace('fig', 'Fig. ')}. {chart.title}")
    return (
        f'<figure class="chart"><figcaption><h3 id="{name}-title">{title}</h3></figcaption>'
        f'<div class="plot" id="{name}" role="img" aria-labelledby="{name}-title"></div>'
        f'<p class="notes">{escape(FIGURE_NOTES.get(chart.name, ""))} Every case is listed under '
        '<a href="#cases">Every case</a>.</p></figure>'
    )


def _tab(place: int, exhibit: Exhibit) -> str:
    is_chosen, focus = ("false", ' tabindex="-1"') if place else ("true", "")
    return (
        f'<button type="button" role="tab" id="tab-{place}" aria-controls="set-{place}" aria-selected="{is_chosen}"'
        f"{focus}>{escape(title_of(exhibit.about['dataset']))}</button>"
    )


def _panel(place: int, exhibit: Exhibit) -> str:
    return (
        f'<div role="tabpanel" id="set-{place}" aria-labelledby="tab-{place}" class="set"{" hidden" if place else ""}>'
        f'<script type="application/json" class="exhibit">{webpage.script_json(payload(exhibit))}</script></div>'
    )


def payload(exhibit: Exhibit) -> dict[str, Any]:
    """Return everything the page shows of a data set: numbers as JSON, pictures as PNG."""
    about, facts = exhibit.about, facts_of(exhibit.about["session"])
    n_rows, height, width = exhibit.tiles.shape
    lists = ("rows", "classes", "clusters", "chosen_clusters", "features", "confusion", "chosen_confusion")
    spaces = ("before", "after", "chosen")
    return {
        "name": about["dataset"],
        "title": title_of(about["dataset"]),
        "about": {name: about[name] for name in ("n", "d", "c", "k", "is_image", "seed", "n_starts")},
        "scores": {name: round(100 * about[name], 2) for name in ("acc", "nmi", "ari")},
        "choice": {name: about["chosen"][name] for name in ("metric", "preparation", "head", "learned")},
        "chosen_scores": {name: round(100 * about["chosen"][name], 2) for name in ("acc", "nmi", "ari")},
        "facts": [(name, facts[name]) for name in ("started", "adaam", "commit", "machine", "libraries")],
        **{name: getattr(exhibit, name).tolist() for name in lists},
        **{space: webpage.plane_points(getattr(exhibit, space)) for space in spaces},
        **{f"nearest_{space}": getattr(exhibit, f"nearest_{space}").tolist() for space in spaces},
        **{f"same_{space}": same_class(exhibit, getattr(exhibit, f"nearest_{space}")) for space in spaces},
        "chosen_confusions": confusions(exhibit.chosen_confusion),
        "queries": queries(n_rows, about["seed"]),
        "tiles": webpage.sprite(exhibit.tiles),
        "components": webpage.sprite(webpage.signed_bytes(exhibit.components), webpage.diverging_palette()),
        "patterns": webpage.sprite(webpage.signed_bytes(exhibit.patterns), webpage.diverging_palette()),
        "weights": [] if about["is_image"] else np.round(exhibit.components[:, 0, :], 4).tolist(),
        "confusions": confusions(exhibit.confusion),
        "tile": {"height": height, "width": width},
    }


def same_class(exhibit: Exhibit, nearest: IntMatrix) -> float:
    """Return the share of neighbours that are of their row's class, in per cent."""
    return round(100 * float((exhibit.classes[nearest] == exhibit.classes[:, None]).mean()), 1)


def queries(n_rows: int, seed: int) -> list[int]:
    """Draw random rows, so that the examples are not hand-picked."""
    return list(np.random.default_rng(seed).choice(n_rows, min(N_QUERIES, n_rows), replace=False).tolist())


def confusions(counts: IntMatrix) -> list[list[int]]:
    """Return the largest errors: class, class of the cluster that its rows were assigned to, number of rows."""
    errors = counts * (1 - np.eye(len(counts), dtype=counts.dtype))
    order = np.argsort(-errors, axis=None, kind="stable")[:N_CONFUSIONS]
    found = [[*divmod(int(place), len(counts)), int(errors.flat[place])] for place in order]
    return [each for each in found if each[-1]]


def _session(number: int, session: tuple[dict[str, str], int]) -> str:
    facts, n_records = session
    pairs = {**facts, "records": str(n_records)}
    lines = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs.items())
    try:
        started = f"{datetime.fromisoformat(facts['started']).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:  # UNKNOWN: not a date
        started = facts["started"]
    return (
        f'<details class="session"{" open" if number == 1 else ""}><summary>Session {number}: {escape(started)}, '
        f"{n_records:,} record{'' if n_records == 1 else 's'}</summary><dl>{lines}</dl></details>"
    )


def sessions(records: Sequence[Record]) -> list[tuple[dict[str, str], int]]:
    """Return the facts of each session and its number of records; records before any session are of unknown origin."""
    found: list[tuple[dict[str, str], int]] = []
    for record in records:
        is_head = record.get("kind") == "session"
        if is_head or not found:
            found.append((facts_of(record), 0))
        found[-1] = (found[-1][0], found[-1][1] + (not is_head))
    return found


def facts_of(head: Record) -> dict[str, str]:
    """Return the facts that the first record of a session holds."""
    versions = dict(head.get("versions") or {})
    facts = {
        "command": head.get("command"),
        "started": head.get("started"),
        "adaam": versions.pop("adaam", None),
        "commit": head.get("commit"),
        "machine": ", ".join(str(head[name]) for name in ("machine", "system") if head.get(name)),
        "cases": head.get("jobs") and f"{head['jobs']} at a time, threads: {head.get('threads', 'default')}",
        "libraries": ", ".join(f"{name} {value}" for name, value in sorted(versions.items())),
    }
    return {name: str(value or UNKNOWN) for name, value in facts.items()}
