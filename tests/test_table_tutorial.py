"""The page about tables shows what the commands print, and a script makes its tables."""

import runpy
import shutil

import pytest

from shown_output import DOCS, TABLES, console_output


def test_the_page_shows_what_the_commands_print(tmp_path):
    found = console_output(DOCS / "tables.md", tmp_path)
    assert len(found) == 5
    for line, shown, output in found:
        assert shown == output, f"$ {line}"
    assert "is numeric, but row 17 (line 18) holds 'unknown'" in found[-1][2]


@pytest.mark.parametrize("name", ["customers.csv", "new_customers.csv"])
def test_the_example_tables_are_what_their_script_makes(tmp_path, name):
    shutil.copy(TABLES / "make_customers.py", tmp_path)
    runpy.run_path(str(tmp_path / "make_customers.py"), run_name="__main__")  # it writes next to itself
    assert (tmp_path / name).read_bytes() == (TABLES / name).read_bytes()
