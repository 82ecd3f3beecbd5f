"""A heat kernel with its bandwidths, and the weights it gives to pairs of rows on the host."""

from dataclasses import dataclass

import numpy as np

from adaam._typing import Column, FloatMatrix, IntMatrix


@dataclass(frozen=True, slots=True)
class FittedHeat:
    """A heat kernel with its bandwidths, ready to weigh any pair of rows.

    The bandwidth of a pair is the geometric mean of those of its rows, which are all equal unless the kernel is
    self-tuning.
    """

    bandwidths: Column
    power: int

    def weights(self, rows: IntMatrix, columns: IntMatrix, distances: FloatMatrix) -> FloatMatrix:
        """Weight of each pair, in [0, 1]; coincident rows get 1. Bandwidths and pairs are on the host."""
        bandwidth = self.bandwidths
        if not isinstance(bandwidth, float):
            bandwidth = np.sqrt(bandwidth[rows]) * np.sqrt(bandwidth[columns])
        return pair_weights(distances, bandwidth, self.power)


def pair_weights(distances: FloatMatrix, bandwidth: Column, power: int) -> FloatMatrix:
    """Weights of pairs whose bandwidths are known: one each, or one for all."""
    with np.errstate(invalid="ignore", divide="ignore"):
        exponent = distances / bandwidth
    if power != 1:
        exponent **= power
    # 0 / 0: all neighbours coincide, and a bandwidth of zero must not separate them.
    exponent[distances == 0] = 0.0
    return np.asarray(np.exp(np.negative(exponent, out=exponent), out=exponent))
