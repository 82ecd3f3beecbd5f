"""One colour per cluster, the same in all displays and on the web page."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

Theme: TypeAlias = Literal["light", "dark"]

# Colours 0, 1, ... on a light and on a dark background, of the same hue: chosen greedily for the largest OKLab distance
# to the previous ones, also as seen with protanopia and deuteranopia (Machado 2009), then ordered by eye.
COLORS: dict[Theme, tuple[str, ...]] = {
    "light": (
        *("#0574c7", "#c83406", "#66b725", "#75017d", "#b98500", "#078661", "#322eab", "#ca74ee", "#6e3602", "#b43694"),
        *("#075353", "#08b7a1", "#86043c", "#ce8d6f", "#6c6aa4", "#975b7e", "#9a44bc", "#31521c", "#9c613f", "#56386c"),
    ),
    "dark": (
        *("#4ba6fd", "#fe6f4c", "#98ec62", "#af48b7", "#fec431", "#15bd8a", "#5e69e8", "#eabefe", "#b85f05", "#eb6ac6"),
        *("#238b8b", "#16f1d5", "#cf386b", "#fdc2a7", "#9b9ad8", "#ca8bae", "#cd77f1", "#63864f", "#cf916e", "#8b6ba2"),
    ),
}
N_COLORS = len(COLORS["light"])
# Rows of no cluster: grey on either background.
OUTLIER: dict[Theme, str] = {"light": "#8a8680", "dark": "#85827c"}


# Shades of a cluster's colour for its parts in finer layers, alternately lighter (towards white, positive) and darker.
SHADES = (0.0, 0.42, -0.38, 0.66, -0.6)


def cluster_color(cluster: int, theme: Theme = "light", shade: int = 0) -> str:
    """Return the colour of a cluster as #rrggbb; grey for label -1.

    The first 20 clusters have distinct colours; after that colours repeat, and numbers distinguish clusters. Parts of a
    cluster have shades of its colour: 0 is the colour itself, 1, 2, ... are alternately lighter and darker.
    """
    color = OUTLIER[theme] if cluster < 0 else COLORS[theme][cluster % N_COLORS]
    step = SHADES[shade % len(SHADES)]
    if step == 0:
        return color
    end = 255 if step > 0 else 0
    channels = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel + abs(step) * (end - channel)):02x}" for channel in channels)


def ink_on(color: str) -> str:
    """Return black or white, whichever has the higher contrast to a colour by WCAG 2.1."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"


def cluster_colors(clusters: Iterable[int], theme: Theme = "light") -> list[str]:
    """Return the colour of each of several clusters."""
    return [cluster_color(int(cluster), theme) for cluster in clusters]
