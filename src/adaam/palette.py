"""One colour a cluster, the same in every picture: displays and page ask here."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

Theme: TypeAlias = Literal["light", "dark"]

# Colour 0, 1, ... on a light and on a dark ground, of the same hue: chosen one after the other for the largest distance
# in OKLab to those before, also as seen with protanopia and deuteranopia (Machado 2009), then put in order by eye.
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
# Rows of no cluster: grey on either ground.
OUTLIER: dict[Theme, str] = {"light": "#8a8680", "dark": "#85827c"}


# Parts of a cluster, in finer layers: its colour, lighter and darker by turns. Towards white is positive.
SHADES = (0.0, 0.42, -0.38, 0.66, -0.6)


def cluster_color(cluster: int, theme: Theme = "light", shade: int = 0) -> str:
    """Return the colour of a cluster as #rrggbb; grey for label -1.

    The first 20 clusters have colours of their own; from then on colours repeat, and numbers tell clusters apart. Parts
    of a cluster have shades of its colour: 0 is the colour itself, 1, 2, ... are lighter and darker by turns.
    """
    color = OUTLIER[theme] if cluster < 0 else COLORS[theme][cluster % N_COLORS]
    step = SHADES[shade % len(SHADES)]
    if step == 0:
        return color
    end = 255 if step > 0 else 0
    channels = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(channel + abs(step) * (end - channel)):02x}" for channel in channels)


def ink_on(color: str) -> str:
    """Return black or white, whichever can be read better on a colour, by their contrast in WCAG 2.1."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"


def cluster_colors(clusters: Iterable[int], theme: Theme = "light") -> list[str]:
    """Return the colour of each of several clusters."""
    return [cluster_color(int(cluster), theme) for cluster in clusters]
