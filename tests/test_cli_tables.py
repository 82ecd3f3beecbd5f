"""Tables through the commands inspect, cluster and predict; CSV files once silently misread are right or refused."""

import csv
import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz
from sklearn.datasets import make_blobs

import adaam as library
from adaam.cli import main
from adaam.cli.results import fitted_columns
from adaam.cli.tables import Rows
from awkward_tables import titanic

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")

X, Y = make_blobs(60, n_features=4, centers=3, random_state=0)
ONE = ["--clusters", "3", "--preparation", "linear"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def adaam(*arguments):
    return main([str(argument) for argument in arguments])


def write_csv(path, rows, names=("a", "b", "c", "d")):
    lines = [",".join(names), *(",".join(map(repr, map(float, row))) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def rows_of(text):
    return list(csv.reader(io.StringIO(text)))[1:]


def test_inspect_shows_what_a_fit_would_do(folder, capsys):
    (folder / "titanic.csv").write_bytes(titanic())
    assert adaam("inspect", "titanic.csv") == 0
    inspected = capsys.readouterr()
    assert inspected.err == ""
    assert "5 of 8 columns are used, as 8 features of 60 rows." in inspected.out
    assert adaam("cluster", "titanic.csv", *ONE) == 0
    told = capsys.readouterr().err
    for line in inspected.out.splitlines()[:-1]:
        assert line in told


def test_inspect_shows_all_columns_also_where_one_is_refused(folder, capsys):
    write_csv(folder / "t.csv", X)
    text = (folder / "t.csv").read_text().splitlines()
    text[5] = "oops," + text[5].split(",", 1)[1]
    (folder / "t.csv").write_text("\n".join(text))
    assert adaam("inspect", "t.csv") == 0
    out = capsys.readouterr().out
    assert "a: refused (column 'a' is numeric, but row 5 holds 'oops'" in out
    assert "d: used" in out
    assert "Clustering would stop. t.csv: column 'a' is numeric, but row 5 (line 6) holds 'oops'" in out


def test_very_many_columns_are_told_by_kind(folder, capsys):
    pixels = np.column_stack([np.tile(X, 12), np.zeros((60, 20))])
    write_csv(folder / "t.csv", pixels, [f"pixel{j}" for j in range(68)])
    assert adaam("inspect", "t.csv") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[1] == "  pixel0, pixel1, ... pixel47: used (48 columns of kind number; the first: number)"
    assert lines[2].startswith("  pixel48, pixel49, ... pixel67: left out (20 columns of kind constant")


def test_inspect_of_arrays(folder, capsys):
    np.save("rows.npy", X)
    assert adaam("inspect", "rows.npy") == 0
    assert adaam("inspect", "digits") == 0
    assert "60 rows of 4 numbers (float64)" in capsys.readouterr().out


def test_the_number_of_clusters_is_estimated_unless_it_is_given(folder, capsys):
    write_csv(folder / "t.csv", X)
    assert adaam("cluster", "t.csv") == 0
    assert "clusters found" in capsys.readouterr().err
    assert adaam("cluster", "t.csv", "--preparation", "linear") == 1
    assert "add --clusters C" in capsys.readouterr().err


def test_new_rows_get_the_clusters_of_rows_like_them(folder, capsys):
    (folder / "titanic.csv").write_bytes(titanic())
    assert adaam("cluster", "titanic.csv", *ONE, "--model", "m.adaam") == 0
    fitted = rows_of(capsys.readouterr().out)
    lines = titanic().decode().splitlines()
    (folder / "new.csv").write_text("\n".join([lines[0], *lines[11:14]]))
    assert adaam("predict", "m.adaam", "new.csv") == 0
    out = capsys.readouterr().out
    assert out.startswith("PassengerId,cluster")
    assert [row[:2] for row in rows_of(out)] == [row[:2] for row in fitted[10:13]]


def test_new_rows_below_a_title_and_two_rows_of_names(folder, capsys):
    cells = [",".join(f"{value:.3f}" for value in row) for row in X]
    above = ["Export of 2024", "a,b,c,d", "m,kg,s,V"]
    (folder / "old.csv").write_text("\n".join([*above, *cells]) + "\n")
    assert adaam("cluster", "old.csv", *ONE, "--model", "m.adaam", "-o", "old_clusters.csv") == 0
    (folder / "new.csv").write_text("\n".join([*above, cells[0]]) + "\n")
    capsys.readouterr()
    assert adaam("predict", "m.adaam", "new.csv") == 0
    old = rows_of((folder / "old_clusters.csv").read_text())
    assert rows_of(capsys.readouterr().out)[0][1] == old[0][1]


def test_a_kept_model_explains_by_the_columns_of_the_table(folder):
    (folder / "titanic.csv").write_bytes(titanic())
    assert adaam("cluster", "titanic.csv", *ONE, "--model", "encoded.adaam", "-o", "out.csv") == 0
    kept = library.load("encoded.adaam")
    names = tuple(kept[0].get_feature_names_out())
    assert "Sex=female" in names
    assert kept[-1].explain().names == kept[-1].metric_.explain().names == names
    write_csv(folder / "t.csv", X, ("height", "width", "depth", "weight"))
    assert adaam("cluster", "t.csv", *ONE, "--model", "plain.adaam", "-o", "out2.csv") == 0
    plain = library.load("plain.adaam")
    assert plain.metric_.explain().names == plain.explain().names == ("height", "width", "depth", "weight")


def test_new_rows_may_have_other_columns_in_another_order(folder, capsys):
    table = [["x", *map(repr, map(float, row)), "kg" if y else "g"] for row, y in zip(X, Y, strict=True)]
    names = ["ignored", *"abcd", "unit"]
    (folder / "t.csv").write_text("\n".join(",".join(row) for row in [names, *table]))
    assert adaam("cluster", "t.csv", *ONE, "--model", "m.adaam") == 0
    labels = [row[1] for row in rows_of(capsys.readouterr().out)]
    turned = [row[:0:-1] for row in [names, *table]]
    (folder / "turned.csv").write_text("\n".join(";".join(row) for row in turned))
    assert adaam("predict", "m.adaam", "turned.csv") == 0
    assert [row[1] for row in rows_of(capsys.readouterr().out)] == labels
    np.save("rows.npy", X)
    assert adaam("predict", "m.adaam", "rows.npy") == 1
    assert "is an array, but the model needs a table with the columns a, b, c, d, unit" in capsys.readouterr().err
    (folder / "less.csv").write_text("a,b,c,unit\n1,2,3,kg\n")
    assert adaam("predict", "m.adaam", "less.csv") == 1
    assert "less.csv: column 'd' is missing" in capsys.readouterr().err
    (folder / "bad.csv").write_text("a,b,c,d,unit\n1,2,3,4,kg\n\n1,2,x,4,kg\n")
    assert adaam("predict", "m.adaam", "bad.csv") == 1
    assert "column 'c' holds 'x' in row 2 (line 4), which is not a number" in capsys.readouterr().err


def test_a_table_of_plain_numbers_is_kept_as_a_plain_model(folder, capsys):
    write_csv(folder / "t.csv", X)
    assert adaam("cluster", "t.csv", *ONE, "--model", "m.adaam") == 0
    labels = [row[1] for row in rows_of(capsys.readouterr().out)]
    model = library.load("m.adaam")
    assert isinstance(model, library.AdaAMClustering)
    assert list(model.feature_names_in_) == list("abcd")
    assert adaam("predict", "m.adaam", "t.csv") == 0
    assert [row[1] for row in rows_of(capsys.readouterr().out)] == labels
    (folder / "gap.csv").write_text("a,b,c,d\n1,2,,4\n")
    assert adaam("predict", "m.adaam", "gap.csv") == 1
    assert "column 'c' is empty in row 1 (line 2)" in capsys.readouterr().err


def test_a_metric_maps_tables_too(folder, capsys):
    (folder / "titanic.csv").write_bytes(titanic())
    assert adaam("fit", "titanic.csv", "--clusters", 3, "-o", "m.adaam") == 0
    assert adaam("transform", "m.adaam", "titanic.csv") == 0
    assert len(capsys.readouterr().out.splitlines()) == 61
    assert adaam("predict", "m.adaam", "titanic.csv") == 1
    assert "is a metric, which has no clusters" in capsys.readouterr().err


def test_classes_may_be_words_and_may_be_unknown(folder, capsys):
    words = np.array(["red", "green", "blue"])[Y].tolist()
    words[3] = ""
    rows = [[*map(repr, map(float, row)), word] for row, word in zip(X, words, strict=True)]
    (folder / "t.csv").write_text("\n".join(",".join(row) for row in [[*"abcd", "colour"], *rows]))
    assert adaam("cluster", "t.csv", *ONE, "--truth", "colour") == 0
    assert "accuracy 100.0%" in (told := capsys.readouterr().err)
    assert "against 59 rows with the known classes" in told
    (folder / "classes.csv").write_text("colour\n" + "\n".join(word or "red" for word in words))
    assert adaam("cluster", "t.csv", *ONE, "--drop", "colour", "--truth", "classes.csv") == 0
    assert "accuracy 98.3%" in capsys.readouterr().err
    (folder / "once.csv").write_text("once\n" + "\n".join(word or "red" for word in words[1:]))
    assert adaam("cluster", "t.csv", *ONE, "--drop", "colour", "--truth", "once.csv") == 0
    assert "accuracy 96.7%" in capsys.readouterr().err
    assert adaam("cluster", "t.csv", *ONE, "--truth", "color") == 1
    assert "--truth color: is neither a column of the table nor a file" in capsys.readouterr().err


def test_rows_left_out_keep_the_others_in_their_place(folder, capsys):
    write_csv(folder / "t.csv", X)
    lines = (folder / "t.csv").read_text().splitlines()
    lines[3] = "," + lines[3].split(",", 1)[1]
    (folder / "t.csv").write_text("\n".join(lines))
    np.save("truth.npy", Y)
    assert adaam("cluster", "t.csv", *ONE, "--missing", "drop-rows", "--truth", "truth.npy") == 0
    told = capsys.readouterr()
    assert "rows with missing values are left out: 1 of 60" in told.err
    assert "accuracy 100.0%" in told.err
    assert [row[0] for row in rows_of(told.out)] == [str(i) for i in range(1, 61) if i != 3]


def test_results_in_every_format(folder, capsys):
    (folder / "titanic.csv").write_bytes(titanic())
    found = {}
    for ending in ("csv", "tsv", "npy", "npz", "parquet"):
        assert adaam("cluster", "titanic.csv", *ONE, "-o", f"out.{ending}") == 0
        assert capsys.readouterr().out == ""
    found["csv"] = np.genfromtxt("out.csv", delimiter=",", names=True)["cluster"]
    found["tsv"] = np.genfromtxt("out.tsv", delimiter="\t", names=True)["cluster"]
    found["npy"] = np.load("out.npy")
    found["npz"] = np.load("out.npz")["cluster"]
    found["parquet"] = pytest.importorskip("pyarrow.parquet").read_table("out.parquet")["cluster"].to_numpy()
    for labels in found.values():
        np.testing.assert_array_equal(labels, found["npy"])
    assert np.load("out.npz")["PassengerId"].tolist() == [str(i) for i in range(1, 61)]


@pytest.mark.parametrize("name", ["plain.csv", "titanic.csv"])
def test_a_picture_is_drawn_of_a_table(folder, capsys, name):
    pytest.importorskip("matplotlib")
    write_csv(folder / "plain.csv", X)
    (folder / "titanic.csv").write_bytes(titanic())
    assert adaam("cluster", name, *ONE, "--plot", "clusters.png") == 0
    assert (folder / "clusters.png").read_bytes().startswith(b"\x89PNG")
    assert "feature names" not in capsys.readouterr().err


def test_sparse_archives_are_clustered(folder, capsys):
    sparse = csr_array(np.where(np.abs(X) < 1, 0, X))
    save_npz("rows.npz", sparse)
    assert adaam("inspect", "rows.npz") == 0
    assert "60 rows of 4 sparse numbers" in capsys.readouterr().out
    assert adaam("cluster", "rows.npz", *ONE) == 0
    labels = [int(row[1]) for row in rows_of(capsys.readouterr().out)]
    model = library.AdaAMClustering(3, learner=library.AdaAM(3, preparation="linear"))
    np.testing.assert_array_equal(labels, model.fit_predict(sparse))


def test_a_row_that_begins_with_a_hash_is_a_row(folder, capsys):
    """Regression: np.loadtxt read it as a comment, and every later row got its neighbour's label."""
    names = [f"#{i}" for i in range(60)]
    rows = [[name, *map(repr, map(float, row))] for name, row in zip(names, X, strict=True)]
    (folder / "t.csv").write_text("\n".join(",".join(row) for row in [["key", *"abcd"], *rows]))
    assert adaam("cluster", "t.csv", *ONE) == 0
    assert [row[0] for row in rows_of(capsys.readouterr().out)] == names


def test_a_first_row_with_an_empty_cell_is_a_row(folder, capsys):
    """Regression: it was read as a header, and lost."""
    lines = [",".join(map(repr, map(float, row))) for row in X]
    lines[0] = "," + lines[0].split(",", 1)[1]
    (folder / "t.csv").write_text("\n".join(lines))
    assert adaam("cluster", "t.csv", *ONE) == 0
    assert len(rows_of(capsys.readouterr().out)) == 60


def test_columns_of_one_name_are_two_columns_in_transform(folder, capsys):
    """Regression: `transform` used the first of them twice."""
    write_csv(folder / "t.csv", X, ("a", "b", "a", "d"))
    assert adaam("fit", "t.csv", "--clusters", 3, "-o", "m.adaam") == 0
    assert adaam("transform", "m.adaam", "t.csv") == 0
    mapped = np.array(rows_of(capsys.readouterr().out), dtype=float)
    np.testing.assert_allclose(mapped, library.AdaAM(3).fit_transform(X), atol=1e-12)
    assert list(library.load("m.adaam").feature_names_in_) == ["a", "b", "a_2", "d"]


def test_a_header_with_one_name_too_many_is_refused(folder, capsys):
    """Regression: contributions were assigned to the wrong feature."""
    write_csv(folder / "t.csv", X, ("a", "b", "c", "d", "e"))
    assert adaam("fit", "t.csv", "--clusters", 3, "-o", "m.adaam") == 1
    assert "the header (line 1) names 5 columns, but rows have 4 cells" in capsys.readouterr().err


def test_control_characters_in_names_do_not_reach_the_terminal(folder, capsys):
    write_csv(folder / "t.csv", X, ("a\x1b[31m", "b", "c", "d"))
    assert adaam("cluster", "t.csv", *ONE) == 0
    assert "\x1b" not in capsys.readouterr().err


def test_what_can_be_written_is_written_when_another_output_fails(folder, capsys, monkeypatch):
    write_csv(folder / "t.csv", X)

    def full(*_):
        raise OSError(28, "No space left on device", "m.adaam")

    monkeypatch.setattr("adaam.cli.commands.save", full)
    assert adaam("cluster", "t.csv", *ONE, "-o", "labels.csv", "--model", "m.adaam") == 1
    assert "No space left" in capsys.readouterr().err
    assert len((folder / "labels.csv").read_text().splitlines()) == 61


def test_tables_need_no_optional_package_in_text_form(folder):
    """Text, .npy and .npz need no optional package; other formats name the extra to install."""
    (folder / "titanic.csv").write_bytes(titanic())
    (folder / "t.xlsx").write_bytes(b"")
    (folder / "t.parquet").write_bytes(b"")
    program = """
import sys
for name in ("pandas", "polars", "pyarrow", "pyarrow.parquet", "openpyxl"):
    sys.modules[name] = None
from adaam.cli import main
from adaam.cli.results import fitted_columns
from adaam.cli.tables import Rows
assert main(["inspect", "titanic.csv"]) == 0
for name in ("t.xlsx", "t.parquet"):
    assert main(["inspect", name]) == 1
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pip install 'adaam[tables]'") == 2


def test_results_carry_strength_outlier_score_and_layers(folder, capsys):
    write_csv(folder / "t.csv", [*X, [90.0, 90.0, 90.0, 90.0]])
    options = ["--clusters", 3, "--contamination", 0.02, "--layers", "--model", "m.adaam"]
    assert adaam("cluster", "t.csv", *options) == 0
    told = capsys.readouterr()
    assert "1 rows are outliers, labelled -1" in told.err
    found = np.genfromtxt(io.StringIO(told.out), delimiter=",", names=True)
    assert found.dtype.names[:4] == ("row", "cluster", "strength", "outlier_score")
    model = library.load("m.adaam")
    assert found.dtype.names[4:] == tuple(f"layer_{i + 1}" for i in range(len(model.cluster_layers_)))
    np.testing.assert_array_equal(found["cluster"], model.labels_)
    np.testing.assert_array_equal(found[f"layer_{model.layer_ + 1}"], model.labels_)
    np.testing.assert_allclose(found["strength"], model.probabilities_, atol=1e-4)
    np.testing.assert_allclose(found["outlier_score"], model.outlier_scores_, atol=1e-4)
    noise = found["outlier_score"].argmax()
    assert np.flatnonzero(found["cluster"] == -1).tolist() == [noise]

    assert adaam("predict", "m.adaam", "t.csv", "--layers") == 0
    again = np.genfromtxt(io.StringIO(capsys.readouterr().out), delimiter=",", names=True)
    assert again.dtype.names == found.dtype.names
    others = np.arange(61) != noise  # a row that is predicted again is near itself, so it is no outlier
    np.testing.assert_array_equal(again["cluster"][others], found["cluster"][others])
    assert ((again["strength"] >= 0) & (again["strength"] <= 1)).all()


def test_ids_named_like_a_result_get_another_name():
    rows = Rows(X, id_name="cluster", ids=np.arange(60))
    model = library.AdaAMClustering(3).fit(X)
    assert list(fitted_columns(rows, model, layers=False)) == ["cluster_of_row", "cluster", "strength", "outlier_score"]


def test_a_model_without_layers_says_so(folder, capsys):
    library.save(library.PCAN(3).fit(X), "m.adaam")
    np.save("rows.npy", X)
    assert adaam("predict", "m.adaam", "rows.npy") == 0
    assert capsys.readouterr().out.startswith("row,cluster\n")
    assert adaam("predict", "m.adaam", "rows.npy", "--layers") == 1
    assert "a model of PCAN has no layers" in capsys.readouterr().err


def page_data(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def test_the_page_of_a_table_is_in_its_own_units_with_its_known_classes(folder, capsys):
    pytest.importorskip("plotly")
    kinds = np.array(["ant", "bee", "cow"])[Y]
    lines = [
        f"K{i},{row[0]:.2f} kg,{row[1]:.2f},{'yes' if row[2] > 0 else 'no'},{kind}"
        for i, (row, kind) in enumerate(zip(X, kinds, strict=True))
    ]
    (folder / "t.csv").write_text("\n".join(["key,weight,b,flag,species", *lines]))
    assert adaam("cluster", "t.csv", *ONE, "--truth", "species", "--report", "t.html", "-o", "o.csv") == 0
    assert "warning" not in capsys.readouterr().err
    told = page_data(folder / "t.html")
    assert told["title"] == "t.csv"
    assert told["ids"][:2] == ["K0", "K1"]
    columns = {column["name"]: column["values"] for column in told["columns"]}
    assert list(columns) == ["species", "weight", "b", "flag"]
    assert columns["weight"][:3] == [round(value, 2) for value in X[:3, 0]]
    assert columns["species"] == kinds.tolist()
    assert set(columns["flag"]) == {"yes", "no"}


def test_texts_beside_vectors_are_told_on_the_page(folder):
    pytest.importorskip("plotly")
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    words = ("late parcel in delivery", "refund of charged money", "broken phone with battery")
    texts = [f"{words[label]} {i}" for i, label in enumerate(Y)]
    pq.write_table(pa.table({"text": texts, "vector": X.tolist()}), "v.parquet")
    assert adaam("cluster", "v.parquet", *ONE, "--report", "v.html", "-o", "o.csv") == 0
    told = page_data(folder / "v.html")
    assert told["texts"] == texts
    assert told["columns"] == []
    firsts = {"late", "parcel", "delivery", "refund", "charged", "money", "broken", "phone", "battery"}
    assert all(set(summary.split(", ")) <= firsts for summary in told["summaries"])
    assert len(told["summaries"]) == 3


def test_messages_name_the_option_that_was_given(folder, capsys):
    write_csv(folder / "t.csv", X)
    for option in ("--id", "--drop", "--columns", "--number", "--category", "--date", "--text"):
        assert adaam("inspect", "t.csv", option, "A") == 1
        err = capsys.readouterr().err
        assert f"{option} names 'A', but the table has the columns" in err
        assert "Do you mean 'a'?" in err


def test_a_number_of_clusters_that_cannot_be_is_told_as_the_option(folder, capsys):
    write_csv(folder / "t.csv", X)
    assert adaam("cluster", "t.csv", "--clusters", "61") == 1
    assert "--clusters 61: t.csv has 60 rows" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        adaam("cluster", "t.csv", "--clusters", "0")
    assert "0 is no number of clusters" in capsys.readouterr().err


def test_a_page_is_an_html_file(folder, capsys):
    write_csv(folder / "t.csv", X)
    assert adaam("cluster", "t.csv", *ONE, "--report", "page.pdf") == 1
    assert "page.pdf: a page is an HTML file" in capsys.readouterr().err
    assert not (folder / "page.pdf").exists()


def test_a_quote_that_is_never_closed_loses_no_rows_in_silence(folder, capsys):
    (folder / "t.csv").write_text('a,b\n1,"x\n2,y\n3,z\n')
    assert adaam("inspect", "t.csv") == 1
    assert "line 2 opens a quote that is never closed" in capsys.readouterr().err


def test_lines_of_unlike_length_are_not_taken_for_one_column_in_silence(folder, capsys):
    (folder / "t.csv").write_text("a,b,c\n" + "1,2,3\n4,5\n6,7,8,9\n" * 4)
    adaam("inspect", "t.csv")
    assert "each line is read as one cell" in capsys.readouterr().out
    assert adaam("inspect", "t.csv", "--sep", ",") == 1
    assert "t.csv: the header (line 1) names 3 columns, but rows have" in capsys.readouterr().err


def test_one_column_of_words_with_commas_is_as_it_was(folder, capsys):
    (folder / "t.csv").write_text(
        "complaint\n" + "".join(f"late, and broke{i}\nno answer at {i}\nrude, no, {i}, no\n" for i in range(9))
    )
    adaam("inspect", "t.csv")
    out = capsys.readouterr().out
    assert "each line is read" not in out
    assert "Clustering would stop. t.csv: no column is left to use: complaint: left out" in out
    assert ".." not in out


def test_a_page_numbers_rows_like_the_table_of_results(folder, monkeypatch):
    write_csv(folder / "t.csv", X)
    made = []
    monkeypatch.setattr("adaam.cluster_report.ClusterReport.save", lambda report, path: made.append(report.data))
    assert adaam("cluster", "t.csv", *ONE, "--report", "page.html", "-o", "labels.csv") == 0
    (data,) = made
    assert data.row_name(0) == "row 1"
    assert rows_of((folder / "labels.csv").read_text())[0][0] == "1"


def test_a_file_that_an_option_has_taken_is_asked_for_before_it(folder, capsys):
    write_csv(folder / "t.csv", X)
    with pytest.raises(SystemExit):
        adaam("inspect", "--drop", "a", "t.csv")
    assert "name the file before options that take several names" in capsys.readouterr().err


def test_more_lines_skipped_than_there_are(folder, capsys):
    write_csv(folder / "t.csv", X)
    assert adaam("inspect", "t.csv", "--skip", "500") == 1
    assert "no line is left after --skip 500" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--model", "--report", "--plot"])
def test_standard_output_is_for_results_alone(folder, capsys, option):
    """Regression: the labels were lost, and a file named "-" was written."""
    write_csv(folder / "t.csv", X)
    assert adaam("cluster", "t.csv", *ONE, option, "-") == 1
    assert capsys.readouterr().out == ""
    assert adaam("fit", "t.csv", "--clusters", "3", "-o", "-") == 1
    assert [path.name for path in folder.iterdir()] == ["t.csv"]
