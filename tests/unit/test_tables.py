"""Tables and figures as pure functions of records, in every form."""

import csv
import io

import numpy as np
import pytest

from adaam.bench.methods import METHODS
from adaam.report.charts import all_charts
from adaam.report.figures import write_chart
from adaam.report.summary import PAPER, paper_accuracy, summaries
from adaam.report.tables import RENDERERS, Cell, Table, all_tables, csv_text, escaped, latex, markdown, text


def record(method, acc, *, dataset="usps", preparation="reference", round_number=0, **settings):
    sizes = {"usps": (9298, 256, 10, 10), "umist": (575, 1600, 20, 5), "own": (50, 4, 2, 5)}[dataset]
    return {
        "kind": "score", "dataset": dataset, "method": method, "preparation": preparation, "round": round_number,
        "acc": acc, "nmi": acc / 2, "ari": acc / 4, "fit_seconds": 1.25, "peak_bytes": 3 << 20,
        **dict(zip("ndck", sizes, strict=True)), "seed": round_number, "engine": "cpu", "versions": {},
        "n_neighbors": None, "n_rows": None, "n_iter": 1, "n_starts": 10, **settings,
    }  # fmt: skip


RECORDS = [
    {"kind": "session", "started": "now"},
    record("kmeans", 0.5, preparation="raw"),
    record("adaam", 0.69, round_number=0),
    record("adaam", 0.71, round_number=1),
    record("pcan", 0.7, preparation="literature"),
    record("adaam", 0.65, dataset="umist"),
]

TABLE1_MARKDOWN = """\
### Clustering accuracy

| method | preparation | UMIST avg | UMIST max | USPS avg | USPS max |
| --- | --- | ---: | ---: | ---: | ---: |
| AdaAM | reference | 65.00 (66.06) | 65.00 (75.65) | **70.00** (69.36) | **71.00** (69.61) |
| PCAN | literature | – (55.30) | – | **70.00** (64.20) | 70.00 |
| k-means | raw | – | – | 50.00 | 50.00 |

Accuracy (%): average and maximum over rounds (1, 2 per case), each the best of several k-means++ runs by inertia. \
Best of each column in bold (* in plain text).

UMIST: 151 of the 575 images of the file behind the published results are upsampled from the 32x32 set.

In brackets: the paper.
"""

TABLE2_LATEX = r"""% \usepackage{booktabs}
\begin{table}
\centering
\caption{Data sets. k: neighbours of each row, round(log2(instances / classes)). In brackets: the paper.}
\label{tab:table2}
\begin{tabular}{lrrrr}
\toprule
data set & instances & features & classes & k \\
\midrule
UMIST & 575 (575) & 1600 (1600) & 20 (20) & 5 \\
USPS & 9298 (9298) & 256 (256) & 10 (10) & 10 \\
\bottomrule
\end{tabular}
\end{table}
"""


def table(name, records=RECORDS):
    return {each.name: each for each in all_tables(records)}[name]


def test_table_1_in_markdown_is_as_it_was():
    assert markdown(table("table1")) == TABLE1_MARKDOWN


def test_table_2_in_latex_is_as_it_was():
    assert latex(table("table2")) == TABLE2_LATEX


def test_table_1_in_latex_has_the_best_in_bold_and_no_raw_sign():
    shown = latex(table("table1"))
    assert r"AdaAM & reference & 65.00 (66.06) & 65.00 (75.65) & \textbf{70.00} (69.36)" in shown
    assert r"Accuracy (\%)" in shown
    assert "–" not in shown


def test_table_1_as_text_is_aligned_and_marks_the_best():
    lines = text(table("table1")).splitlines()
    rows = lines[2:7]
    assert len({len(line) for line in rows}) == 1
    assert "70.00* (69.36)" in rows[2]


def test_csv_has_columns_of_their_own_for_the_paper():
    rows = list(csv.DictReader(io.StringIO(csv_text(table("table1")))))
    assert rows[0]["USPS avg"] == "70.00"
    assert rows[0]["USPS avg (paper)"] == "69.36"
    assert rows[1]["UMIST avg"] == ""
    assert rows[1]["UMIST avg (paper)"] == "55.30"


def test_scores_have_spread_nmi_and_ari():
    rows = {(row["data set"], row["method"]): row for row in csv.DictReader(io.StringIO(csv_text(table("scores"))))}
    adaam = rows["USPS", "AdaAM"]
    assert adaam["spread"] == f"{100 * np.std([0.69, 0.71], ddof=1):.2f}"
    assert (adaam["NMI"], adaam["ARI"], adaam["rounds"]) == ("35.00", "17.50", "2")


def test_times_are_shown_with_memory_where_it_is_known():
    records = [record("adaam", 0.5), record("knn", 0.5, peak_bytes=None)]
    rows = list(csv.reader(io.StringIO(csv_text(table("times", records)))))
    assert rows[1:] == [["AdaAM", "reference", "1.25", "3"], ["k-NN", "reference", "1.25", ""]]


def test_tables_begin_with_the_most_accurate_method():
    runs = [("kmeans", 0.5), ("adaam-clustering", 0.9), ("adaam", 0.7)]
    records = [record(method, acc, dataset=dataset) for dataset in ("usps", "umist") for method, acc in runs]
    table1, scores = all_tables([*records, record("pcan", 0.95)])[:2]
    # Methods that were run on fewer sets come after those that were run on all.
    assert [row[0].text for row in table1.rows] == ["AdaAMClustering", "AdaAM", "k-means", "PCAN"]
    found = [(row[0].text, row[1].text) for row in scores.rows]
    assert found[:4] == [("UMIST", "AdaAMClustering"), ("UMIST", "AdaAM"), ("UMIST", "k-means"), ("USPS", "PCAN")]


def test_tables_do_not_depend_on_the_order_of_records():
    for name in ("table1", "scores", "table2", "times"):
        assert table(name) == table(name, RECORDS[::-1])


def test_a_round_that_was_recorded_twice_counts_once():
    assert table("table1", [*RECORDS, RECORDS[2]]) == table("table1")


def test_other_settings_stay_out_of_table_1():
    others = [record("adaam", 0.1, n_neighbors=3), record("adaam", 0.1, n_rows=100), record("adaam", 0.1, n_iter=2)]
    assert table("table1", RECORDS + others) == table("table1")
    assert len(summaries(RECORDS + others)) == len(summaries(RECORDS)) + 3


def test_nothing_gives_no_table():
    assert all_tables([]) == []
    assert all_charts([]) == []


def test_unknown_data_sets_have_no_paper_beside_them():
    shown = table("table1", [record("adaam", 0.5, dataset="own"), record("knn", 0.25, dataset="own")])
    assert "In brackets: the paper." not in shown.notes
    assert markdown(shown).splitlines()[4] == "| AdaAM | reference | **50.00** | **50.00** |"


def test_signs_of_latex_are_made_harmless():
    assert escaped("50% of a_b & {c} \\ ~^#$") == (
        r"50\% of a\_b \& \{c\} \textbackslash{} \textasciitilde{}\textasciicircum{}\#\$"
    )
    odd = Table("odd", "50% & more", ("a_b",), ((Cell("x|y"),),), 1)
    assert r"\caption{50\% \& more. }" in latex(odd)
    assert r"| x\|y |" in markdown(odd)


def test_every_form_has_an_ending():
    assert list(RENDERERS) == [".txt", ".md", ".csv", ".tex"]


def test_the_papers_values_are_those_that_readme_and_benchmarks_quote():
    averages = {
        "umist": (66.06, 58.16, 60.27, 59.15, 64.63, 53.79, 55.30),
        "coil20": (74.72, 71.89, 75.53, 71.95, 76.50, 72.28, 81.74),
        "usps": (69.36, 68.25, 68.21, 68.08, 58.74, 64.04, 64.20),
        "mnist10k": (60.84, 48.13, 47.88, 49.72, 51.93, 58.93, 59.83),
        "exyaleb": (54.36, 24.17, 25.63, 24.21, 23.10, 25.74, 25.89),
    }
    methods = [method for method in METHODS if method != "adaam-clustering"][:7]
    for dataset, values in averages.items():
        assert tuple(paper_accuracy(dataset, method)[0] for method in methods) == values
        for method in methods[:6]:
            average, maximum = paper_accuracy(dataset, method)
            assert maximum is not None
            assert average <= maximum
        assert len(PAPER["table2"][dataset]) == 3
    assert paper_accuracy("digits", "adaam") == (None, None)
    assert paper_accuracy("umist", "pcan") == (55.3, None)


def varied():
    records = [record("adaam", 0.5 + n_iter / 100, n_iter=n_iter) for n_iter in (1, 2, 3)]
    for method in ("adaam", "knn"):
        records += [record(method, 0.6, n_neighbors=k, k=k) for k in (3, 5)]
        records += [record(method, 0.6, n_rows=n, n=n, fit_seconds=n / 1000) for n in (100, 1000)]
    records += [record("knn", 0.7, preparation="literature", n_neighbors=k, k=k) for k in (3, 5)]
    counts = [90, 8, 2, 0]
    histogram = record("adaam", 0.0) | {"kind": "histogram", "counts": counts, "top": 4.0, "cut": 1.2}
    return [*records, histogram]


def test_figures_hold_what_the_records_say():
    charts = {chart.name: chart for chart in all_charts(varied())}
    assert list(charts) == ["fig1a", "fig1b", "fig2", "fig3"]
    (line,) = charts["fig1a"].panels[0].series
    assert line.x == (1, 2, 3)
    assert line.y == pytest.approx((51, 52, 53))
    names = [series.name for series in charts["fig2"].panels[0].series]
    assert names == ["AdaAM", "k-NN (reference)", "k-NN (literature)"]
    # The default k of Table 1 is a point of the same line.
    assert charts["fig2"].panels[0].series[0].x == (3, 5, 10)
    assert charts["fig3"].panels[0].log_y
    assert charts["fig3"].panels[0].series[0].y == pytest.approx((0.1, 1.0))
    bars = charts["fig1b"].panels[0]
    assert bars.series[0].x == (0.5, 1.5, 2.5, 3.5)
    assert bars.mark == (1.2, "cut: about 10.0 % are kept")


def test_a_lone_point_makes_no_line():
    assert all_charts([record("adaam", 0.5)]) == []


def test_figures_are_written_as_png_and_pdf_and_the_same_each_time(tmp_path):
    for chart in all_charts(varied()):
        write_chart(chart, tmp_path)
        paths = [tmp_path / f"{chart.name}{ending}" for ending in (".png", ".pdf")]
        first = [path.read_bytes() for path in paths]
        assert first[0].startswith(b"\x89PNG")
        assert first[1].startswith(b"%PDF")
        write_chart(chart, tmp_path)
        assert [path.read_bytes() for path in paths] == first
    assert len(list(tmp_path.iterdir())) == 8


def test_what_was_left_out_stands_below_the_first_table():
    skip = {
        "kind": "skip",
        "dataset": "usps",
        "method": "umap",
        "preparation": "raw",
        "reason": "UMAP needs umap-learn",
    }
    tables = all_tables([record("adaam", 0.5), skip, skip | {"dataset": "umist"}])
    assert "Left out (USPS, UMIST): UMAP needs umap-learn." in tables[0].notes


def test_names_that_look_like_formulas_are_words_to_a_spreadsheet():
    """A user's data set may be named =cmd|..., and headings contain its name."""
    cells = tuple(map(Cell, ("@a", "-0.50")))
    shown = csv_text(Table("t", "T", ("data set", "=1+1 avg"), (cells,), 1))
    assert shown == "data set,'=1+1 avg\n'@a,-0.50\n"
