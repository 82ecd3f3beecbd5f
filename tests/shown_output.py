"""Compare output shown in the documentation with what the code prints; `python tests/shown_output.py` updates it.

In docs/*.md, a ```text block directly after a ```python block shows what that block prints, and a ```console block
shows a command and what it prints.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TABLES = ROOT / "examples" / "tables"
PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```$)?", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n\$ (?P<line>.+)\n(?P<shown>(?:(?!```).*\n)*)```$", re.MULTILINE)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def python_output(page):
    """Run the Python blocks of a page in order; for each that shows output, return it and what was printed."""
    names = {"__name__": "page"}
    found = []
    for block in PYTHON.finditer(page.read_text(encoding="utf-8")):
        terminal = io.StringIO()
        with contextlib.redirect_stdout(terminal):
            exec(compile(block["code"], str(page), "exec"), names)
        if block["shown"] is not None:
            found.append((block["shown"], terminal.getvalue()))
    return found


def console_output(page, folder):
    """Run the commands of a page in a folder with the example tables; return each, what is shown and what it prints."""
    for name in ("customers.csv", "new_customers.csv"):
        shutil.copy(TABLES / name, folder)
    lines = (TABLES / "customers.csv").read_text().splitlines()
    start, _, end = lines[17].rsplit(",", 2)
    lines[17] = f"{start},unknown,{end}"
    Path(folder, "broken.csv").write_text("\n".join(lines))
    with contextlib.chdir(folder):
        return [(b["line"], b["shown"], printed(b["line"])) for b in CONSOLE.finditer(page.read_text(encoding="utf-8"))]


def printed(line):
    """Return what a command prints on the terminal, both streams in order."""
    from adaam.cli import main

    words = shlex.split(line)
    if words[0] == "head":
        return "".join(Path(words[2]).read_text().splitlines(keepends=True)[: int(words[1][1:])])
    terminal = io.StringIO()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal), warnings.catch_warnings():
        main(words[1:])
    return terminal.getvalue()


def same_output(shown, output):
    """Return whether two outputs have the same words, and numbers that differ by rounding at most."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", output).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(output), strict=True)
    return all(abs(float(a) - float(b)) <= 0.02 * abs(float(b)) + 0.1 for a, b in pairs)


def refresh(page):
    """Update the output shown on a page."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        if CONSOLE.search(text):
            outputs = iter(console_output(page, folder))
            text = CONSOLE.sub(lambda b: "```console\n$ {0}\n{2}```".format(*next(outputs)), text)
        if any(block["shown"] is not None for block in PYTHON.finditer(text)):
            with contextlib.chdir(folder):
                printed_by = iter(python_output(page))
            text = PYTHON.sub(
                lambda b: (
                    b[0] if b["shown"] is None else f"```python\n{b['code']}```\n\n```text\n{next(printed_by)[1]}```"
                ),
                text,
            )
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    for each in [Path(name) for name in sys.argv[1:]] or sorted(DOCS.glob("*.md")):
        before = each.read_text(encoding="utf-8")
        refresh(each.resolve())
        if each.read_text(encoding="utf-8") != before:
            sys.stdout.write(f"written: {each.name}\n")
