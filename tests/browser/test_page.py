"""The page in a real browser, opened from a file and used by mouse, by keyboard and on a phone."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from adaam.bench.exhibit import read_exhibit, write_exhibit
from adaam.bench.records import RecordsFile, read_records
from adaam.cli import main
from chromium import READY, assert_quiet, click, needs_browser, open_page, resize, shown, started, until

pytest.importorskip("plotly", reason="the page needs plotly")
pytestmark = [needs_browser, pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")]

PLAN = """
title = "small"
starts = 2
rounds = 2
[experiments.accuracy]
datasets = ["tiny", "flowers"]
methods = ["adaam", "knn", "pca", "kmeans"]
preparations = ["reference", "raw"]
[experiments.passes]
datasets = ["tiny"]
methods = ["adaam"]
n_iter = [1, 2]
[experiments.magnitudes]
kind = "histogram"
datasets = ["tiny"]
methods = ["adaam"]
"""
N_ROWS = 300
EVIL = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>"
EVIL_PLACE, FLOWERS, TINY = range(3)  # sets that the library does not list are sorted alphabetically
LIGHT, DARK = "rgb(250, 249, 247)", "rgb(18, 20, 25)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report as the commands write it: images, rows that are not images, and a name with injected HTML."""
    home = tmp_path_factory.mktemp("page")
    digits, iris = load_digits(), load_iris()
    np.savez(home / "tiny.npz", X=digits.data[:N_ROWS], y=digits.target[:N_ROWS], image_shape=(8, 8))
    np.savez(home / "flowers.npz", X=iris.data, y=iris.target)
    (home / "plan.toml").write_text(PLAN)
    out = home / "out"
    options = ["--data", str(home), "--plan", str(home / "plan.toml"), "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adaam.cli.reproduce.all_charts", lambda records: [])  # the figures of matplotlib
        assert main(["reproduce", *options]) == 0
        ours = [each for each in read_records(out / "records.jsonl").records if each.get("dataset") == "flowers"]
        with RecordsFile(out / "records.jsonl") as records:
            records.append([each | {"dataset": EVIL} for each in ours])
        exhibit = read_exhibit(out / "exhibits", "flowers")
        write_exhibit(replace(exhibit, about={**exhibit.about, "dataset": EVIL}), out / "exhibits")
        assert main(["report", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = started(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, folder):
    """The page, newly opened; checks at the end that nothing was fetched and no error was logged."""
    open_page(browser, folder / "report.html")
    yield browser
    assert_quiet(browser)


def open_set(page, place):
    """Open the tab of a data set and wait until it is drawn."""
    page.execute_script(f"document.getElementById('tab-{place}').click()")
    until(page, f"return document.getElementById('set-{place}').dataset.ready === 'true'")
    page.execute_script(
        f"document.querySelector('#set-{place} .stage').scrollIntoView({{block: 'center', behavior: 'instant'}})"
    )
    return page.find_element("css selector", f"#set-{place} .stage")


def image_of(exhibit, place):
    """Return the image of a row, computed from the data set."""
    X = load_digits().data[:N_ROWS]
    return np.round(255 * (X[exhibit.rows[place]] - X.min()) / (X.max() - X.min())).reshape(8, 8)


def lonely(plane):
    """Return the row that is farthest from all others, so that no other can be under the pointer."""
    gaps = np.linalg.norm(plane[:, None] - plane[None], axis=2) + 1e9 * np.eye(len(plane))
    return int(gaps.min(axis=1).argmax())


def on_screen(page, exhibit, place):
    """Return the window coordinates of a row of the digits."""
    script = """
        const plot = document.querySelector("#set-2 .plot");
        const box = plot.querySelector(".nsewdrag").getBoundingClientRect();
        const [x, y] = arguments[0];
        const share = (value, range) => (value - range[0]) / (range[1] - range[0]);
        return [box.left + share(x, plot.layout.xaxis.range) * box.width,
                box.top + (1 - share(y, plot.layout.yaxis.range)) * box.height];
    """
    # The page scales the plane: its largest coordinate is 1.
    at = exhibit.chosen[place] / np.abs(exhibit.chosen).max()
    return page.execute_script(script, [float(value) for value in at])


def column(page, table, place):
    cells = page.find_elements("css selector", f"#{table} tbody tr > :nth-child({place + 1})")
    assert cells
    return [cell.get_attribute("data-value") for cell in cells]


def test_a_click_sorts_and_another_turns_the_order(page):
    heading = "#scores thead th:nth-child(4) button"
    before = column(page, "scores", 3)
    click(page, heading)
    assert page.find_element("css selector", "#scores thead th:nth-child(4)").get_attribute("aria-sort") == "descending"
    assert column(page, "scores", 3) == sorted(before, key=float, reverse=True)
    click(page, heading)
    assert page.find_element("css selector", "#scores thead th:nth-child(4)").get_attribute("aria-sort") == "ascending"
    assert column(page, "scores", 3) == sorted(before, key=float)


def test_the_keyboard_sorts_words_too_and_one_column_is_marked(page):
    from selenium.webdriver.common.keys import Keys

    page.find_element("css selector", "#scores thead th:nth-child(4) button").send_keys(Keys.ENTER)
    page.find_element("css selector", "#scores thead th:nth-child(2) button").send_keys(Keys.SPACE)
    methods = column(page, "scores", 1)
    assert methods == sorted(methods, key=str.lower)
    sorts = [head.get_attribute("aria-sort") for head in page.find_elements("css selector", "#scores thead th")]
    assert sorts == ["none", "ascending", *["none"] * 7]


def test_empty_cells_stay_last_either_way(page):
    script = """
        const cell = document.querySelector("#scores tbody tr:nth-child(2) td:nth-child(4)");
        cell.dataset.value = "–";
    """
    page.execute_script(script)
    for _ in range(2):
        click(page, "#scores thead th:nth-child(4) button")
        assert column(page, "scores", 3)[-1] == "–"


def test_the_image_under_the_pointer_is_that_of_the_row(page, folder):
    from selenium.webdriver import ActionChains

    exhibit = read_exhibit(folder / "exhibits", "tiny")
    open_set(page, TINY)
    place = lonely(exhibit.chosen)
    x, y = on_screen(page, exhibit, place)
    assert page.execute_script("return document.getElementById('tip').hidden")
    mouse = ActionChains(page)
    mouse.w3c_actions.pointer_action.move_to_location(round(x) - 3, round(y) - 3)
    mouse.w3c_actions.pointer_action.move_to_location(round(x), round(y))
    mouse.perform()
    until(page, "return !document.getElementById('tip').hidden")
    for selector in ("#tip canvas", "#set-2 .inspector canvas"):
        found, pixels = shown(page, selector)
        assert found == place
        np.testing.assert_array_equal(pixels[:, :, 0], image_of(exhibit, place))
    assert f"class {exhibit.classes[place]}" in page.find_element("id", "tip").text


def test_a_finger_chooses_a_row_and_still_scrolls_the_page(page, folder):
    exhibit = read_exhibit(folder / "exhibits", "tiny")
    resize(page, 390)
    page.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        page.refresh()
        until(page, READY)
        open_set(page, TINY)
        place = lonely(exhibit.chosen)
        x, y = on_screen(page, exhibit, place)
        page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        chosen = "return Number(document.querySelector('#set-2 .inspector canvas').dataset.place) === arguments[0]"
        until(page, chosen, place)
        first = "return Number(document.querySelector('#set-2 .tile.query canvas').dataset.place) === arguments[0]"
        until(page, first, place)
        assert (
            page.execute_script("return getComputedStyle(document.querySelector('#set-2 .nsewdrag')).touchAction")
            != "none"
        )
    finally:
        page.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_arrow_keys_move_from_row_to_row_and_show_their_images(page, folder):
    from selenium.webdriver.common.keys import Keys

    exhibit = read_exhibit(folder / "exhibits", "tiny")
    stage = open_set(page, TINY)
    place, _ = shown(page, "#set-2 .inspector canvas")
    for key, axis, sign in ((Keys.ARROW_LEFT, 0, -1), (Keys.ARROW_DOWN, 1, -1), (Keys.ARROW_RIGHT, 0, 1)):
        stage.send_keys(key)
        found, pixels = shown(page, "#set-2 .inspector canvas")
        assert found != place
        assert sign * (exhibit.chosen[found, axis] - exhibit.chosen[place, axis]) > 0
        np.testing.assert_array_equal(pixels[:, :, 0], image_of(exhibit, found))
        spoken = page.find_element("css selector", "#set-2 [aria-live]").get_attribute("textContent")
        assert f"row {exhibit.rows[found]}, class {exhibit.classes[found]}" in spoken
        place = found
    stage.send_keys(Keys.ENTER)
    first, _ = shown(page, "#set-2 .strip:not(.head) .tile.query canvas")
    assert first == place


def test_neighbours_are_shown_in_order_and_marked_by_class(page, folder):
    exhibit = read_exhibit(folder / "exhibits", "tiny")
    open_set(page, TINY)
    script = """
        const strip = document.querySelector("#set-2 .strip:not(.head)");
        const tiles = (kind) => [...strip.querySelectorAll(kind + " .tile")].map((tile) =>
            [Number(tile.querySelector("canvas").dataset.place), tile.classList.contains("same")]);
        return [Number(strip.querySelector(".query canvas").dataset.place), tiles(".before"), tiles(".after")];
    """
    query, before, after = page.execute_script(script)
    for tiles, nearest in ((before, exhibit.nearest_before), (after, exhibit.nearest_chosen)):
        assert [place for place, _ in tiles] == nearest[query].tolist()
        assert [same for _, same in tiles] == (exhibit.classes[nearest[query]] == exhibit.classes[query]).tolist()


def test_colours_spaces_and_highlights_can_be_chosen(page, folder):
    exhibit = read_exhibit(folder / "exhibits", "tiny")
    open_set(page, TINY)
    traces = "return document.querySelector('#set-2 .plot').data.map((trace) => trace.customdata)"
    assert page.execute_script(traces) == [np.flatnonzero(exhibit.classes == c).tolist() for c in range(10)]
    for value, groups in (
        ("clusters", exhibit.chosen_clusters),
        ("errors", exhibit.classes != exhibit.chosen_clusters),
    ):
        button = click(page, f"#set-2 button[data-value={value}]")
        until(
            page, "return document.querySelector('#set-2 .plot').data.length === arguments[0]", len(np.unique(groups))
        )
        assert page.execute_script(traces) == [np.flatnonzero(groups == g).tolist() for g in np.unique(groups)]
        assert button.get_attribute("aria-pressed") == "true"
    click(page, "#set-2 button[data-value=after]")
    wrong = exhibit.classes != exhibit.clusters
    wanted = [np.flatnonzero(wrong == g).tolist() for g in (False, True)]
    same = "return JSON.stringify(document.querySelector('#set-2 .plot').data.map((each) => each.customdata))"
    until(page, f"{same} === JSON.stringify(arguments[0])", wanted)
    assert "AdaAM with k-means: " in page.find_element("id", "set-2").text
    click(page, "#set-2 button[data-value=before]")
    place = (
        exhibit.before[np.flatnonzero(exhibit.classes == exhibit.chosen_clusters)[0], 0] / np.abs(exhibit.before).max()
    )
    until(
        page, "return Math.abs(document.querySelector('#set-2 .plot').data[0].x[0] - arguments[0]) < 1e-3", float(place)
    )


def test_components_are_drawn_as_images_of_patterns_or_weights(page, folder):
    from adaam.webpage import diverging_palette, signed_bytes

    exhibit = read_exhibit(folder / "exhibits", "tiny")
    open_set(page, TINY)
    for value, images in (("patterns", exhibit.patterns), ("components", exhibit.components)):
        click(page, f"#set-2 button[data-value={value}]")
        _, pixels = shown(page, "#set-2 .grid figure:nth-child(4) canvas")
        np.testing.assert_array_equal(pixels[:, :, :3], diverging_palette()[signed_bytes(images)[3]])


def test_tabs_follow_the_arrow_keys(page):
    from selenium.webdriver.common.keys import Keys

    open_set(page, TINY)
    page.find_element("id", "tab-2").send_keys(Keys.ARROW_RIGHT)
    assert page.switch_to.active_element.get_attribute("id") == "tab-0", "after the last comes the first"
    until(page, "return document.getElementById('set-0').dataset.ready === 'true'")
    assert not page.find_element("id", "set-2").is_displayed()


def test_rows_that_are_no_images_are_drawn_as_profiles(page):
    open_set(page, FLOWERS)
    assert "profile" in page.find_element("css selector", "#set-1 .inspector canvas").get_attribute("class")
    _, pixels = shown(page, "#set-1 .inspector canvas")
    high = (pixels[:, :, 3] > 0).sum(axis=0)
    exhibit = read_exhibit_of_flowers(page)
    place, _ = shown(page, "#set-1 .inspector canvas")
    middles = (np.arange(4) * 64 + 32).tolist()
    np.testing.assert_allclose(high[middles], 2 + 124 * exhibit.tiles[place, 0].astype(float) / 255, atol=1.01)


def read_exhibit_of_flowers(page):
    from pathlib import Path
    from urllib.parse import unquote, urlparse

    return read_exhibit(Path(unquote(urlparse(page.current_url).path)).parent / "exhibits", "flowers")


def test_a_name_cannot_break_out_of_its_place(page):
    open_set(page, EVIL_PLACE)
    assert page.find_element("id", "tab-0").text == EVIL
    assert EVIL in page.find_element("css selector", "#set-0 h3").text
    assert EVIL in page.find_element("css selector", "#cases").get_attribute("textContent")
    assert page.execute_script("return document.querySelectorAll('img').length") == 0


def background(page):
    return page.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_the_theme_follows_the_system_then_the_switch_and_is_kept(page):
    assert background(page) == LIGHT
    ink = "return getComputedStyle(document.querySelector('#overview .ytick text')).fill"
    light_ink = page.execute_script(ink)
    page.find_element("id", "theme").click()
    assert background(page) == DARK
    until(page, f"{ink} !== arguments[0]", light_ink)
    assert page.find_element("id", "theme").get_attribute("aria-label") == "Switch to the light theme"
    page.refresh()
    assert background(page) == DARK
    page.execute_script("localStorage.clear()")
    resize(page, 1400, scheme="dark")
    page.refresh()
    assert background(page) == DARK
    page.find_element("id", "theme").click()
    assert background(page) == LIGHT


def test_the_theme_switches_where_nothing_can_be_stored(page):
    refuse = (
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    added = page.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": refuse})
    try:
        page.refresh()
        until(page, READY)
        page.find_element("id", "theme").click()
        assert background(page) == DARK
    finally:
        page.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})


@pytest.mark.parametrize("width", [1400, 390])
def test_nothing_is_wider_than_the_screen(page, width):
    resize(page, width)
    page.refresh()
    until(page, READY)
    for place in range(3):
        open_set(page, place)
        assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    edges = "return [...document.querySelectorAll('.box')].map((box) => box.getBoundingClientRect().right)"
    assert max(page.execute_script(edges)) <= width
    if width == 390:
        assert page.execute_script(
            "const box = document.querySelector('#table1 .box'); return box.scrollWidth > box.clientWidth"
        )


def test_focus_is_seen_and_the_first_stop_skips_to_the_results(page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    ActionChains(page).send_keys(Keys.TAB).perform()
    stop = page.switch_to.active_element
    assert stop.get_attribute("class") == "skip"
    assert stop.rect["x"] >= 0
    assert page.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    stop.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("id") == "main"


def test_every_picture_has_words(page):
    open_set(page, TINY)
    nameless = """
        const named = (each) => each.getAttribute("aria-label") || each.getAttribute("aria-labelledby");
        const kinds = ["[role=img]", "canvas", "[role=application]"];
        return [kinds.map((kind) => document.querySelectorAll(kind).length),
          [...document.querySelectorAll(kinds.join())]
            .filter((each) => !named(each) && !each.closest('[aria-hidden=true]')).length];
    """
    counts, n_nameless = page.execute_script(nameless)
    assert min(counts) > 0
    assert n_nameless == 0
