"""The page about one's own clusters in a real browser: images, a table, texts and 100,000 rows."""

import csv
import io
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from adaam import AdaAMClustering
from adaam.cluster_report import ClusterReport
from adaam.palette import cluster_color
from chromium import assert_quiet, click, needs_browser, open_page, resize, shown, started, until
from cluster_reports import EVIL, synthetic_report, texts_and_cards

pytest.importorskip("plotly", reason="the page needs plotly")
pytestmark = needs_browser

N_MANY = 100_000
SUBJECTS = ["cards", "transfers", "refunds", "exchange rates", "passcodes", "fees"]
LIGHT, DARK = "rgb(250, 249, 247)", "rgb(18, 20, 25)"


def digits_report():
    X = load_digits().data[:400]
    return AdaAMClustering(10).fit(X).report(X, images=(8, 8), title="digits").data


def wine_report():
    wine = load_wine(as_frame=True)
    model = AdaAMClustering("auto", contamination=0.02).fit(wine.data)
    return model.report(wine.data, title="wine", columns={"cultivar": wine.target_names[wine.target]}).data


def rows_of(report, label):
    return tuple(int(row) for row in report.shown[report.labels[report.shown] == label])


def reports():
    texts = synthetic_report(240, 6)
    return {
        "digits": digits_report(),
        "wine": wine_report(),
        "table": synthetic_report(300, 4),
        "texts": replace(texts, **texts_and_cards(texts, SUBJECTS)),
        "many": synthetic_report(N_MANY, 12, n_shown=6000, ids=None),
        "evil": synthetic_report(100, 3, evil=True),
    }


@pytest.fixture(scope="module")
def pages():
    return reports()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pages):
    home = tmp_path_factory.mktemp("reports")
    for name, report in pages.items():
        ClusterReport(report).save(home / f"{name}.html")
    (home / "downloads").mkdir()
    return home


@pytest.fixture(scope="module")
def browser(tmp_path_factory, folder):
    driver = started(tmp_path_factory.mktemp("profile"))
    where = {"behavior": "allow", "downloadPath": str(folder / "downloads")}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, folder):
    """Opens one of the pages; afterwards, nothing was fetched and nothing complained."""

    def opener(name, **how):
        open_page(browser, folder / f"{name}.html", **how)
        return browser

    yield opener
    assert_quiet(browser)


@pytest.fixture
def downloaded(folder):
    """The lines of the one file that a click downloads."""
    home = folder / "downloads"
    for old in home.iterdir():
        old.unlink()

    def wait():
        for _ in range(200):
            found = [path for path in home.iterdir() if path.suffix == ".csv"]
            if found:
                return found[0].name, list(csv.reader(io.StringIO(found[0].read_text(encoding="utf-8"))))
            time.sleep(0.05)
        raise AssertionError("no file was downloaded")

    return wait


def plot_state(page, what):
    return page.execute_script(f"const plot = document.getElementById('map-plot'); return {what};")


def at(page, x, y):
    """Where a place of the map, in its own units from -1 to 1, lies in the window."""
    script = """
        const plot = document.getElementById("map-plot");
        document.getElementById("stage").scrollIntoView({block: "center", behavior: "instant"});
        const box = plot.querySelector(".nsewdrag").getBoundingClientRect();
        const share = (value, range) => (value - range[0]) / (range[1] - range[0]);
        return [box.left + share(arguments[0], plot.layout.xaxis.range) * box.width,
                box.top + (1 - share(arguments[1], plot.layout.yaxis.range)) * box.height];
    """
    return page.execute_script(script, float(x), float(y))


def drag(page, corners):
    from selenium.webdriver import ActionChains

    mouse = ActionChains(page, duration=20)
    for place, (x, y) in enumerate(corners):
        mouse.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        if place == 0:
            mouse.w3c_actions.pointer_action.pointer_down()
    mouse.w3c_actions.pointer_action.pointer_up()
    mouse.perform()


def lasso(page, report, label):
    """Draw a line around all rows of a cluster of a synthetic report."""
    points = report.neighbor_map / np.abs(report.neighbor_map).max()
    own = points[report.labels[report.shown] == label]
    (left, low), (right, high) = own.min(axis=0) - 0.02, own.max(axis=0) + 0.02
    corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
    drag(page, [at(page, *corner) for corner in corners])
    until(page, "return document.getElementById('selection').children.length > 0")


def count(page):
    return page.find_element("id", "rows-count").text


CUT_OFF = """
    return [...document.querySelectorAll("section *")].filter((each) => {
      const box = each.getBoundingClientRect();
      if (!box.width || box.right <= innerWidth + 1) return false;
      for (let around = each.parentElement; around; around = around.parentElement)
        if (["auto", "scroll", "hidden"].includes(getComputedStyle(around).overflowX)) return false;
      return true;
    }).map((each) => each.outerHTML.slice(0, 80));
"""


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", ["digits", "wine", "texts", "many"])
def test_the_page_fits_the_screen_in_the_theme_of_the_system(opened, pages, name, width):
    report = pages[name]
    page = opened(name, width=width)
    for scheme, ground in (("light", LIGHT), ("dark", DARK)):
        resize(page, width, scheme=scheme)
        first = cluster_color(report.labels[report.shown[0]], scheme)
        until(page, "return document.getElementById('map-plot').data[0].marker.color[0] === arguments[0]", first)
        assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == ground
        wanted = [cluster_color(label, scheme) for label in report.labels[report.shown]]
        assert plot_state(page, "plot.data[0].marker.color") == wanted
        assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert page.execute_script(CUT_OFF) == []


def test_many_rows_are_sampled_and_the_page_says_so(opened, downloaded):
    page = opened("many")
    assert "Map and table show 6,000 of 100,000 rows" in page.find_element("css selector", ".sampled").text
    assert len(plot_state(page, "plot.data[0].x")) == 6000
    assert count(page) == "1–25 of 6,000 rows"
    click(page, "#download-all")
    name, lines = downloaded()
    assert name == "made-up-labels.csv"
    assert lines[0] == ["row", "cluster", "strength", "outlier_score", "layer_1", "layer_2"]
    assert len(lines) == N_MANY + 1
    labels = np.array([int(line[1]) for line in lines[1:]])
    np.testing.assert_array_equal(labels, np.arange(N_MANY) % 12)
    assert lines[4] == ["3", "3", "0.3000", "0.1000", "1", "3"]


def test_a_lasso_selects_lists_and_downloads_rows(opened, downloaded, pages):
    report = pages["table"]
    page = opened("table")
    lasso(page, report, 2)
    wanted = [f"id-{row}" for row in rows_of(report, 2)]
    assert page.find_element("css selector", "#selection h3").text == f"{len(wanted)} rows selected"
    assert page.find_element("css selector", "#selection .shares").text.split() == ["cluster", "2", str(len(wanted))]
    click(page, "#list-selected")
    assert count(page) == f"1–25 of {len(wanted)} rows"
    click(page, "#download-selected")
    name, lines = downloaded()
    assert name == "made-up-selected.csv"
    assert [line[0] for line in lines[1:]] == wanted
    click(page, "#clear-selected")
    assert page.find_element("id", "selection").get_attribute("textContent") == ""
    click(page, "#only")
    assert count(page) == "1–25 of 300 rows"


def test_zoom_buttons_and_dragging_change_the_view_and_reset_restores_it(opened, pages):
    report = pages["table"]
    page = opened("table")
    whole = plot_state(page, "[...plot.layout.xaxis.range]")
    click(page, "[aria-label='Zoom in']")
    until(page, "return document.getElementById('map-plot').layout.xaxis.range[0] > arguments[0] + 0.01", whole[0])
    click(page, "#reset")
    until(
        page,
        "return Math.abs(document.getElementById('map-plot').layout.xaxis.range[0] - arguments[0]) < 1e-9",
        whole[0],
    )
    click(page, "[data-value=zoom]")
    x, y = at(page, 0.2, 0.2)
    drag(page, [(x, y), (x + 200, y - 150)])
    until(page, "return document.getElementById('map-plot').layout.xaxis.range[0] > arguments[0] + 0.1", whole[0])
    assert report.n_clusters == 4


def test_colours_follow_cluster_layer_strength_and_columns(opened, pages):
    from selenium.webdriver.support.ui import Select

    report = pages["table"]
    page = opened("table")
    coloring = Select(page.find_element("id", "coloring"))
    options = [option.text for option in coloring.options]
    assert options == [
        "cluster",
        "strength",
        "outlier score",
        "layer 1: 2 clusters",
        "layer 2: 4 clusters",
        "width",
        "kind",
        "gaps",
    ]

    def colors(choice):
        coloring.select_by_visible_text(choice)
        time.sleep(0.1)
        return plot_state(page, "plot.data[0].marker.color")

    assert colors("layer 1: 2 clusters") == [cluster_color(label % 2) for label in report.labels]
    np.testing.assert_allclose(colors("strength"), report.strengths, atol=1e-4)
    np.testing.assert_allclose(colors("width"), report.columns[0].values, rtol=1e-5)
    assert colors("gaps")[:2] == [None, 1.0]
    assert colors("kind") == [cluster_color(row % 3) for row in report.shown]
    texts = [each["text"] for each in plot_state(page, "plot.layout.annotations")]
    assert texts == ["<b>kind 0</b>", "<b>kind 1</b>", "<b>kind 2</b>"]


def test_a_highlight_dims_all_other_rows(opened, pages):
    report = pages["table"]
    page = opened("table")
    lit = "plot.data[0].marker.opacity.map((each) => each > 0.5)"
    click(page, "#legend [data-group='1']")
    assert plot_state(page, lit) == (report.labels == 1).tolist()
    click(page, "#legend [data-group='1']")
    assert all(plot_state(page, lit))
    click(page, "#cluster-3 [data-highlight]")
    assert plot_state(page, lit) == (report.labels == 3).tolist()
    click(page, ".node[data-layer='0'][data-cluster='1']")
    assert plot_state(page, lit) == (report.labels % 2 == 1).tolist()
    assert page.find_element("id", "coloring").get_attribute("value") == "layer:0"


def test_the_layer_tree_holds_each_cluster_below_its_parent(opened):
    page = opened("table")
    script = """
        return [...document.querySelectorAll(".tree > li")].map((each) =>
          [...each.querySelectorAll("button")].map((node) => [node.dataset.layer, node.dataset.cluster].map(Number)));
    """
    assert page.execute_script(script) == [[[0, 0], [1, 0], [1, 2]], [[0, 1], [1, 1], [1, 3]]]


def test_the_image_under_the_pointer_and_of_the_row_that_is_kept_are_its_own(opened, pages):
    from selenium.webdriver import ActionChains

    report = pages["digits"]
    page = opened("digits")
    points = report.neighbor_map / np.abs(report.neighbor_map).max()
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2) + 9 * np.eye(len(points))
    place = int(gaps.min(axis=1).argmax())
    x, y = at(page, *points[place])
    mouse = ActionChains(page)
    for step in (4, 0):
        mouse.w3c_actions.pointer_action.move_to_location(round(x) - step, round(y))
    mouse.perform()
    until(page, "return !document.getElementById('tip').hidden")
    mouse.w3c_actions.pointer_action.pointer_down()
    mouse.w3c_actions.pointer_action.pointer_up()
    mouse.perform()
    until(page, "return document.getElementById('inspector').dataset.place === String(arguments[0])", place)
    for selector in ("#tip canvas", "#inspector canvas"):
        found, pixels = shown(page, selector)
        assert found == place
        np.testing.assert_array_equal(pixels[:, :, 0], report.images[place])


def test_examples_of_a_card_show_their_rows(opened, pages):
    report = pages["digits"]
    page = opened("digits")
    found, pixels = shown(page, "#cluster-7 .exemplars li:nth-child(2) canvas")
    assert found == report.cards[7].exemplars[1]
    np.testing.assert_array_equal(pixels[:, :, 0], report.images[found])
    click(page, "#cluster-7 .exemplars li:nth-child(2) button")
    assert page.find_element("id", "inspector").get_attribute("data-place") == str(found)


def test_arrow_keys_go_from_row_to_row_and_are_told(opened, pages):
    from selenium.webdriver.common.keys import Keys

    report = pages["table"]
    page = opened("table")
    stage = page.find_element("id", "stage")
    before = int(page.find_element("id", "inspector").get_attribute("data-place"))
    stage.send_keys(Keys.ARROW_UP)
    after = int(page.find_element("id", "inspector").get_attribute("data-place"))
    assert report.neighbor_map[after, 1] > report.neighbor_map[before, 1]
    spoken = page.find_element("id", "live").get_attribute("textContent")
    assert spoken == f"id-{after}, cluster {report.labels[after]}, strength {report.strengths[after]:.2f}"


def test_the_table_is_searched_filtered_sorted_and_paged(opened, downloaded):
    from selenium.webdriver.support.ui import Select

    page = opened("texts")
    search = page.find_element("id", "search")
    search.send_keys("EXCHANGE 23")
    rows = [row for row in range(240) if row % 6 == 3 and "23" in str(row)]
    assert count(page) == f"1–{len(rows)} of {len(rows)} rows"
    click(page, "#download-found")
    _, lines = downloaded()
    assert [int(line[0]) for line in lines[1:]] == rows
    search.send_keys("x no such text")
    assert count(page) == "No row matches."
    click(page, "#cluster-3 [data-list]")
    assert count(page) == "1–25 of 40 rows"
    assert Select(page.find_element("id", "filter")).first_selected_option.text == "cluster 3"
    cells = """
        const rows = [...document.querySelectorAll("#rows-table tbody tr")];
        return rows.map((row) => row.cells[arguments[0]].textContent);
    """
    click(page, "#rows-table thead th:nth-child(3) button")
    assert page.execute_script(cells, 2)[:5] == ["0.90"] * 5
    click(page, "#rows-table thead th:nth-child(3) button")
    assert page.execute_script(cells, 2)[0] == "0.30"
    assert page.find_element("css selector", "#rows-table th:nth-child(3)").get_attribute("aria-sort") == "ascending"
    click(page, "#pager button:last-child")
    assert count(page) == "26–40 of 40 rows"


def test_names_and_cells_cannot_break_out_of_their_places(opened, downloaded):
    from selenium.webdriver.support.ui import Select

    page = opened("evil")
    assert page.title.startswith("</script><script>window.broken = 1</script><img")
    assert EVIL in page.find_element("css selector", "#cluster-0 .bars .name").get_attribute("textContent")
    assert page.execute_script("return document.querySelectorAll('img').length") == 0
    for option in Select(page.find_element("id", "coloring")).options:
        option.click()
        time.sleep(0.05)
    page.execute_script("document.querySelector('[data-row=\"0\"]').click()")
    assert page.find_element("css selector", "#inspector h3").get_attribute("textContent") == f"{EVIL}-0"
    assert page.execute_script("return document.querySelectorAll('img, svg script, svg image').length") == 0
    click(page, "#download-all")
    _, lines = downloaded()
    assert [lines[1][0], lines[2][0]] == [f"{EVIL}-0", "'=1+1-1"], "a spreadsheet finds no formula"


def test_the_switch_turns_every_picture_to_the_other_theme(opened, pages):
    report = pages["table"]
    page = opened("table")
    click(page, "#theme")
    until(
        page,
        "return document.getElementById('map-plot').data[0].marker.color[0] === arguments[0]",
        cluster_color(0, "dark"),
    )
    assert plot_state(page, "plot.data[0].marker.color") == [cluster_color(label, "dark") for label in report.labels]
    for selector in ("#legend .swatch", "#cluster-0 .swatch", "#rows-table .swatch"):
        script = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
        red, green, blue = (int(cluster_color(0, "dark")[i : i + 2], 16) for i in (1, 3, 5))
        assert page.execute_script(script, selector) == f"rgb({red}, {green}, {blue})"


def test_a_phone_scrolls_the_page_until_selecting_is_chosen(opened, browser):
    page = opened("table", width=390)
    page.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        page.refresh()
        until(page, "return document.documentElement.dataset.ready === 'true'")
        assert plot_state(page, "plot.layout.dragmode") is False
        click(page, "[data-value=lasso]")
        assert plot_state(page, "plot.layout.dragmode") == "lasso"
    finally:
        page.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_print_is_light_and_charts_fit_the_paper(opened, pages):
    page = opened("table", scheme="dark")
    page.execute_script("dispatchEvent(new Event('beforeprint'))")
    until(page, "return document.getElementById('map-plot').layout.width <= 640")
    wanted = [cluster_color(label) for label in pages["table"].labels]
    assert plot_state(page, "plot.data[0].marker.color") == wanted
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == LIGHT
    page.execute_script("dispatchEvent(new Event('afterprint'))")
    until(page, "return document.getElementById('map-plot').layout.width > 640")
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == DARK


def test_print_leaves_what_cannot_be_used_on_paper_out(opened):
    page = opened("table")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    script = "return arguments[0].map((each) => document.querySelector(each).offsetParent !== null)"
    assert page.execute_script(script, ["#map-controls", ".actions", ".pager"]) == [False] * 3
    assert page.execute_script(script, ["#map-plot", "#cluster-0 .bars", "#rows-table"]) == [True] * 3
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_every_control_and_picture_has_a_name(opened):
    page = opened("digits")
    nameless = """
        const named = (each) => ["aria-label", "aria-labelledby", "alt"].some((name) => each.getAttribute(name))
          || each.textContent.trim() || each.closest("label") || each.querySelector("[aria-label]");
        const kinds = "[role=img], canvas, img, button, select, input, [role=application], [role=region]";
        return [...document.querySelectorAll(kinds)]
          .filter((each) => !named(each) && !each.closest("[aria-hidden=true]"))
          .map((each) => each.outerHTML.slice(0, 90));
    """
    assert page.execute_script(nameless) == []


def test_the_width_of_the_window_is_followed(opened):
    page = opened("table")
    wide = plot_state(page, "plot.layout.width")
    resize(page, 900)
    until(page, "return document.getElementById('map-plot').layout.width < arguments[0] - 100", wide)
