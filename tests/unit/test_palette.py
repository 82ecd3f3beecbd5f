"""Colours of clusters can be distinguished with most kinds of colour vision, on light and on dark backgrounds."""

import numpy as np
import pytest

from adaam.palette import COLORS, N_COLORS, OUTLIER, cluster_color, cluster_colors

# Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
GROUNDS = {"light": "#ffffff", "dark": "#1a1d24"}


def linear(color):
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def oklab(rgb):
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    axes = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return axes @ np.cbrt(np.clip(cones @ rgb, 0, None))


def least_distance(colors, vision):
    places = np.array([oklab(np.clip(VISIONS[vision] @ linear(color), 0, 1)) for color in colors])
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2)
    return gaps[np.triu_indices(len(colors), 1)].min()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("n", "vision", "at_least"),
    [(12, "normal", 0.1), (20, "normal", 0.06), (12, "protanopia", 0.035), (12, "deuteranopia", 0.035)],
)
def test_colours_are_apart(theme, n, vision, at_least):
    # A just noticeable difference is about 0.02 in OKLab.
    assert least_distance(COLORS[theme][:n], vision) > at_least


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_ground(theme):
    def contrast(a, b):
        low, high = sorted(float(np.dot(linear(each), [0.2126, 0.7152, 0.0722])) for each in (a, b))
        return (high + 0.05) / (low + 0.05)

    assert min(contrast(color, GROUNDS[theme]) for color in (*COLORS[theme], OUTLIER[theme])) > 2.4


def test_a_cluster_keeps_its_colour_and_outliers_are_grey():
    assert cluster_colors(range(N_COLORS)) == list(COLORS["light"])
    assert cluster_color(N_COLORS + 3) == cluster_color(3)
    assert cluster_color(-1, "dark") == OUTLIER["dark"]


def test_shades_of_a_colour_differ_and_lie_on_either_side_of_it():
    lightness = [oklab(linear(cluster_color(2, "light", shade)))[0] for shade in range(5)]
    assert cluster_color(2, "light", 0) == cluster_color(2)
    assert lightness[4] < lightness[2] < lightness[0] < lightness[1] < lightness[3]
