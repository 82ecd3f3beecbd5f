"""One self-contained HTML file: shared frame, style and scripts, those of the page, and its data."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam._version import __version__

SHARED = "adaam.webpage"
SHARED_SCRIPTS = ("dom.js", "plot.js", "stage.js", "tables.js")


@dataclass(frozen=True, slots=True)
class PageKind:
    """A kind of page: what it adds to the shared frame.

    The folder `assets` of its package holds `body.html`, whose placeholders are filled in, `page.css` and its scripts.
    """

    package: str
    scripts: tuple[str, ...]  # in execution order
    skip: str  # text of the first link, which lets keyboard users skip the navigation
    noscript: str  # what works without scripts
    footer: str = ""  # HTML


def html_document(
    kind: PageKind,
    *,
    title: str,  # plain text
    links: Sequence[tuple[str, str]],  # ids of the sections and their names in the navigation bar
    parts: Mapping[str, str],  # HTML for the placeholders of the body
    data: Any,  # what the scripts draw, JSON-like
    charting: str | None = None,  # source of the charting library; None: the plotly.js of the package `plotly`
) -> str:
    """Return the whole page, which runs only its own scripts and loads nothing."""
    charting = plotly_script() if charting is None else charting
    # The theme must be set before anything is painted.
    first = asset(SHARED, "theme.js")
    own = [asset(SHARED, name) for name in SHARED_SCRIPTS] + [asset(kind.package, name) for name in kind.scripts]
    later = "\n".join(own)
    return Template(asset(SHARED, "page.html")).substitute(
        policy=escape(policy((first, charting, later))),
        version=escape(__version__),
        title=escape(title),
        style=asset(SHARED, "base.css") + asset(kind.package, "page.css"),
        skip=escape(kind.skip),
        links="\n  ".join(f'<a href="#{name}">{escape(words)}</a>' for name, words in links),
        body=Template(asset(kind.package, "body.html")).substitute(parts),
        footer=kind.footer,
        noscript=escape(kind.noscript),
        data=script_json(data),
        first=first,
        charting=charting,
        later=later,
    )


def asset(package: str, name: str) -> str:
    """Return a style, script or template of a package."""
    return (files(package) / "assets" / name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Return the plotly.js that the package `plotly` contains."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("The page needs plotly. Install it with: pip install adaam[page]") from error
    # Browsers normalise line ends before they hash a script.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def policy(scripts: Sequence[str]) -> str:
    """Return the content security policy: run exactly these scripts, and load nothing."""
    hashes = " ".join(f"'sha256-{b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def script_json(value: Any) -> str:
    """Return JSON that can neither close the element that contains it nor open another."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plane_points(plane: FloatMatrix) -> list[list[float]]:
    """Return two lists of coordinates, scaled to [-1, 1], since the plane has no unit."""
    size = float(np.abs(plane).max(initial=0.0)) or 1.0
    return [[round(float(value), 4) for value in axis / size] for axis in plane.T]
