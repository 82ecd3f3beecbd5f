"""Tables made from records alone, and their forms: terminal text, Markdown, CSV and LaTeX (booktabs)."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

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
    datasets = tuple(dict.fromkeys(each.setting.dataset for each in found))
    values = {(_row_of(each), each.setting.dataset): each for each in found}
    lines = sorted({_row_of(each) for each in found}, key=lambda row: (*_by_accuracy(row, found), *row_order(*row)))
    columns: list[list[Cell]] = []
    for dataset in datasets:
        for place, quantity in enumerate(("average", "maximum")):
            column = [values.get((line, dataset)) for line in lines]
            numbers = [None if each is None else 100 * float(getattr(each, quantity)) for each in column]
            paper = [paper_accuracy(dataset, method)[place] for method, _ in lines]
            columns.append(_numbers(numbers, 2, paper))
    headings = [f"{title_of(dataset)} {word}" for dataset in datasets for word in ("avg", "max")]
    rows = [
        (Cell(method_title(method)), Cell(preparation), *cells)
        for (method, preparation), *cells in zip(lines, *columns, strict=True)
    ]
    rounds = sorted({each.rounds for each in found})
    notes = [
        f"Accuracy (%): average and maximum over rounds ({', '.join(map(str, rounds))} a case), each the best of "
        "several k-means++ runs by inertia. Best of each column in bold (* in plain text).",
        *(f"{DATASETS[name].title}: {DATASETS[name].note}." for name in datasets if _noted(name)),
    ]
    return Table("table1", "Clustering accuracy", ("method", "preparation", *headings), tuple(rows), 2, tuple(notes))


def scores_table(found: Sequence[Summary]) -> Table:
    """Return a line for each case: what Table 1 has, and spread, NMI and ARI, which the paper lacks."""
    rows: list[tuple[Cell, ...]] = []
    for dataset in dict.fromkeys(each.setting.dataset for each in found):
        group = sorted((each for each in found if each.setting.dataset == dataset), key=lambda each: -each.average)
        columns = [
            _numbers(
                [100 * each.average for each in group], 2, [paper_accuracy(dataset, e.setting.method)[0] for e in group]
            ),
            _numbers(
                [100 * each.maximum for each in group], 2, [paper_accuracy(dataset, e.setting.method)[1] for e in group]
            ),
            [Cell(f"{100 * each.spread:.2f}") for each in group],
            _numbers([100 * each.nmi for each in group], 2),
            _numbers([100 * each.ari for each in group], 2),
            [Cell(str(each.rounds)) for each in group],
        ]
        for each, *cells in zip(group, *columns, strict=True):
            setting = each.setting
            names = (title_of(dataset), method_title(setting.method), setting.preparation)
            rows.append((*map(Cell, names), *cells))
    columns_names = ("data set", "method", "preparation", "avg", "max", "spread", "NMI", "ARI", "rounds")
    note = "Per cent. spread: standard deviation of the accuracy over rounds. NMI is normalised by the larger entropy."
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
    datasets = tuple(dict.fromkeys(each.setting.dataset for each in found))
    values = {(_row_of(each), each.setting.dataset): each for each in found}
    lines = sorted({_row_of(each) for each in found}, key=lambda row: row_order(*row))
    rows = []
    for method, preparation in lines:
        cells = []
        for dataset in datasets:
            each = values.get(((method, preparation), dataset))
            cells.append(Cell("–" if each is None else f"{each.fit_seconds:.2f}"))
            peak = None if each is None else each.peak_bytes
            cells.append(Cell("–" if peak is None else f"{peak / MEBIBYTE:.0f}"))
        rows.append((Cell(method_title(method)), Cell(preparation), *cells))
    headings = [f"{title_of(dataset)} {unit}" for dataset in datasets for unit in ("s", "MiB")]
    where = f" on {machine}" if machine else ""
    notes = (
        f"Seconds of the fit alone, without k-means (median of the fits), and its peak memory beyond the rows{where}. "
        "Cases that ran beside others are left out, since they slow each other down.",
    )
    return Table("times", "Time and memory of a fit", ("method", "preparation", *headings), tuple(rows), 2, notes)


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
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    beside = table.with_paper
    headings: list[str] = []
    for heading, has_paper in zip(table.columns, beside, strict=True):
        headings += [heading, f"{heading} (paper)"] if has_paper else [heading]
    writer.writerow(map(spreadsheet_text, headings))
    for row in table.rows:
        line: list[str] = []
        for place, (cell, has_paper) in enumerate(zip(row, beside, strict=True)):
            own = "" if cell.text == "–" else spreadsheet_text(cell.text) if place < table.n_names else cell.text
            line += [own, cell.paper] if has_paper else [own]
        writer.writerow(line)
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


def _numbers(values: Sequence[float | None], digits: int, paper: Sequence[float | None] = ()) -> list[Cell]:
    """Cells of a column; values that show alike are best alike."""
    shown = ["–" if value is None else f"{value:.{digits}f}" for value in values]
    known = [float(word) for word in shown if word != "–"]
    top = max(known, default=0.0)
    several = len(known) > 1
    beside = list(paper) or [None] * len(shown)
    return [
        Cell(word, several and word != "–" and float(word) == top, "" if its is None else f"{its:.{digits}f}")
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
