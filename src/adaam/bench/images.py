"""Images of another size, and lines of pixels whose length nobody has written down."""

import numpy as np

from adaam._typing import FloatMatrix


def area_weights(n_from: int, n_to: int) -> FloatMatrix:
    """Return the averages that take n_from pixels to n_to: what share of each new pixel each old one covers.

    Returns
    -------
    array of shape (n_to, n_from)
        Non-negative, rows sum to one.

    Examples
    --------
    >>> area_weights(3, 2).round(3).tolist()
    [[0.667, 0.333, 0.0], [0.0, 0.333, 0.667]]
    """
    old = np.arange(n_from)[None, :]
    starts = np.arange(n_to)[:, None] * (n_from / n_to)
    ends = starts + n_from / n_to
    covered = np.minimum(ends, old + 1) - np.maximum(starts, old)
    return np.asarray(np.maximum(covered, 0.0) * (n_to / n_from))


def resized(X: FloatMatrix, shape: tuple[int, int], new_shape: tuple[int, int]) -> FloatMatrix:
    """Return images, one a row, at another size: each new pixel is the average of the area it covers.

    Returns
    -------
    array of shape (n, new height * new width)
        Rounded to whole grey levels where the images have such; no value is outside the range of its image.
    """
    height, width = (area_weights(*sizes) for sizes in zip(shape, new_shape, strict=True))
    images = height @ X.reshape(len(X), *shape) @ width.T
    rows = images.reshape(len(X), -1)
    return np.rint(rows).astype(X.dtype) if X.dtype.kind in "iu" else rows.astype(X.dtype)


def upright(X: FloatMatrix, shape: tuple[int, int]) -> FloatMatrix:
    """Return images of this shape written row by row, however they were written: by rows, or by columns.

    The pixel one line further on is a neighbour, and neighbours are alike. So the length of a line is told by which
    of the two candidates, width or height, makes pixels so far apart differ less.
    """
    height, width = shape
    by_rows, by_columns = (np.abs(np.diff(_strided(X, step), axis=1)).mean() for step in (width, height))
    if by_rows <= by_columns:
        return X
    return np.ascontiguousarray(X.reshape(len(X), width, height).transpose(0, 2, 1)).reshape(X.shape)


def _strided(X: FloatMatrix, step: int) -> FloatMatrix:
    return X.reshape(len(X), -1, step).astype(np.float32)
