"""Tables as HTML whose columns can be sorted."""

from html import escape

from adaam.report.tables import Cell, Table


def html_table(table: Table) -> str:
    """Return a table in a box that scrolls by itself; every heading is a button."""
    name, title = escape(table.name), escape(table.title)
    heads = "".join(
        f'<th scope="col" class="{_kind(table, j)}" aria-sort="none"><button type="button">{escape(column)}'
        '<span class="arrow" aria-hidden="true"></span></button></th>'
        for j, column in enumerate(table.columns)
    )
    body = "".join(f"<tr>{''.join(_cell(table, j, cell) for j, cell in enumerate(row))}</tr>\n" for row in table.rows)
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.remarks)
    if any(table.with_paper):
        notes += "<p>Small figures: the paper.</p>"
    return (
        f'<figure class="table" id="{name}"><figcaption id="{name}-title">{title}</figcaption>\n'
        f'<div class="box" tabindex="0" role="region" aria-labelledby="{name}-title">'
        f'<table class="sortable"><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'
        f'<div class="notes">{notes}</div></figure>'
    )


def _cell(table: Table, place: int, cell: Cell) -> str:
    own = escape(cell.text)
    shown = f"<strong>{own}</strong>" if cell.best else own
    beside = f' <small title="the paper">{escape(cell.paper)}</small>' if cell.paper else ""
    tag = 'th scope="row"' if place == 0 else "td"
    return f'<{tag} class="{_kind(table, place)}" data-value="{own}">{shown}{beside}</{tag.split()[0]}>'


def _kind(table: Table, place: int) -> str:
    return "word" if place < table.n_names else "number"
