"""The page about tables shows what the commands print: `python tests/test_table_tutorial.py` writes it anew."""

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
PAGE = ROOT / "docs" / "tables.md"
EXAMPLES = ROOT / "examples" / "tables"
BLOCK = re.compile(r"^```console\n\$ (.+)\n((?:(?!```).*\n)*)```$", flags=re.MULTILINE)


def printed(line):
    """What a command of the page prints on the terminal, both streams in order."""
    from adaam.cli import main

    words = shlex.split(line)
    if words[0] == "head":
        return "".join(Path(words[2]).read_text().splitlines(keepends=True)[: int(words[1][1:])])
    terminal = io.StringIO()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal), warnings.catch_warnings():
        main(words[1:])
    return terminal.getvalue()


def shown_and_printed(folder):
    """Each command of the page with what the page shows and what it prints in a folder with the tables."""
    for name in ("customers.csv", "new_customers.csv"):
        shutil.copy(EXAMPLES / name, folder)
    lines = (EXAMPLES / "customers.csv").read_text().splitlines()
    start, _, end = lines[17].rsplit(",", 2)
    lines[17] = f"{start},unknown,{end}"
    Path(folder, "broken.csv").write_text("\n".join(lines))
    before = Path.cwd()
    os.chdir(folder)
    try:
        return [(line, shown, printed(line)) for line, shown in BLOCK.findall(PAGE.read_text())]
    finally:
        os.chdir(before)


def test_the_page_shows_what_the_commands_print(tmp_path):
    found = shown_and_printed(tmp_path)
    assert len(found) == 5
    for line, shown, output in found:
        assert shown == output, f"$ {line}"
    assert "is numeric, but row 17 (line 18) holds 'unknown'" in found[-1][2]


def test_the_example_tables_are_what_their_script_makes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    make = __import__("make_customers")
    make.write(tmp_path / "customers.csv", make.customers(240, seed=0))
    assert (tmp_path / "customers.csv").read_bytes() == (EXAMPLES / "customers.csv").read_bytes()
    sys.modules.pop("make_customers", None)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        outputs = iter(shown_and_printed(folder))

    def fresh(_):
        line, _, output = next(outputs)
        return f"```console\n$ {line}\n{output}```"

    PAGE.write_text(BLOCK.sub(fresh, PAGE.read_text()))
