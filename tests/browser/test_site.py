"""The built documentation in a real browser, at the width of a desktop and a phone: nothing cut off or missing."""

from pathlib import Path

import pytest

from chromium import needs_browser, started

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
# Pages made from docstrings are all alike: two represent them, a long one and the one with the longest name.
PAGES = sorted(
    page
    for page in SITE.rglob("*.html")
    if not {"_static", "generated"} & set(page.parts)
    or page.stem in ("adaam.AdaAMClustering", "adaam.scores.normalized_mutual_information")
)
pytestmark = [
    needs_browser,
    pytest.mark.skipif(not PAGES, reason="the documentation has not been built; .ci/docs does it and runs this"),
]
# Elements beyond the right edge that are not inside a scrollable element of the article; images that did not load.
FAULTS = """
const width = document.documentElement.clientWidth, found = [];
const every = document.querySelectorAll(".bd-article-container *");
if (!every.length) found.push("no article");
for (const each of every) {
  const place = each.getBoundingClientRect();
  if (!place.width || place.right <= width + 1) continue;
  const article = each.closest(".bd-article-container");
  let around = each.parentElement;
  while (around !== article && !["auto", "scroll"].includes(getComputedStyle(around).overflowX)) {
    around = around.parentElement;
  }
  if (around === article) found.push(each.tagName + ": " + each.textContent.trim().slice(0, 40));
}
for (const image of document.images) if (!image.naturalWidth) found.push("no picture: " + image.src);
if (document.documentElement.scrollWidth > width) found.push("the page scrolls sideways");
return [width, found];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = started(tmp_path_factory.mktemp("profile"), "--hide-scrollbars")
    yield driver
    driver.quit()


@pytest.mark.parametrize("width", [1400, 390])
def test_no_page_is_cut_off_or_lacks_a_picture(browser, width):
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    faults = {}
    for page in PAGES:
        browser.get(page.as_uri())
        laid_out, found = browser.execute_script(FAULTS)
        assert laid_out == width
        if found:
            faults[str(page.relative_to(SITE))] = found[:3]
    assert faults == {}


def test_the_search_of_the_site_finds_what_is_written(browser):
    browser.get(f"{(SITE / 'search.html').as_uri()}?q=onnx")
    for _ in range(100):
        results = browser.execute_script("return [...document.querySelectorAll('ul.search li a')].map(a => a.href)")
        if any("production.html" in address for address in results):
            return
        browser.execute_async_script("setTimeout(arguments[0], 100)")
    pytest.fail(f"only found {results}")
