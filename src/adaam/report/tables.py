"""Tables made from records alone, and their forms: terminal text, Markdown, CSV and LaTeX (booktabs)."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from adaam.bench.datasets import DATASETS, title_of
from adaam.bench.skips import skip_notes
from adaam.files import spreadsheet_text
from adaam.report.summary import (
    Record,
    Summary,
    method_title,
    paper_accuracy,
    paper_statistics,
    row_order,
    summaries,
    timed_alone,
)

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as it is shown, whether it is the best of its column, and what the paper has in its place."""

    text: str
    best: bool = False
    paper: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns and rows of cells; the first `n_names` columns are words, the others numbers."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    n_names: int
    remarks: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What stands below the table."""
        return (*self.remarks, *(["In brackets: the paper."] if any(self.with_paper) else []))

    @property
    def with_paper(self) -> tuple[bool, ...]:
        """Whether any cell of each column has a value of the paper beside it."""
        return tuple(any(row[j].paper for row in self.rows) for j in range(len(self.columns)))


# Columns of a data set from the case of each line, where it was run.
Columns: TypeAlias = Callable[[str, list[Summary | None]], Iterator[list[Cell]]]


def all_tables(records: Iterable[Record]) -> list[Table]:
    """Return every table that the records fill."""
    records = list(records)
    defaults = [each for each in summaries(records) if each.setting.is_default]
    accuracy = accuracy_table(defaults)
    accuracy = replace(accuracy, remarks=(*accuracy.remarks, *skip_notes(records)))
    alone, machine = timed_alone(records)
    timed = [each for each in summaries(alone) if each.setting.is_default]
    tables = [accuracy, scores_table(defaults), statistics_table(defaults), times_table(timed, machine)]
    return [table for table in tables if table.rows]


def accuracy_table(found: Sequence[Summary]) -> Table:
    """Table 1: average and maximum accuracy of every method on every set, the paper's beside ours."""
    lines = sorted({_row_of(each) for each in found}, key=lambda row: (*_by_accuracy(row, found), *row_order(*row)))

    def columns(dataset: str, column: list[Summary | None]) -> Iterator[list[Cell]]:
        for place, quantity in enumerate(("average", "maximum")):
            numbers = [None if each is None else 100 * float(getattr(each, quantity)) for each in column]
            yield _numbers(numbers, [paper_accuracy(dataset, method)[place] for method, _ in lines])

    datasets = dict.fromkeys(each.setting.dataset for each in found)
    rounds = sorted({each.rounds for each in found})
    notes = [
        f"Accuracy (%): average and maximum over rounds ({', '.join(map(str, rounds))} a case), each the best of "
        "several k-means++ runs by inertia. Best of each column in bold (* in plain text).",
        *(f"{DATASETS[name].title}: {DATASETS[name].note}." for name in datasets if _noted(name)),
    ]
    return Table("table1", "Clustering accuracy", *_wide(found, lines, ("avg", "max"), columns), 2, tuple(notes))


def scores_table(found: Sequence[Summary]) -> Table:
    """Return a line for each case: what Table 1 has, and spread, NMI and ARI, which the paper lacks."""
    rows: list[tuple[Cell, ...]] = []
    for dataset in dict.fromkeys(each.setting.dataset for each in found):
        group = sorted((each for each in found if each.setting.dataset == dataset), key=lambda each: -each.average)
        averages, maxima = zip(*(paper_accuracy(dataset, each.setting.method) for each in group), strict=True)
        columns = [
            _numbers([100 * each.average for each in group], averages),
            _numbers([100 * each.maximum for each in group], maxima),
            [Cell(f"{100 * each.spread:.2f}") for each in group],
            _numbers([100 * each.nmi for each in group]),
            _numbers([100 * each.ari for each in group]),
            [Cell(str(each.rounds)) for each in group],
        ]
        for each, *cells in zip(group, *columns, strict=True):
            setting = each.setting
            names = (title_of(dataset), method_title(setting.method), setting.preparation)
            rows.append((*map(Cell, names), *cells))
    columns_names = ("data set", "method", "preparation", "avg", "max", "spread", "NMI", "ARI", "rounds")
    note = (
        "In percent. spread: standard deviation of the accuracy over rounds. NMI is normalised by the larger entropy."
    )
    return Table("scores", "Scores of every case", columns_names, tuple(rows), 3, (note,))


def statistics_table(found: Sequence[Summary]) -> Table:
    """Table 2: sizes of the data sets, the paper's beside those that were run."""
    rows = []
    for dataset, each in {each.setting.dataset: each for each in found}.items():
        paper = paper_statistics(dataset) or (None, None, None)
        ours = (each.n, each.d, each.c)
        cells = (Cell(str(own), paper="" if its is None else str(its)) for own, its in zip(ours, paper, strict=True))
        rows.append((Cell(title_of(dataset)), *cells, Cell(str(each.k))))
    columns = ("data set", "instances", "features", "classes", "k")
    notes = ("k: neighbours of each row, round(log2(instances / classes)).",)
    return Table("table2", "Data sets", columns, tuple(rows), 1, notes)


def times_table(found: Sequence[Summary], machine: str = "") -> Table:
    """Seconds of a fit and the memory it took beyond what the process held before, of fits that ran alone."""

    def columns(_: str, column: list[Summary | None]) -> Iterator[list[Cell]]:
        yield [Cell("–" if each is None else f"{each.fit_seconds:.2f}") for each in column]
        peaks = [None if each is None else each.peak_bytes for each in column]
        yield [Cell("–" if peak is None else f"{peak / MEBIBYTE:.0f}") for peak in peaks]

    lines = sorted({_row_of(each) for each in found}, key=lambda row: row_order(*row))
    where = f" on {machine}" if machine else ""
    notes = (
        f"Seconds of the fit alone, without k-means (median of the fits), and its peak memory beyond the rows{where}. "
        "Cases that ran beside others are left out, since they slow each other down.",
    )
    return Table("times", "Time and memory of a fit", *_wide(found, lines, ("s", "MiB"), columns), 2, notes)


def _wide(
    found: Sequence[Summary], lines: Sequence[tuple[str, str]], words: tuple[str, ...], columns: Columns
) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
    """Headings and rows of a table with a line for each method and preparation, and a few columns for each data set."""
    datasets = tuple(dict.fromkeys(each.setting.dataset for each in found))
    values = {(_row_of(each), each.setting.dataset): each for each in found}
    cells = [column for name in datasets for column in columns(name, [values.get((line, name)) for line in lines])]
    headings = [f"{title_of(name)} {word}" for name in datasets for word in words]
    rows = (
        (Cell(method_title(method)), Cell(preparation), *row)
        for (method, preparation), *row in zip(lines, *cells, strict=True)
    )
    return ("method", "preparation", *headings), tuple(rows)


def text(table: Table) -> str:
    """Return a table for the terminal: aligned columns, the best marked by a star."""
    shown = [[_with_paper(f"{cell.text}{'*' if cell.best else ''}", cell) for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.columns, *shown, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.ljust(width) if place < table.n_names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([table.title, "", line(table.columns), rule, *map(line, shown), "", *table.notes]) + "\n"


def markdown(table: Table) -> str:
    """Return a table in Markdown, the best in bold."""
    marks = ["---" if place < table.n_names else "---:" for place in range(len(table.columns))]
    lines = [f"### {table.title}", "", _bar(table.columns), _bar(marks)]
    lines += [
        _bar([_with_paper(f"**{cell.text}**" if cell.best else cell.text, cell) for cell in row]) for row in table.rows
    ]
    return "\n".join([*lines, "", *(f"{note}\n" for note in table.notes)])


def csv_text(table: Table) -> str:
    """Return a table as CSV; the paper's values have columns of their own."""

    def line(pairs: Iterable[tuple[str, str]]) -> list[str]:
        return [word for pair, both in zip(pairs, table.with_paper, strict=True) for word in pair[: 1 + both]]

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(spreadsheet_text, line((heading, f"{heading} (paper)") for heading in table.columns)))
    for row in table.rows:
        own = ["" if cell.text == "–" else cell.text for cell in row]
        own[: table.n_names] = map(spreadsheet_text, own[: table.n_names])
        writer.writerow(line(zip(own, (cell.paper for cell in row), strict=True)))
    return stream.getvalue()


def latex(table: Table) -> str:
    """Return a table for LaTeX with booktabs, the best in bold."""

    def shown(cell: Cell) -> str:
        own = escaped(cell.text)
        return _with_paper(f"\\textbf{{{own}}}" if cell.best else own, cell)

    layout = "l" * table.n_names + "r" * (len(table.columns) - table.n_names)
    return "\n".join(
        [
            "% \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{escaped(table.title)}. {escaped(' '.join(table.notes))}}}",
            f"\\label{{tab:{table.name}}}",
            f"\\begin{{tabular}}{{{layout}}}",
            "\\toprule",
            " & ".join(map(escaped, table.columns)) + " \\\\",
            "\\midrule",
            *(" & ".join(map(shown, row)) + " \\\\" for row in table.rows),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


RENDERERS: dict[str, Callable[[Table], str]] = {".txt": text, ".md": markdown, ".csv": csv_text, ".tex": latex}

_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "–": "--",
}


def escaped(words: str) -> str:
    """Return words with LaTeX's own signs made harmless."""
    return "".join(_LATEX.get(sign, sign) for sign in words)


def _numbers(values: Sequence[float | None], paper: Sequence[float | None] = ()) -> list[Cell]:
    """Cells of a column; values that show alike are best alike."""
    shown = ["–" if value is None else f"{value:.2f}" for value in values]
    known = [float(word) for word in shown if word != "–"]
    top = max(known, default=0.0)
    several = len(known) > 1
    beside = list(paper) or [None] * len(shown)
    return [
        Cell(word, several and word != "–" and float(word) == top, "" if its is None else f"{its:.2f}")
        for word, its in zip(shown, beside, strict=True)
    ]


def _with_paper(own: str, cell: Cell) -> str:
    return f"{own} ({cell.paper})" if cell.paper else own


def _bar(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _row_of(each: Summary) -> tuple[str, str]:
    return each.setting.method, each.setting.preparation


def _by_accuracy(row: tuple[str, str], found: Sequence[Summary]) -> tuple[float, float]:
    """Place of a line: methods run on more data sets first, then those of the better average over them."""
    own = [each.average for each in found if _row_of(each) == row]
    return -len(own), -sum(own) / len(own)


def _noted(name: str) -> bool:
    return name in DATASETS and bool(DATASETS[name].note)
