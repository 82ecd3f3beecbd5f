"""Images of rows as uint8, and mean and effect images of clusters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from adaam._typing import IntMatrix, IntVector
from adaam.cluster_profile import cluster_profiles
from adaam.webpage import signed_bytes

MAX_SIDE = 32  # pixels; larger images are downsampled by averaging
MAX_BYTES = 6_000_000  # of all images of a page
LARGEST_EFFECT = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """Mean image of a cluster and effect of each pixel, as uint8."""

    mean: IntMatrix  # (height, width[, 3])
    effect: IntMatrix  # (height, width): effect size of each pixel's brightness, 128 is none


def images_that_fit(images: Any, n_rows: int, n_features: int) -> int:
    """Check images against the rows, and return how many of them a page has room for."""
    if images is None:
        return n_rows
    if np.shape(images) == (2,):
        height, width = (int(side) for side in images)
        if height * width != n_features:
            raise ValueError(
                f"images={(height, width)} does not fit {n_features} features. Use (height, width) whose product is "
                "that number, or pass an array of pictures."
            )
        shape: tuple[int, ...] = (n_rows, height, width)
    else:
        shape = np.shape(images)
    if shape[0] != n_rows or len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] != 3):
        raise ValueError(
            f"images has shape {shape}, but must be ({n_rows}, height, width) or ({n_rows}, height, width, 3), or the "
            "height and width of pictures whose pixels are the features."
        )
    height, width = (-(-side // _step(shape)) for side in shape[1:3])
    return max(1, int(MAX_BYTES // (height * width * (3 if len(shape) == 4 else 1))))


def image_bytes(images: Any, X: Any, shown: IntVector) -> IntMatrix:
    """Return the images of some rows as uint8, with sides of at most 32 pixels."""
    if np.shape(images) == (2,):
        rows = csr_array(X)[shown].toarray() if issparse(X) else np.asarray(X)[shown]
        values = rows.reshape(len(shown), *(int(side) for side in images))
    else:
        values = np.asarray(images)[shown]
    if values.dtype != np.uint8:
        values = values.astype(np.float64)
        low, high = np.nanmin(values), np.nanmax(values)
        values = np.nan_to_num(255 * (values - low) / (high - low if high > low else 1.0))
    step = _step(values.shape)
    if step > 1:
        starts = [np.arange(0, side, step) for side in values.shape[1:3]]
        sums = np.add.reduceat(np.add.reduceat(values.astype(np.float64), starts[0], axis=1), starts[1], axis=2)
        counts = [np.diff([*start, side]) for start, side in zip(starts, values.shape[1:3], strict=True)]
        area = np.outer(*counts)
        values = sums / (area if values.ndim == 3 else area[:, :, None])
    return np.round(values).astype(np.uint8)


def cluster_pictures(images: IntMatrix, labels: IntVector, n_clusters: int) -> list[Pictures]:
    """Return the mean image of each cluster, and the effect size of each pixel's brightness."""
    grey = images if images.ndim == 3 else images.mean(axis=3)
    effects = cluster_profiles(grey.reshape(len(grey), -1), labels, n_clusters).effects
    effects = np.clip(effects, -LARGEST_EFFECT, LARGEST_EFFECT).reshape(n_clusters, *grey.shape[1:])
    found = []
    for cluster in range(n_clusters):
        members = images[labels == cluster]
        mean = members.mean(axis=0) if len(members) else np.zeros(images.shape[1:])
        found.append(Pictures(np.round(mean).astype(np.uint8), signed_bytes(effects[[cluster]])[0]))
    return found


def _step(shape: tuple[int, ...]) -> int:
    return -(-max(shape[1:3]) // MAX_SIDE)
