"""Directive for the tables that compare adaam with other libraries, made from peers.toml."""

import html
import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

DATA = Path(__file__).parents[1] / "peers.toml"
MARK = re.compile(r"(?:\s*\[[mcdik]\])+")


def read_peers():
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def cell(text):
    """Convert inline Markdown (code, bold, italics) to HTML; marks of evidence such as [m] become superscripts."""
    safe = html.escape(text)
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    safe = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", safe)
    safe = re.sub(r"(?<![\w*])\*([^*]+)\*(?![\w*])", r"<em>\1</em>", safe)
    return MARK.sub(lambda found: f"<sup>{found.group(0).replace('[', '').replace(']', ' ').strip()}</sup>", safe)


def html_table(head, rows):
    top = "".join(f"<th>{cell(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell(text)}</td>" for text in row) + "</tr>" for row in rows)
    return (
        '<div class="pst-scrollable-table-container"><table class="table peers">'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


class PeersTable(SphinxDirective):
    """`peers-table` with the argument core or neighbours."""

    required_arguments = 1

    def run(self):
        self.env.note_dependency(str(DATA))
        data = read_peers()
        if self.arguments[0] == "core":
            head = ["feature", "adaam", *data["peers"]]
            rows = [[row["name"], row["ours"], *row["peers"]] for row in data["feature"]]
        else:
            head = ["feature", *data["neighbours"]]
            rows = [[row["name"], *row["peers"]] for row in data["neighbour_feature"]]
        return [nodes.raw("", html_table(head, rows), format="html")]


def setup(app):
    app.add_directive("peers-table", PeersTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
