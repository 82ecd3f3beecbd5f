"""Arrays of uint8 as PNG: sprite sheets of equal tiles, in grey, in RGB or in the colours of a palette."""

import base64
import io
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, IntMatrix

# Seven colours of vik (Crameri 2018): blue and brown of equal weight, distinct in every kind of colour vision.
DIVERGING = ((0, 18, 97), (47, 117, 166), (166, 200, 216), (242, 241, 238), (221, 181, 147), (180, 95, 42), (89, 0, 8))


def sheet(tiles: IntMatrix, n_columns: int) -> IntMatrix:
    """Lay tiles of shape (n, height, width[, 3]) out in rows of `n_columns`; unused places are 0."""
    n, height, width, *colors = tiles.shape
    n_rows = -(-n // n_columns)
    full = np.zeros((n_rows * n_columns, *tiles.shape[1:]), dtype=np.uint8)
    full[:n] = tiles
    laid = full.reshape(n_rows, n_columns, *tiles.shape[1:]).swapaxes(1, 2)
    return laid.reshape(n_rows * height, n_columns * width, *colors)


def columns_of(n_tiles: int, height: int, width: int) -> int:
    """Tiles per row of a sheet that is about square, since browsers limit the length of a side, not the area."""
    return max(1, min(n_tiles, round(float(np.sqrt(n_tiles * height / width)))))


def sprite(tiles: IntMatrix, palette: IntMatrix | None = None) -> dict[str, Any]:
    """Return tiles of shape (n, height, width[, 3]) as a sprite sheet for a script."""
    n, height, width = tiles.shape[:3]
    n_columns = columns_of(n, height, width)
    url = data_url(png(sheet(tiles, n_columns), palette))
    return {"url": url, "columns": n_columns, "count": n, "height": height, "width": width}


def png(picture: IntMatrix, palette: IntMatrix | None = None) -> bytes:
    """Encode a uint8 image as PNG.

    Values are grey or, with a third dimension, RGB; with a palette of shape (256, 3), they are indices into it.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Pages with pictures need Pillow. Install it with: pip install adaam[page]") from error
    image = Image.fromarray(np.ascontiguousarray(picture))
    if palette is not None:
        image.putpalette(palette.astype(np.uint8).tobytes())
    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return content.getvalue()


def data_url(content: bytes) -> str:
    """Return a PNG as a data URL."""
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def diverging_palette() -> IntMatrix:
    """256 colours from blue over near-white (at 128) to brown."""
    stops = np.array(DIVERGING, dtype=float)
    places = np.clip((np.arange(256) - 1) / 254, 0, 1) * (len(stops) - 1)
    return np.column_stack([np.interp(places, np.arange(len(stops)), channel) for channel in stops.T]).round()


def signed_bytes(values: FloatMatrix) -> IntMatrix:
    """Return values as uint8, each tile on its own symmetric scale: 128 is 0, 1 and 255 the largest magnitude."""
    size = np.abs(values).max(axis=tuple(range(1, values.ndim)), keepdims=True)
    return np.round(128 + 127 * values / np.where(size > 0, size, 1)).astype(np.uint8)
