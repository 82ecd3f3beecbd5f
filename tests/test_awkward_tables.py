"""Each awkward table through the command line: a sensible result, or a message with column, row, cause and option."""

import io
import sys

import numpy as np
import pytest

from adaam.cli import main
from adaam.scores import adjusted_rand_index
from awkward_tables import GROUP, N, tables

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")


def test_there_are_more_than_eighty():
    assert len({table.name for table in tables()}) >= 80


@pytest.mark.parametrize("table", tables(), ids=lambda table: table.name)
def test_an_awkward_table(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = "-" if table.stdin else table.name
    if table.stdin:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table.content)))
    else:
        (tmp_path / table.name).write_bytes(table.content)
    chooses = table.chooses or "--text" in table.options
    learner = [] if chooses else ["--head", "k-means", "--preparation", "standard"]
    code = main(["cluster", source, "--clusters", "3", *learner, *table.options])
    out, err = capsys.readouterr()
    for part in table.told:
        assert part in err
    if table.fails:
        assert code == 1
        assert out == ""
        assert err.count("\n") == 1, "one line"
        return
    assert code == 0, err
    head, *lines = out.splitlines()
    assert head.startswith(table.header or "row,cluster")
    labels = np.array([int(line.split(",")[1]) for line in lines])
    if "drop-rows" in table.options:
        assert 0 < len(lines) < N
    else:
        assert len(labels) == N
        # With 30 % of the values missing, some rows have lost what separates them.
        assert adjusted_rand_index(GROUP, labels) > (0.9 if table.finds_groups else 0.3)
