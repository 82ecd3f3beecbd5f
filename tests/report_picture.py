"""Screenshot of the page for docs/report.md. Usage: `PYTHONPATH=tests python tests/report_picture.py`."""

import base64
import io
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

from adaam import AdaAMClustering
from chromium import open_page, started

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "report.png"
WIDTH = 1280


def main():
    digits = load_digits()
    known = {"known class": [str(each) for each in digits.target]}
    model = AdaAMClustering(n_clusters=10).fit(digits.data)
    report = model.report(digits.data, images=(8, 8), columns=known, title="digits")
    with tempfile.TemporaryDirectory() as folder:
        report.save(Path(folder) / "digits.html")
        browser = started(Path(folder) / "profile")
        try:
            open_page(browser, Path(folder) / "digits.html", width=WIDTH)
            height = browser.execute_script("return document.getElementById('map').getBoundingClientRect().bottom")
            clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
            shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        finally:
            browser.quit()
    with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as picture:
        picture.convert("RGB").quantize(128).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
