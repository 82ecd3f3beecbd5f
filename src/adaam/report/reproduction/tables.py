"""Tables as HTML whose columns can be sorted."""

from html import escape

from adaam.report.reproduction.overview import OWN
from adaam.report.summary import method_title
from adaam.report.tables import Cell, Table

PAPER_NAMES = {"table1": "Table 1. ", "table2": "Table 2. "}
OURS = frozenset(map(method_title, OWN))
LONG = 40  # lines from which a table scrolls in its box


def html_table(table: Table) -> str:
    """Return a table in a box that scrolls by itself; every heading is a button."""
    name, title = escape(table.name), escape(PAPER_NAMES.get(table.name, "") + table.title)
    heads = "".join(
        f'<th scope="col" class="{_kind(table, j)}" aria-sort="none"><button type="button">{escape(column)}'
        '<span class="arrow" aria-hidden="true"></span></button></th>'
        for j, column in enumerate(table.columns)
    )
    body = "".join(
        f"<tr{_mark(row)}>{''.join(_cell(table, j, cell) for j, cell in enumerate(row))}</tr>\n" for row in table.rows
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.remarks)
    if any(table.with_paper):
        notes += "<p>Small figures: the paper.</p>"
    is_long = len(table.rows) > LONG
    notes += f"<p>{len(table.rows)} lines; the box scrolls.</p>" if is_long else ""
    return (
        f'<figure class="table" id="{name}"><figcaption id="{name}-title">{title}</figcaption>\n'
        f'<div class="box{" long" if is_long else ""}" tabindex="0" role="region" aria-labelledby="{name}-title">'
        f'<table class="sortable"><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'
        f'<div class="notes">{notes}</div></figure>'
    )


def _cell(table: Table, place: int, cell: Cell) -> str:
    own = escape(cell.text)
    shown = f"<strong>{own}</strong>" if cell.best else own
    # Where others of the column have the paper beside them, an empty place keeps the figures in line.
    beside = f' <small title="the paper">{escape(cell.paper)}</small>' if table.with_paper[place] else ""
    tag = 'th scope="row"' if place == 0 else "td"
    return f'<{tag} class="{_kind(table, place)}" data-value="{own}">{shown}{beside}</{tag.split()[0]}>'


def _mark(row: tuple[Cell, ...]) -> str:
    """Rows of the methods that the page is about are told from the others."""
    return ' class="ours"' if OURS & {cell.text for cell in row} else ""


def _kind(table: Table, place: int) -> str:
    return "word" if place < table.n_names else "number"
