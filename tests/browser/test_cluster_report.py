"""The report of a clustering in a real browser: images, a table, texts and 100,000 rows."""

import csv
import io
import os
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from adaam import AdaAMClustering, TableEncoder
from adaam.cluster_report import ClusterReport
from adaam.palette import cluster_color
from adaam.tables import read_frame
from chromium import assert_quiet, click, needs_browser, open_page, resize, shown, started, until
from cluster_reports import EVIL, requests, sentence_vectors, synthetic_report

pytest.importorskip("plotly", reason="the page needs plotly")
pytestmark = needs_browser

N_MANY = 100_000
LIGHT, DARK = "rgb(250, 249, 247)", "rgb(18, 20, 25)"
CUSTOMERS = Path(__file__).parents[2] / "examples" / "tables" / "customers.csv"
# Images, a table of columns of every kind, texts, sentence embeddings without their texts, 100,000 rows.
KINDS = ("digits", "customers", "texts", "embeddings", "many")
EMBEDDINGS = Path(os.environ.get("ADAAM_DATA", "")) / "embeddings" / "stackoverflow_use.npz"


def digits_report():
    digits = load_digits()
    X, known = digits.data[:400], [str(each) for each in digits.target[:400]]
    return AdaAMClustering(10).fit(X).report(X, images=(8, 8), columns={"digit": known}, title="digits").data


def customers_report():
    frame = read_frame(CUSTOMERS)
    encoder = TableEncoder().fit(frame)
    table = encoder.own_units(frame)
    X = encoder.transform(frame)
    return AdaAMClustering("auto").fit(X).report(X, ids=table.pop("customer_id"), table=table, title="customers").data


def texts_report():
    texts, _ = requests(390)
    X = sentence_vectors(texts)
    return AdaAMClustering(13).fit(X).report(X, texts=texts, title="requests").data


def embeddings_report():
    """Real sentence embeddings if they are available, otherwise synthetic ones."""
    if EMBEDDINGS.is_file():
        with np.load(EMBEDDINGS) as archive:
            X, known = archive["X"][:1200].astype(np.float64), archive["y"][:1200]
    else:
        texts, known = requests(780)
        X = sentence_vectors(texts, 64)
    n_clusters = len(set(known.tolist()))
    columns = {"known class": [str(each) for each in known]}
    return AdaAMClustering(n_clusters).fit(X).report(X, columns=columns, title="embeddings").data


def rows_of(report, label):
    return tuple(int(row) for row in report.shown[report.labels[report.shown] == label])


def reports():
    return {
        "digits": digits_report(),
        "customers": customers_report(),
        "texts": texts_report(),
        "embeddings": embeddings_report(),
        "table": synthetic_report(300, 4),
        "many": synthetic_report(N_MANY, 14, n_shown=6000, ids=None),
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
    """Open one of the pages; check at the end that nothing was fetched and no error was logged."""

    def opener(name, **how):
        open_page(browser, folder / f"{name}.html", **how)
        return browser

    yield opener
    assert_quiet(browser)


@pytest.fixture
def downloaded(folder):
    """Function that waits for the downloaded file and returns its name and its lines."""
    home = folder / "downloads"
    for old in home.iterdir():
        old.unlink()

    def wait():
        for _ in range(200):
            # The browser reserves the name with an empty file while it writes the content under another name.
            found = [path for path in home.iterdir() if path.suffix == ".csv" and path.stat().st_size]
            if found:
                return found[0].name, list(csv.reader(io.StringIO(found[0].read_text(encoding="utf-8"))))
            time.sleep(0.05)
        raise AssertionError("no file was downloaded")

    return wait


def plot_state(page, what):
    return page.execute_script(f"const plot = document.getElementById('map-plot'); return {what};")


def at(page, x, y):
    """Return the window coordinates of a point of the map, given in the map's units from -1 to 1."""
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
    """Draw a lasso around the rows of a cluster; return the places certainly inside, and those possibly inside."""
    points = report.neighbor_map / np.abs(report.neighbor_map).max()
    own = points[report.labels[report.shown] == label]
    (left, low), (right, high) = own.min(axis=0) - 0.02, own.max(axis=0) + 0.02
    corners = [at(page, *corner) for corner in [(left, low), (right, low), (right, high), (left, high), (left, low)]]
    drag(page, corners)
    until(page, "return document.getElementById('selection').children.length > 0")
    pixel = 2 * (right - left) / max(1.0, abs(corners[1][0] - corners[0][0]))

    def inside(room):
        within = (points >= (left - room, low - room)) & (points <= (right + room, high + room))
        return set(np.flatnonzero(within.all(axis=1)).tolist())

    return inside(-pixel), inside(pixel)


def count(page):
    return page.find_element("id", "rows-count").text


# How many elements there are, and those that are cut off.
CUT_OFF = """
    const every = [...document.querySelectorAll("section *")];
    return [every.length, every.filter((each) => {
      const box = each.getBoundingClientRect();
      if (!box.width || box.right <= innerWidth + 1) return false;
      for (let around = each.parentElement; around; around = around.parentElement)
        if (["auto", "scroll", "hidden"].includes(getComputedStyle(around).overflowX)) return false;
      return true;
    }).map((each) => each.outerHTML.slice(0, 80))];
"""


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", KINDS)
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
        n_elements, cut_off = page.execute_script(CUT_OFF)
        assert n_elements > 0
        assert cut_off == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_page_is_clicked_searched_selected_and_downloaded(opened, downloaded, pages, name, width, scheme):
    report = pages[name]
    page = opened(name, width=width, scheme=scheme)
    rows = report.shown.tolist()
    # A click on a card's typical row shows it beside the map, with its text, image or values.
    example = report.cards[1].exemplars[0]
    click(page, f"#cluster-1 .exemplars [data-row='{example}']")
    told = page.find_element("id", "inspector").text
    assert report.row_name(example) in told
    assert "cluster" in told
    place = rows.index(example)
    if report.texts is not None:
        assert report.texts[place] in told
    if report.images is not None:
        found, pixels = shown(page, "#inspector canvas")
        assert found == place
        np.testing.assert_array_equal(pixels[:, :, 0], report.images[place])
    # A search for its name finds it in the table.
    wanted = report.texts[place] if report.texts is not None else report.row_name(example)
    page.find_element("id", "search").send_keys(wanted)
    names = "return [...document.querySelectorAll('#rows-table tbody th')].map((each) => each.textContent)"
    assert report.row_name(example) in page.execute_script(names)
    page.find_element("id", "search").clear()
    # A lasso around a cluster selects its rows, which can be downloaded.
    surely, perhaps = lasso(page, report, 1)
    click(page, "#download-selected")
    file_name, lines = downloaded()
    assert file_name == f"{report.title.replace(' ', '-')}-selected.csv"
    ids = {report.ids[row] if report.ids is not None else str(row): at for at, row in enumerate(rows)}
    chosen = {ids[line[0]] for line in lines[1:]}
    assert surely <= chosen <= perhaps
    assert page.find_element("css selector", "#selection h3").text == f"{len(chosen):,} rows selected"
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert (
        page.execute_script("return getComputedStyle(document.body).backgroundColor")
        == {"light": LIGHT, "dark": DARK}[scheme]
    )


@pytest.mark.parametrize("name", KINDS)
def test_names_on_the_map_cover_neither_one_another_nor_leave_it(opened, name):
    page = opened(name)
    script = """
        const stage = document.getElementById("stage").getBoundingClientRect();
        const names = [...document.querySelectorAll("#map-plot .annotation-text")];
        const boxes = names.map((each) => each.getBoundingClientRect());
        const apart = (a, b) => a.right - 1 <= b.left || b.right - 1 <= a.left ||
          a.bottom - 1 <= b.top || b.bottom - 1 <= a.top;
        const isBad = (a, i) => a.left < stage.left || a.right > stage.right
          || boxes.some((b, k) => k > i && !apart(a, b));
        return [boxes.length, boxes.filter(isBad).length];
    """
    n_names, n_bad = page.execute_script(script)
    assert n_names >= 8
    assert n_bad == 0


# How many cards and boxes there are, and what runs out of them.
RUNS_OUT = """
    const runsOut = [], [cards, boxes] = [".card.cluster", ".sizes a, .node"].map((kind) =>
      document.querySelectorAll(kind));
    for (const card of cards) {
      const [box, style] = [card.getBoundingClientRect(), getComputedStyle(card)];
      const edge = box.right - parseFloat(style.paddingRight) + 1;
      for (const each of card.querySelectorAll("*:not(.sr)"))
        if (each.getBoundingClientRect().right > edge) runsOut.push(each.outerHTML.slice(0, 80));
    }
    for (const around of boxes) {
      const { left, right } = around.getBoundingClientRect();
      for (const each of around.children) {
        const range = document.createRange();
        range.selectNodeContents(each);
        const box = range.getBoundingClientRect();
        const isSeen = box.width && getComputedStyle(each).visibility === "visible";
        if (isSeen && (box.left < left - 1 || box.right > right + 1)) runsOut.push(around.outerHTML.slice(0, 80));
      }
    }
    return [cards.length, boxes.length, runsOut];
"""


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", KINDS)
def test_no_words_run_out_of_their_cards_or_boxes(opened, pages, name, width):
    n_cards, n_boxes, runs_out = opened(name, width=width).execute_script(RUNS_OUT)
    assert n_cards == pages[name].n_clusters
    assert n_boxes >= n_cards
    assert runs_out == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_can_be_read_on_every_colour(opened, scheme):
    """Contrast by WCAG 2.1, which requires 4.5 for small text."""
    script = """
        const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        const light = (text) => {
          const [r, g, b] = text.match(/[\\d.]+/g).map((v) => linear(v / 255));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        return [...document.querySelectorAll(".sizes a")].map((each) => { const style = getComputedStyle(each);
          const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
          return (a + 0.05) / (b + 0.05); });
    """
    contrasts = opened("embeddings", scheme=scheme).execute_script(script)
    assert len(contrasts) >= 13
    assert min(contrasts) >= 4.5


def test_the_number_on_the_map_is_not_hidden_by_the_row_that_is_kept(opened):
    script = """
        const ring = document.getElementById("ring");
        const { clientWidth } = ring;
        const tag = [...document.querySelectorAll("#map-plot .annotation")].map((each) => each.getBoundingClientRect());
        return [clientWidth, Math.max(...tag.map((each) => each.height))];
    """
    inside, tag = opened("digits").execute_script(script)
    assert inside >= tag


def test_features_without_names_are_not_told(opened, pages):
    """A low x229 means nothing: embeddings are described by their rows, and the page suggests to pass texts."""
    report = pages["embeddings"]
    assert all(card.effects == () and card.summary == "" for card in report.cards)
    assert [column.name for column in report.columns] == ["known class"]
    page = opened("embeddings")
    assert "texts=" in page.find_element("id", "clusters").text
    assert "texts=" not in opened("customers").find_element("id", "clusters").text


def test_a_table_is_told_in_its_own_units(opened, pages):
    report = pages["customers"]
    page = opened("customers")
    heads = "return [...document.querySelectorAll('#rows-table thead th')].map((each) => each.textContent)"
    columns = ["since", "age", "plan", "country", "newsletter", "orders", "revenue", "returns"]
    assert page.execute_script(heads) == ["id", "cluster", "strength", "outlier score", *columns]
    first = page.find_element("css selector", "#rows-table tbody tr").text.split()
    assert first[-7:] == ["–", "basic", "FR", "no", "1", "86.45", "0"]
    words = {name for card in report.cards for name, _ in card.categories}
    assert words == {"plan", "country", "newsletter"}


def test_what_sets_selected_rows_apart_is_told(opened, pages):
    report = pages["customers"]
    page = opened("customers")
    label = next(card.label for card in report.cards if "high revenue" in card.summary)
    lasso(page, report, label)
    told = page.find_element("css selector", "#selection .apart").text
    assert "high revenue" in told
    own = report.cards[label].effects[0]
    assert own.name == "revenue"
    assert f"{own.mean:,.0f} vs {own.rest_mean:,.0f}" in told
    assert "plan: pro" in told


def test_words_are_found_on_the_map(opened, pages):
    report = pages["texts"]
    page = opened("texts")
    page.find_element("id", "find").send_keys("passport")
    wanted = ["passport" in text for text in report.texts]
    until(page, "return document.getElementById('found').textContent === arguments[0]", f"{sum(wanted)} found")
    lit = "return document.getElementById('map-plot').data[0].marker.opacity.map((each) => each > 0.5)"
    until(page, "return document.getElementById('map-plot').data[0].marker.opacity.some((each) => each < 0.5)")
    assert page.execute_script(lit) == wanted
    click(page, "#reset")
    until(page, "return document.getElementById('map-plot').data[0].marker.opacity.every((each) => each > 0.5)")
    assert page.find_element("id", "find").get_attribute("value") == ""


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
    np.testing.assert_array_equal(labels, np.arange(N_MANY) % 14)
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


@pytest.mark.parametrize("width", [1400, 390])
def test_the_scale_of_colours_covers_no_row(opened, width):
    from selenium.webdriver.support.ui import Select

    page = opened("customers", width=width)
    Select(page.find_element("id", "coloring")).select_by_visible_text("revenue")
    until(page, "return document.querySelector('#map-plot .colorbar') !== null")
    script = """
        const box = (selector) => document.querySelector(selector).getBoundingClientRect();
        const [rows, scale, stage] = ["#map-plot .nsewdrag", "#map-plot .colorbar", "#stage"].map(box);
        return [scale.left >= rows.right - 1, scale.right <= stage.right + 1];
    """
    assert page.execute_script(script) == [True, True]


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


def test_the_keyboard_alone_reaches_everything(opened, pages):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    report = pages["table"]
    page = opened("table")
    ActionChains(page).send_keys(Keys.TAB).perform()
    assert page.switch_to.active_element.get_attribute("class") == "skip"
    ActionChains(page).send_keys(Keys.ENTER).perform()
    assert page.switch_to.active_element.get_attribute("id") == "main"
    reached = set()
    for _ in range(200):
        ActionChains(page).send_keys(Keys.TAB).perform()
        stop = page.switch_to.active_element
        reached.add(stop.get_attribute("id") or stop.get_attribute("class"))
        outline = "return getComputedStyle(document.activeElement).outlineStyle"
        assert page.execute_script(outline) == "solid", stop.get_attribute("outerHTML")[:90]
        if stop.get_attribute("id") == "download-all":
            break
    assert {"coloring", "reset", "find", "stage", "example", "search", "filter", "download-all"} <= reached
    example = page.find_element("css selector", "#cluster-1 .exemplars button")
    example.send_keys(Keys.ENTER)
    kept = page.find_element("id", "inspector").get_attribute("data-place")
    assert int(kept) == report.cards[1].exemplars[0]
    page.find_element("css selector", "#legend [data-group='1']").send_keys(Keys.SPACE)
    lit = "plot.data[0].marker.opacity.map((each) => each > 0.5)"
    assert plot_state(page, lit) == (report.labels == 1).tolist()


def test_the_table_is_searched_filtered_sorted_and_paged(opened, downloaded, pages):
    from selenium.webdriver.support.ui import Select

    page, report = opened("texts"), pages["texts"]
    search = page.find_element("id", "search")
    search.send_keys("PASSPORT photo")
    rows = [row for row, text in enumerate(report.texts) if "passport" in text and "photo" in text]
    assert count(page) == f"1–{len(rows)} of {len(rows)} rows"
    click(page, "#download-found")
    _, lines = downloaded()
    assert [int(line[0]) for line in lines[1:]] == rows
    search.send_keys("x no such text")
    assert count(page) == "No row matches."
    size = report.cards[3].size
    click(page, "#cluster-3 [data-list]")
    assert count(page) == f"1–25 of {size} rows"
    assert Select(page.find_element("id", "filter")).first_selected_option.text == "cluster 3"
    cells = """
        const rows = [...document.querySelectorAll("#rows-table tbody tr")];
        return rows.map((row) => row.cells[arguments[0]].textContent);
    """
    strengths = np.sort(report.strengths[report.labels == 3])
    click(page, "#rows-table thead th:nth-child(4) button")
    assert page.execute_script(cells, 3)[0] == f"{strengths[-1]:.2f}"
    click(page, "#rows-table thead th:nth-child(4) button")
    assert page.execute_script(cells, 3)[0] == f"{strengths[0]:.2f}"
    assert page.find_element("css selector", "#rows-table th:nth-child(4)").get_attribute("aria-sort") == "ascending"
    click(page, "#pager button:last-child")
    assert count(page) == f"26–{size} of {size} rows"


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


@pytest.mark.parametrize("name", KINDS)
def test_tables_and_layers_fit_the_paper(opened, name):
    page = opened(name)
    resize(page, 700)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    script = """
        const every = [...document.querySelectorAll("table, .tree")];
        return [every.length, every.filter((each) =>
          each.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((each) => each.className)];
    """
    n_elements, too_wide = page.execute_script(script)
    assert n_elements > 0
    assert too_wide == []
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_every_control_and_picture_has_a_name(opened):
    page = opened("digits")
    nameless = """
        const named = (each) => ["aria-label", "aria-labelledby", "alt"].some((name) => each.getAttribute(name))
          || each.textContent.trim() || each.closest("label") || each.querySelector("[aria-label]");
        const kinds = ["[role=img]", "canvas", "button", "select", "input", "[role=application]", "[role=region]"];
        const every = [...document.querySelectorAll([...kinds, "img"].join())];
        return [kinds.map((kind) => document.querySelectorAll(kind).length), every
          .filter((each) => !named(each) && !each.closest("[aria-hidden=true]"))
          .map((each) => each.outerHTML.slice(0, 90))];
    """
    counts, found = page.execute_script(nameless)
    assert min(counts) > 0
    assert found == []


def test_the_width_of_the_window_is_followed(opened):
    page = opened("table")
    wide = plot_state(page, "plot.layout.width")
    resize(page, 900)
    until(page, "return document.getElementById('map-plot').layout.width < arguments[0] - 100", wide)
