"""Directive that shows the source of a function without its docstring, for pages that explain it themselves."""

import ast
import textwrap
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

SOURCE = Path(__file__).parents[2] / "src"


def body_of(path, name):
    """Return the source of a function or method (a dotted name) without its docstring."""
    text = path.read_text(encoding="utf-8")
    node = ast.parse(text)
    for part in name.split("."):
        found = [child for child in node.body if getattr(child, "name", None) == part]
        if not found:
            raise LookupError(f"{path} defines no {name}")
        node = found[0]
    lines = text.splitlines()
    kept = list(range(node.lineno - 1, node.end_lineno))
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        kept = [i for i in kept if not docstring.lineno - 1 <= i < docstring.end_lineno]
    return textwrap.dedent("\n".join(lines[i] for i in kept))


class CodeOf(SphinxDirective):
    """`code-of` with the arguments file and name: `adaam/projection.py lpp`."""

    required_arguments = 2

    def run(self):
        path = SOURCE / self.arguments[0]
        self.env.note_dependency(str(path))
        try:
            code = body_of(path, self.arguments[1])
        except (LookupError, OSError) as error:
            raise self.error(str(error)) from error
        block = nodes.literal_block(code, code, language="python", classes=["code-of"])
        place = nodes.paragraph("", "", nodes.emphasis("", f"{self.arguments[1]} in src/{self.arguments[0]}"))
        place["classes"].append("code-place")
        return [place, block]


def setup(app):
    app.add_directive("code-of", CodeOf)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
