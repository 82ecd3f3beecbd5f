"""Eigenvalues of the projection, in order."""

from typing import Any, Self

import numpy as np

from adaam._typing import FloatVector
from adaam.displays.axes import KeptDisplay, axes_for


class EigenvalueDisplay(KeptDisplay):
    """Eigenvalues of the learned components, ascending: how well each keeps strongly linked rows together.

    Small ones belong to directions that the affinity agrees on; those close to one another can trade places when the
    data change a little.

    Parameters
    ----------
    eigenvalues : ndarray of shape (n_components,)
        Eigenvalues in the order of the components.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    line_
        The matplotlib line.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAM
    >>> from adaam.displays import EigenvalueDisplay
    >>> X, _ = load_digits(return_X_y=True)
    >>> len(EigenvalueDisplay.from_estimator(AdaAM(10).fit(X)).eigenvalues)
    10
    """

    def __init__(self, eigenvalues: FloatVector) -> None:
        self.eigenvalues = eigenvalues

    @classmethod
    def _of(cls, model: Any) -> Self:
        return cls(np.asarray(model.eigenvalues_))

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the eigenvalues.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to matplotlib's `plot`.

        Returns
        -------
        EigenvalueDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        style = {"marker": "o", "linewidth": 1.0} | kwargs
        (self.line_,) = ax.plot(np.arange(len(self.eigenvalues)), self.eigenvalues, **style)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set(xlabel="component", ylabel="eigenvalue")
        return self
