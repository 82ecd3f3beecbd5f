"""The page as text: images, tables, findings and provenance as pure functions, and no injection of HTML."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from adaam.bench.datasets import Data
from adaam.bench.exhibit import make_exhibit
from adaam.palette import N_COLORS
from adaam.report import page as document
from adaam.report.charts import all_charts
from adaam.report.overview import findings, standings
from adaam.report.page import (
    UNKNOWN,
    confusions,
    page,
    payload,
    queries,
    same_class,
    sessions,
    write_page,
)
from adaam.report.summary import default_summaries, method_colors, timed_alone
from adaam.report.tables import Cell, Table, all_tables, cases_table, html_table
from adaam.webpage import (
    columns_of,
    data_url,
    diverging_palette,
    plotly_script,
    png,
    policy,
    script_json,
    sheet,
    signed_bytes,
)

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")

EVIL = "</script><script>alert(1)</script><!-- \u2028 & ' \""
SESSION = {
    "kind": "session", "started": "2026-01-02T03:04:05+00:00", "machine": "x86_64, 2 cores", "system": "Linux",
    "jobs": 1, "threads": "default", "commit": "abc123", "command": "adaam reproduce",
    "versions": {"adaam": "9.9", "numpy": "8.8"},
}  # fmt: skip


def record(method, acc, *, dataset="usps", preparation="reference", round_number=0, **settings):
    return {
        "kind": "score", "dataset": dataset, "method": method, "preparation": preparation, "round": round_number,
        "acc": acc, "nmi": acc / 2, "ari": acc / 4, "fit_seconds": 1.25, "peak_bytes": 3 << 20, "n": 50, "d": 4,
        "c": 2, "k": 5, "seed": round_number, "engine": "cpu", "versions": {"adaam": "9.9"}, "n_neighbors": None,
        "n_rows": None, "n_iter": 1, "n_starts": 10, **settings,
    }  # fmt: skip


RECORDS = [
    SESSION,
    record("adaam", 0.69),
    record("adaam", 0.71, round_number=1),
    record("kmeans", 0.5, preparation="raw"),
    record("adaam", 0.6, n_iter=2),
    {**SESSION, "started": "2026-02-02T00:00:00+00:00"},
    record("knn", 0.65, preparation="reference"),
    record("knn", 0.75, preparation="literature"),
]


@pytest.fixture(scope="module")
def exhibit():
    digits = load_digits()
    return make_exhibit(Data(digits.data[:200], digits.target[:200], (8, 8)), "tiny", n_starts=1)


def overview(records):
    """Return the standings of the default cases, and the sentences about them."""
    sets = standings(default_summaries(records))
    return sets, findings(sets)


def decoded(content):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def test_a_png_holds_the_bytes_it_was_given(rng):
    for shape in ((1, 1), (7, 13), (64, 5)):
        grey = rng.integers(0, 256, shape).astype(np.uint8)
        smooth = np.cumsum(np.ones(shape), axis=0).astype(np.uint8)
        for picture in (grey, smooth):
            np.testing.assert_array_equal(decoded(png(picture))[:, :, 0], picture)
        palette = diverging_palette()
        np.testing.assert_array_equal(decoded(png(grey, palette)), palette[grey])


def test_a_sheet_unpacks_to_its_tiles(rng):
    tiles = rng.integers(0, 256, (11, 3, 5)).astype(np.uint8)
    laid = sheet(tiles, 4)
    assert laid.shape == (9, 20)
    for place, tile in enumerate(tiles):
        row, column = divmod(place, 4)
        np.testing.assert_array_equal(laid[3 * row : 3 * row + 3, 5 * column : 5 * column + 5], tile)
    assert (laid[6:, 15:] == 0).all()


@pytest.mark.parametrize(("height", "width"), [(28, 28), (1, 128), (40, 1), (40, 40)])
def test_a_sheet_of_the_largest_exhibit_is_no_longer_than_browsers_allow(height, width):
    n_columns = columns_of(3000, height, width)
    assert max(n_columns * width, -(-3000 // n_columns) * height) <= 4096


def test_the_scale_of_components_is_symmetric_and_its_middle_is_light():
    values = np.array([[[-2.0, 0.0, 1.0]], [[0.0, 0.0, 0.0]]])
    np.testing.assert_array_equal(signed_bytes(values), [[[1, 128, 192]], [[128, 128, 128]]])
    palette = diverging_palette()
    assert palette.shape == (256, 3)
    assert palette[128].min() > 235
    # Equal magnitudes of either sign are about equally dark.
    brightness = palette.mean(axis=1)
    assert abs(brightness[1] - brightness[255]) < 25


def test_the_payload_draws_the_rows_of_the_exhibit(exhibit):
    shown = payload(exhibit)
    address = shown["tiles"]["url"]
    assert address.startswith("data:image/png;base64,")
    import base64

    picture = decoded(base64.b64decode(address.partition(",")[2]))[:, :, 0]
    for place in (0, 17, 199):
        row, column = divmod(place, shown["tiles"]["columns"])
        np.testing.assert_array_equal(picture[8 * row : 8 * row + 8, 8 * column : 8 * column + 8], exhibit.tiles[place])
    np.testing.assert_allclose(np.array(shown["after"]).T * np.abs(exhibit.after).max(), exhibit.after, atol=1e-3)
    assert shown["nearest_after"] == exhibit.nearest_after.tolist()
    json.dumps(shown, allow_nan=False)


def test_shares_of_equal_classes_are_counted_one_by_one(exhibit):
    hits = [
        exhibit.classes[other] == exhibit.classes[row]
        for row, found in enumerate(exhibit.nearest_after)
        for other in found
    ]
    assert same_class(exhibit, exhibit.nearest_after) == round(100 * float(np.mean(hits)), 1)


def test_the_largest_errors_come_first_and_right_rows_are_none():
    assert confusions(np.array([[9, 1, 0], [4, 9, 0], [0, 2, 9]])) == [[1, 0, 4], [2, 1, 2], [0, 1, 1]]
    assert confusions(np.diag([3, 4])) == []


def test_rows_are_drawn_by_chance_the_same_each_time():
    assert queries(100, 0) == queries(100, 0)
    assert sorted(queries(3, 0)) == [0, 1, 2]


def test_the_overview_says_what_the_records_do():
    (usps,), sentences = overview(RECORDS)
    assert usps.ours.average == pytest.approx(70)
    assert usps.paper == 69.36
    assert [(score.name, score.average) for score in usps.today] == [("k-means", 50)]
    assert usps.best.name == "k-NN", "the better of its preparations stands for a method"
    assert not usps.is_best(usps.ours)
    assert "3 methods on 1 data set (USPS), 1 to 2 rounds each, 5 in all." in page(RECORDS, [], "charting")
    assert sentences == [
        "On USPS, AdaAM with k-means reaches 70.0 %; the best is k-NN with 75.0 %.",
        "AdaAM is 20.0 points better than k-means.",
        "Our figures for AdaAM differ from the paper's by +0.6 points on average and by 0.6 at most.",
    ]


def test_the_overview_of_several_sets_names_who_is_ahead_where():
    others = [record("adaam", 0.9, dataset="own"), record("kmeans", 0.95, dataset="own", preparation="raw")]
    won = [record("adaam", 0.9, dataset="coil20"), record("kmeans", 0.5, dataset="coil20", preparation="raw")]
    first, second, _ = overview([*RECORDS, *others, *won])[1]
    assert first == (
        "AdaAM with k-means is the best method on 1 of the 3 data sets (COIL20); k-NN is ahead on USPS (75.0 %); "
        "k-means is ahead on own (95.0 %)."
    )
    assert second == "AdaAM is better than k-means on 2 of 3 data sets; on average, it is 18.3 points better."
    (alone,) = overview([record("adaam", 0.5, dataset="own")])[1]
    assert alone == "On own, AdaAM with k-means reaches 50.0 %; no other method was run."
    assert overview([record("kmeans", 0.5)])[1] == ["AdaAM itself was not run."]
    assert overview([])[0] == []


def test_the_overview_sets_the_choice_without_labels_beside_umap_where_both_were_run():
    def scores(dataset, chosen, umap):
        found = {"adaam": 0.5, "adaam-clustering": chosen, "umap": umap}
        return [record(method, acc, dataset=dataset) for method, acc in found.items() if acc is not None]

    def told(*records):
        return [line for line in overview([each for group in records for each in group])[1] if "chooses" in line]

    start = "AdaAMClustering, which chooses metric and head without labels, is "
    assert told(scores("usps", 0.9, 0.8)) == [f"{start}10.0 points better than UMAP + k-means."]
    assert told(scores("usps", 0.7, 0.8)) == [f"{start}10.0 points worse than UMAP + k-means."]
    several = [
        scores("usps", 0.9, 0.8),
        scores("coil20", 0.7, 0.8),
        scores("umist", 0.8, 0.5),
        scores("own", 0.1, None),
    ]
    assert told(*several) == [
        f"{start}better than UMAP + k-means on 2 of 3 data sets; on average, it is 10.0 points better."
    ]
    assert told(scores("usps", 0.9, None)) == told(scores("usps", None, 0.8)) == []


def test_the_page_leads_with_the_choice_and_names_who_is_ahead_of_it():
    def scores(dataset, **found):
        return [record(name.replace("_", "-"), acc, dataset=dataset) for name, acc in found.items()]

    records = scores("usps", adaam_clustering=0.9, adaam=0.7, kmeans=0.6)
    ((usps,), sentences) = overview(records)
    assert usps.lead is usps.chosen
    assert usps.is_best(usps.lead)
    assert not usps.is_best(usps.ours)
    assert usps.published.name == "k-means"
    assert sentences[0] == "On USPS, AdaAMClustering reaches 90.0 %, the best of 3 methods."
    records += scores("coil20", adaam_clustering=0.84, adaam=0.7, can=0.89, kmeans=0.5)
    assert overview(records)[1][0] == (
        "AdaAMClustering is the best method on 1 of the 2 data sets (USPS); CAN is ahead on COIL20 (89.0 %)."
    )
    text = page(records, [], "charting")
    assert '<span>84.0</span><small>%</small></p><p class="by">' in text
    assert "</i>AdaAMClustering</p>" in text
    assert "</i>CAN</dt><dd>89.0</dd>" in text
    assert text.index('id="sets"') < text.index('id="tables"') < text.index('id="figures"')


def test_the_page_says_where_the_learned_metric_was_taken(exhibit):
    def chosen(dataset, learned):
        told = {**exhibit.about["chosen"], "learned": learned}
        return replace(exhibit, about={**exhibit.about, "dataset": dataset, "chosen": told})

    taken, left = chosen("coil20", True), chosen("usps", False)
    assert document.difference([taken, left]).endswith(
        "Here the learned metric was taken on COIL20 and not taken on USPS."
    )
    assert document.difference([]).endswith("only where that clearly helps.")


def test_methods_have_one_colour_in_every_chart_and_none_is_shared():
    colors = method_colors()
    assert len(set(colors.values())) == len(colors) <= N_COLORS
    assert embedded(page(RECORDS, [], "charting"))["methods"] == colors


def embedded(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))


def test_every_session_is_told_with_its_records():
    first, second = sessions(RECORDS)
    facts = first[0]
    assert facts["command"] == "adaam reproduce"
    assert facts["commit"] == "abc123"
    assert facts["libraries"] == "numpy 8.8"
    assert (first[1], second[1]) == (4, 2)
    (unknown,) = sessions([record("adaam", 0.5)])
    assert unknown[0]["commit"] == UNKNOWN
    assert unknown[0]["adaam"] == "9.9"


def test_every_case_is_told_with_its_seeds_and_session():
    rows = [tuple(cell.text for cell in row) for row in cases_table(RECORDS).rows]
    assert rows[0] == (
        "USPS", "AdaAM", "reference", "Table 1", "50", "5", "1", "2", "0–1", "10", "70.00", "1",
    )  # fmt: skip
    assert rows[1][3:8] == ("Fig. 1a", "50", "5", "2", "1")
    assert [row[-1] for row in rows] == ["1", "1", "2", "2", "1"]


def test_a_table_marks_best_and_paper_and_can_be_sorted():
    shown = html_table(all_tables(RECORDS)[0])
    assert shown.count('aria-sort="none"') == 4
    assert (
        '<td class="number" data-value="75.00"><strong>75.00</strong> <small title="the paper">68.25</small></td>'
        in shown
    )
    assert 'class="ours"' in shown
    assert '<th scope="row" class="word" data-value="AdaAM">' in shown


def test_signs_of_html_are_made_harmless_in_tables():
    shown = html_table(Table("x", EVIL, (EVIL,), ((Cell(EVIL, paper=EVIL),),), 1, (EVIL,)))
    assert "<script" not in shown
    assert "<!--" not in shown
    assert shown.count("&lt;/script&gt;") == 2 * 6, "title, heading, cell, its value, the paper, note"


def test_json_cannot_end_the_element_it_stands_in():
    text = script_json({"name": EVIL, "also": "<!--<script>"})
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"name": EVIL, "also": "<!--<script>"}


def test_a_name_that_ends_scripts_ends_none(exhibit):
    evil = replace(exhibit, about={**exhibit.about, "dataset": EVIL})
    records = [{**SESSION, "command": EVIL, "commit": EVIL}, record("adaam", 0.5, dataset=EVIL), record(EVIL, 0.6)]
    shown = page(records, [evil], "/* charts */")
    assert "alert(1)</script>" not in shown
    # The theme, the data, one exhibit, the charting library, and the code that draws.
    assert len(re.findall("<script", shown)) == shown.count("</script>") == 5


def test_the_page_is_a_pure_function_and_holds_everything(exhibit):
    shown = page(RECORDS, [exhibit], "/* charts */")
    assert page(RECORDS, [exhibit], "/* charts */") == shown
    for part in ("summary", "tables", "figures", "sets", "provenance", "table1", "table2", "scores", "times", "fig1a"):
        assert f'id="{part}"' in shown
    (data,) = re.findall('<script type="application/json" id="data">(.*?)</script>', shown)
    charts = json.loads(data)["charts"]
    assert [chart["name"] for chart in charts] == [chart.name for chart in all_charts(RECORDS)]
    assert charts[0]["panels"][0]["series"][0]["y"] == list(all_charts(RECORDS)[0].panels[0].series[0].y)


def test_the_page_names_no_address_but_its_own(exhibit):
    shown = page(RECORDS, [exhibit], "")
    assert re.findall(r'(?:src|href)="(?!#|data:)', shown) == []
    assert not re.search(r"https?://|@import|url\(", shown)


def test_the_policy_admits_the_very_scripts_and_no_network(exhibit):
    import hashlib
    from base64 import b64encode
    from html import unescape

    shown = page(RECORDS, [exhibit], "/* charts */")
    (told,) = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', shown)
    assert unescape(told).startswith("default-src 'none'; ")
    scripts = re.findall("<script>(.*?)</script>", shown, flags=re.DOTALL)
    assert len(scripts) == 3
    for script in scripts:
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in unescape(told)
    assert "unsafe-eval" not in policy(scripts)


def test_no_records_make_a_page_that_says_so():
    shown = page([], [], "")
    assert "Nothing yet." in shown
    assert "There are no pictures beside these records" in shown


def test_a_missing_library_is_named_with_the_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"pip install adaam\[page\]"):
        write_page(RECORDS, [], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_written_whole_with_the_library_once(tmp_path, exhibit):
    pytest.importorskip("plotly")
    path = write_page(RECORDS, [exhibit], tmp_path)
    text = path.read_text(encoding="utf-8")
    assert path.name == "report.html"
    assert text.count(plotly_script()[:400]) == 1
    assert len(text) < 6_000_000


def test_only_times_of_cases_that_ran_alone_on_one_machine_are_shown():
    """Regression: a table gave 15.57 s and a figure 1.8 s for the same fit; one ran beside fourteen others."""

    def session(machine, jobs):
        return {"kind": "session", "machine": machine, "jobs": jobs}

    def fits(rows, seconds):
        return [record("adaam", 0.7, n_rows=n, n=n or 50, fit_seconds=seconds) for n in rows]

    crowded = [session("16 cores", 15), *fits([None, 1000, 2000], 15.0)]
    alone = [session("16 cores", 1), *fits([None, 1000, 2000], 1.5)]
    elsewhere = [session("2 cores", 1), *fits([None], 9.0)]
    found, machine = timed_alone([*crowded, *alone, *elsewhere])
    assert (machine, [each["fit_seconds"] for each in found]) == ("16 cores", [1.5] * 3)
    times = next(table for table in all_tables([*alone, *crowded, *elsewhere]) if table.name == "times")
    assert [cell.text for cell in times.rows[0]][2] == "1.50"
    assert "16 cores" in times.notes[0]
    assert "times" not in [table.name for table in all_tables(crowded)]
    assert "fig3" not in [chart.name for chart in all_charts(crowded)]
    (chart,) = (each for each in all_charts([*crowded, *alone]) if each.name == "fig3")
    assert chart.panels[0].series[0].y == (1.5, 1.5)


def test_every_asset_is_used():
    from importlib.resources import files

    there = {path.name for path in (files("adaam.report") / "assets").iterdir()}
    assert there == {"body.html", "page.css", *document.KIND.scripts}


def test_an_address_holds_all_of_a_picture():
    assert data_url(b"\x89P") == "data:image/png;base64,iVA="
