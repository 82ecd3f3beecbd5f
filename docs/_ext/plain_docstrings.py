"""Escape names such as `mean_` and |x| in docstrings, which are plain text, so that they are not read as markup."""

import re

SECTIONS = ("Parameters", "Returns", "Attributes", "Raises")
TRAILING = re.compile(r"(?<![\\`\w])(\w*\w)_(?![\w`])")


def escaped(text):
    """Escape trailing underscores and bars outside code."""
    parts = re.split(r"(`+[^`]*`+)", text)
    plain = [TRAILING.sub(r"\1\\_", part).replace("|", r"\|") for part in parts[::2]]
    parts[::2] = plain
    return "".join(parts)


def process(app, what, name, obj, options, lines):
    section = ""
    for place, line in enumerate(lines):
        if place + 1 < len(lines) and set(lines[place + 1]) == {"-"}:
            section = line.strip()
        if section == "Examples" or set(line) == {"-"}:
            continue
        if section in SECTIONS and line and not line.startswith(" "):
            head, colon, kind = line.partition(" : ")
            lines[place] = head + colon + escaped(kind)
        else:
            lines[place] = escaped(line)


def setup(app):
    app.connect("autodoc-process-docstring", process, priority=100)  # before numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
