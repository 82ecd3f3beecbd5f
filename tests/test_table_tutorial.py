"""The page about tables shows what the commands print, and a script makes its tables."""

import sys

from shown_output import DOCS, TABLES, console_output


def test_the_page_shows_what_the_commands_print(tmp_path):
    found = console_output(DOCS / "tables.md", tmp_path)
    assert len(found) == 5
    for line, shown, output in found:
        assert shown == output, f"$ {line}"
    assert "is numeric, but row 17 (line 18) holds 'unknown'" in found[-1][2]


def test_the_example_tables_are_what_their_script_makes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TABLES))
    make = __import__("make_customers")
    make.write(tmp_path / "customers.csv", make.customers(240, seed=0))
    assert (tmp_path / "customers.csv").read_bytes() == (TABLES / "customers.csv").read_bytes()
    sys.modules.pop("make_customers", None)
