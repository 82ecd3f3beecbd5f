"""Render formulas as MathML, which browsers support natively: no script, font or network is needed."""

from docutils import nodes
from latex2mathml.converter import convert


def visit_inline(translator, node):
    translator.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def visit_block(translator, node):
    translator.body.append(f'<div class="math-block">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
