"""Self-contained pages: one HTML file that runs only its own scripts and loads nothing."""

from adaam.webpage.document import PageKind, html_document, plane_points, plotly_script, policy, script_json
from adaam.webpage.png import columns_of, data_url, diverging_palette, png, sheet, signed_bytes, sprite

__all__ = [
    "PageKind",
    "columns_of",
    "data_url",
    "diverging_palette",
    "html_document",
    "plane_points",
    "plotly_script",
    "png",
    "policy",
    "script_json",
    "sheet",
    "signed_bytes",
    "sprite",
]
