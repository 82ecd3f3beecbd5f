"""Self-contained pages: one HTML file that runs its own scripts alone and loads nothing from anywhere."""

from adaam.webpage.document import plotly_script, policy, script_json, shared_asset
from adaam.webpage.png import columns_of, data_url, diverging_palette, png, sheet, signed_bytes

__all__ = [
    "columns_of",
    "data_url",
    "diverging_palette",
    "plotly_script",
    "png",
    "policy",
    "script_json",
    "shared_asset",
    "sheet",
    "signed_bytes",
]
