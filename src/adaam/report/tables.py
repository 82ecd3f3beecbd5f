"""Tables built from records, and their formats: terminal text, Markdown, CSV, LaTeX (booktabs) and HTML."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from adaam.bench.datasets import DATASETS, title_of
from adaam.bench.records import identity
from adaam.files import spreadsheet_text
from adaam.report.overview import OWN
from adaam.report.summary import (
    PAPER,
    Record,
    Setting,
    Summary,
    by_dataset,
    default_summaries,
    distinct,
    method_title,
    paper_accuracy,
    row_order,
    setting_of,
    setting_order,
    timed_alone,
)

MEBIBYTE = 1 << 20
MISSING = "–"


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as shown, whether it is the best of its column, and the paper's value."""

    text: str
    best: bool = False
    paper: str = ""

    def words(self, best: str, clean: Callable[[str], str] = str) -> str:
        """Return the value, formatted by `best` if it is the best, and the paper's in brackets."""
        own = clean(self.text)
        return (best.format(own) if self.best else own) + (f" ({self.paper})" if self.paper else "")


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns and rows of cells; the first `n_names` columns are text, the others numbers."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    n_names: int
    remarks: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes shown below the table."""
        return (*self.remarks, *(["In brackets: the paper."] if any(self.with_paper) else []))

    @property
    def with_paper(self) -> tuple[bool, ...]:
        """For each column, whether any of its cells has a value of the paper."""
        return tuple(any(row[j].paper for row in self.rows) for j in range(len(self.columns)))


def all_tables(records: Sequence[Record]) -> list[Table]:
    """Return every table that the records have data for."""
    found = default_summaries(records)
    alone, machine = timed_alone(records)
    tables = [
        accuracy_table(found, skip_notes(records)),
        scores_table(found),
        statistics_table(found),
        times_table(default_summaries(alone), machine),
    ]
    return [table for table in tables if table.rows]


def accuracy_table(found: Sequence[Summary], left_out: Sequence[str] = ()) -> Table:
    """Table 1: average and maximum accuracy of every method on every data set, with the paper's."""
    averages: dict[tuple[str, str], list[float]] = {}
    for each in found:
        averages.setdefault(each.setting.row, []).append(each.average)
    # Methods run on more data sets come first; of those on equally many, the one of better average.
    places = {row: (-len(own), -sum(own) / len(own), *row_order(*row)) for row, own in averages.items()}
    rows = sorted(places, key=places.__getitem__)
    columns: list[tuple[str, list[Cell]]] = []
    for dataset, group in by_dataset(found).items():
        cases = {each.setting.row: each for each in group}
        for place, (word, quantity) in enumerate((("avg", "average"), ("max", "maximum"))):
            numbers = [100 * getattr(cases[row], quantity) if row in cases else None for row in rows]
            paper = [paper_accuracy(dataset, method)[place] for method, _ in rows]
            columns.append((f"{title_of(dataset)} {word}", _numbers(numbers, paper)))
    rounds = ", ".join(map(str, sorted({each.rounds for each in found})))
    notes = [
        f"Accuracy (%): average and maximum over rounds ({rounds} per case), each the best of several k-means++ runs "
        "by inertia. Best of each column in bold (* in plain text)."
    ]
    listed = [DATASETS[name] for name in by_dataset(found) if name in DATASETS]
    notes += [f"{each.title}: {each.note}." for each in listed if each.note]
    return _by_method("table1", "Clustering accuracy", rows, columns, [*notes, *left_out])


def skip_notes(records: Iterable[Record]) -> list[str]:
    """Return a line for each reason why a case was skipped, with the data sets; cases that were run are left out."""
    run = set(map(setting_of, distinct(records)))
    reasons: dict[str, dict[str, None]] = {}
    for record in distinct(records, "skip"):
        if setting_of(record) not in run:
            reasons.setdefault(record["reason"], {})[title_of(record["dataset"])] = None
    return [f"Left out ({', '.join(titles)}): {reason}." for reason, titles in reasons.items()]


def scores_table(found: Sequence[Summary]) -> Table:
    """Return a line for each case: the columns of Table 1, and spread, NMI and ARI, which the paper lacks."""
    rows: list[tuple[Cell, ...]] = []
    for dataset, cases in by_dataset(found).items():
        group = sorted(cases, key=lambda each: -each.average)
        paper = [paper_accuracy(dataset, each.setting.method) for each in group]
        columns = (
            [Cell(title_of(dataset)) for _ in group],
            [Cell(method_title(each.setting.method)) for each in group],
            [Cell(each.setting.preparation) for each in group],
            _numbers([100 * each.average for each in group], [average for average, _ in paper]),
            _numbers([100 * each.maximum for each in group], [maximum for _, maximum in paper]),
            [Cell(f"{100 * each.spread:.2f}") for each in group],
            _numbers([100 * each.nmi for each in group]),
            _numbers([100 * each.ari for each in group]),
            [Cell(str(each.rounds)) for each in group],
        )
        rows += zip(*columns, strict=True)
    headings = ("data set", "method", "preparation", "avg", "max", "spread", "NMI", "ARI", "rounds")
    note = (
        "In percent. spread: standard deviation of the accuracy over rounds. NMI is normalised by the larger entropy."
    )
    return Table("scores", "Scores of every case", headings, tuple(rows), 3, (note,))


def statistics_table(found: Sequence[Summary]) -> Table:
    """Table 2: sizes of the data sets as run, with the paper's."""
    rows = []
    for dataset, group in by_dataset(found).items():
        each = group[-1]
        paper = PAPER["table2"].get(dataset, ("", "", ""))
        sizes = (Cell(str(own), paper=str(its)) for own, its in zip((each.n, each.d, each.c), paper, strict=True))
        rows.append((Cell(title_of(dataset)), *sizes, Cell(str(each.k))))
    headings = ("data set", "instances", "features", "classes", "k")
    note = "k: neighbours of each row, round(log2(instances / classes))."
    return Table("table2", "Data sets", headings, tuple(rows), 1, (note,))


def times_table(found: Sequence[Summary], machine: str = "") -> Table:
    """Time and memory (beyond what the process held before) of fits that ran alone."""
    rows = sorted({each.setting.row for each in found}, key=lambda row: row_order(*row))
    columns: list[tuple[str, list[Cell]]] = []
    for dataset, group in by_dataset(found).items():
        seconds = {each.setting.row: f"{each.fit_seconds:.2f}" for each in group}
        peaks = {each.setting.row: f"{each.peak_bytes / MEBIBYTE:.0f}" for each in group if each.peak_bytes is not None}
        for word, shown in (("s", seconds), ("MiB", peaks)):
            columns.append((f"{title_of(dataset)} {word}", [Cell(shown.get(row, MISSING)) for row in rows]))
    where = f" on {machine}" if machine else ""
    note = (
        f"Seconds of the fit alone, without k-means (median of the fits), and its peak memory beyond the rows{where}. "
        "Cases that ran beside others are left out, since they slow each other down."
    )
    return _by_method("times", "Time and memory of a fit", rows, columns, [note])


def cases_table(records: Sequence[Record]) -> Table:
    """Return a line for every case of the records: how its numbers were computed, and in which session."""
    latest: dict[tuple[Any, ...], tuple[int, Record]] = {}  # of records of the same round, the last counts
    session = 0
    for record in records:
        if record.get("kind") == "session":
            session += 1
        elif record.get("kind") in ("score", "histogram"):
            latest[identity(record)] = (max(session, 1), record)
    groups: dict[tuple[Setting, str], list[tuple[int, Record]]] = {}
    for number, record in latest.values():
        groups.setdefault((setting_of(record), record["kind"]), []).append((number, record))
    rows = []
    for setting, kind in sorted(groups, key=lambda group: (*setting_order(group[0]), group[1])):
        numbers, found = zip(*groups[setting, kind], strict=True)
        seeds = sorted({int(record["seed"]) for record in found})
        is_score = kind == "score"
        words = (
            title_of(setting.dataset),
            method_title(setting.method),
            setting.preparation,
            _place_of(setting) if is_score else "Fig. 1b",
            found[0]["n"],
            found[0]["k"],
            setting.n_iter,
            len(found),
            "–".join(map(str, dict.fromkeys((seeds[0], seeds[-1])))),
            found[0].get("n_starts", MISSING),
            f"{100 * sum(each['acc'] for each in found) / len(found):.2f}" if is_score else MISSING,
            ", ".join(map(str, sorted(set(numbers)))),
        )
        rows.append(tuple(Cell(str(word)) for word in words))
    columns = ("data set", "method", "preparation", "shows", "rows", "k", "passes", "rounds", "seeds", "starts", "acc")
    note = (
        "A round depends on its seed alone. starts: k-means++ runs in each round; the one of least inertia counts. "
        "acc: average accuracy in percent."
    )
    return Table("cases", "Every case", (*columns, "session"), tuple(rows), 4, (note,))


def _place_of(setting: Setting) -> str:
    """The table or figure that shows a case."""
    if setting.is_default:
        return "Table 1"
    if setting.n_rows is not None:
        return "Fig. 3"
    return "Fig. 1a" if setting.n_iter > 1 else "Fig. 2"


def _by_method(
    name: str,
    title: str,
    methods: Sequence[tuple[str, str]],
    columns: Sequence[tuple[str, list[Cell]]],
    remarks: Sequence[str],
) -> Table:
    """A table with a line for each method and preparation."""
    headings = ("method", "preparation", *(heading for heading, _ in columns))
    rows = (
        (Cell(method_title(method)), Cell(preparation), *(cells[place] for _, cells in columns))
        for place, (method, preparation) in enumerate(methods)
    )
    return Table(name, title, headings, tuple(rows), 2, tuple(remarks))


def _numbers(values: Sequence[float | None], paper: Sequence[float | None] = ()) -> list[Cell]:
    """Cells of a column; all values that equal the best as shown are marked."""
    shown = [MISSING if value is None else f"{value:.2f}" for value in values]
    known = [float(word) for word in shown if word != MISSING]
    best = f"{max(known):.2f}" if len(known) > 1 else None
    beside = ["" if value is None else f"{value:.2f}" for value in paper] or [""] * len(shown)
    return [Cell(word, word == best, its) for word, its in zip(shown, beside, strict=True)]


def text(table: Table) -> str:
    """Return a table for the terminal: aligned columns, the best marked by a star."""
    rows = [[cell.words("{}*") for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.columns, *rows, strict=True)]
    sides = "<" * table.n_names + ">" * (len(widths) - table.n_names)

    def line(cells: Sequence[str]) -> str:
        aligned = (f"{cell:{side}{width}}" for cell, side, width in zip(cells, sides, widths, strict=True))
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([table.title, "", line(table.columns), rule, *map(line, rows), "", *table.notes]) + "\n"


def markdown(table: Table) -> str:
    """Return a table in Markdown, the best in bold."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = ["---" if place < table.n_names else "---:" for place in range(len(table.columns))]
    rows = [[cell.words("**{}**") for cell in row] for row in table.rows]
    notes = [f"{note}\n" for note in table.notes]
    return "\n".join([f"### {table.title}", "", *map(line, (table.columns, rule, *rows)), "", *notes])


def csv_text(table: Table) -> str:
    """Return a table as CSV; the paper's values have columns of their own."""

    def line(pairs: Iterable[tuple[str, str]]) -> list[str]:
        return [word for pair, both in zip(pairs, table.with_paper, strict=True) for word in pair[: 1 + both]]

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(spreadsheet_text, line((heading, f"{heading} (paper)") for heading in table.columns)))
    for row in table.rows:
        own = ["" if cell.text == MISSING else cell.text for cell in row]
        own[: table.n_names] = map(spreadsheet_text, own[: table.n_names])
        writer.writerow(line(zip(own, (cell.paper for cell in row), strict=True)))
    return stream.getvalue()


LATEX = """\
% \\usepackage{{booktabs}}
\\begin{{table}}
\\centering
\\caption{{{title}. {notes}}}
\\label{{tab:{name}}}
\\begin{{tabular}}{{{layout}}}
\\toprule
{head}
\\midrule
{body}
\\bottomrule
\\end{{tabular}}
\\end{{table}}
"""


def latex(table: Table) -> str:
    """Return a table for LaTeX with booktabs, the best in bold."""

    def line(cells: Iterable[str]) -> str:
        return " & ".join(cells) + " \\\\"

    return LATEX.format(
        title=escaped(table.title),
        notes=escaped(" ".join(table.notes)),
        name=table.name,
        layout="l" * table.n_names + "r" * (len(table.columns) - table.n_names),
        head=line(map(escaped, table.columns)),
        body="\n".join(line(cell.words("\\textbf{{{}}}", escaped) for cell in row) for row in table.rows),
    )


LATEX_SIGNS = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", MISSING: "--"}
)


def escaped(words: str) -> str:
    """Return text with LaTeX's special characters escaped."""
    return words.translate(LATEX_SIGNS)


RENDERERS: dict[str, Callable[[Table], str]] = {".txt": text, ".md": markdown, ".csv": csv_text, ".tex": latex}


PAPER_NAMES = {"table1": "Table 1. ", "table2": "Table 2. "}
OURS = frozenset(map(method_title, OWN))
LONG = 40  # tables with more lines scroll in their box


def html_table(table: Table) -> str:
    """Return a table for the page, in a scrolling box; every heading is a button that sorts."""
    name, title = escape(table.name), escape(PAPER_NAMES.get(table.name, "") + table.title)
    kinds = ["word" if place < table.n_names else "number" for place in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col" class="{kind}" aria-sort="none"><button type="button">{escape(column)}'
        '<span class="arrow" aria-hidden="true"></span></button></th>'
        for kind, column in zip(kinds, table.columns, strict=True)
    )
    body = ""
    for row in table.rows:
        cells = ""
        for cell, kind, has_paper in zip(row, kinds, table.with_paper, strict=True):
            own = escape(cell.text)
            shown = f"<strong>{own}</strong>" if cell.best else own
            # If other cells of the column have the paper's value, an empty one keeps the numbers aligned.
            shown += f' <small title="the paper">{escape(cell.paper)}</small>' if has_paper else ""
            tag, scope = ("td", "") if cells else ("th", ' scope="row"')
            cells += f'<{tag}{scope} class="{kind}" data-value="{own}">{shown}</{tag}>'
        # Rows of this library's own methods are highlighted.
        mark = ' class="ours"' if OURS & {cell.text for cell in row} else ""
        body += f"<tr{mark}>{cells}</tr>\n"
    notes = [*table.remarks, *(["Small figures: the paper."] if any(table.with_paper) else [])]
    is_long = len(table.rows) > LONG
    notes += [f"{len(table.rows)} lines; the box scrolls."] if is_long else []
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f'<figure class="table" id="{name}"><figcaption id="{name}-title">{title}</figcaption>\n'
        f'<div class="box{" long" if is_long else ""}" tabindex="0" role="region" aria-labelledby="{name}-title">'
        f'<table class="sortable"><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'
        f'<div class="notes">{below}</div></figure>'
    )
