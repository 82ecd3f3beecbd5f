"""What every page is made of: a policy for the browser, data that cannot break out, the charting library, assets."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from typing import Any


def plotly_script() -> str:
    """Return plotly.js as the Python package of that name carries it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("The page needs plotly. Install it with: pip install adaam[page]") from error
    # A browser turns line ends into its own before it hashes a script.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def policy(scripts: Sequence[str]) -> str:
    """Return what the browser may do: run these very scripts, and load nothing from anywhere."""
    hashes = " ".join(f"'sha256-{b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def script_json(value: Any) -> str:
    """Return JSON that cannot end the element it stands in, nor start one."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def shared_asset(name: str) -> str:
    """Return a style or script that all pages have in common."""
    return (files("adaam.webpage") / "assets" / name).read_text(encoding="utf-8")
