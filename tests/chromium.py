"""Drive a real browser: start and resize it, wait for it and read its logs."""

import json
import shutil

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="the browser is driven by selenium")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not both installed")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)
READY = "return document.documentElement.dataset.ready === 'true'"


def started(profile, *flags):
    """Return a headless browser that logs console messages and network requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), *flags, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


def open_page(browser, path, *, width=1400, scheme="light"):
    """Open a page from its file, and wait until it is ready."""
    resize(browser, width, scheme=scheme)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(path.as_uri())
    browser.execute_script("try { localStorage.clear() } catch {}")
    until(browser, READY)


def assert_quiet(browser):
    """Assert that nothing was fetched, no error was logged, and no script was injected by the data."""
    # The warning that reading canvases is slow is due to the tests, which read them, not to the page.
    complaints = [entry for entry in browser.get_log("browser") if entry["source"] != "rendering"]
    assert not complaints, complaints
    fetched = [url for url in requested(browser) if not url.startswith(("file:", "data:", "blob:"))]
    assert not fetched, fetched
    assert browser.execute_script("return window.broken") is None


def requested(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
    return [params["request"]["url"] for params in sent]


def until(browser, script, *arguments, seconds=30):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds, 0.05).until(lambda driver: driver.execute_script(script, *arguments))


def resize(browser, width, *, scheme="light"):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    media = {"features": [{"name": name, "value": value} for name, value in wishes.items()]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def click(page, selector):
    element = page.find_element("css selector", selector)
    page.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    element.click()
    return element


def shown(page, selector):
    """Return the place of the row in a canvas, and its pixels."""
    import numpy as np

    script = """
        const canvas = document.querySelector(arguments[0]);
        if (!canvas) return null;
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return [Number(canvas.dataset.place), canvas.width, canvas.height, [...data]];
    """
    place, width, height, values = page.execute_script(script, selector)
    return place, np.array(values).reshape(height, width, 4)
