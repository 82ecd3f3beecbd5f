"""
How much do the parameters matter?
==================================

Accuracy as a function of the number of neighbours, and of the dimension of the learned space. Labels are used only
for the figure; :doc:`plot_search` chooses parameters without them.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from adaam import AdaAM, AdaAMClustering, DisconnectedGraphWarning
from adaam.scores import clustering_accuracy

# With four neighbours the graph has two connected components, which is part of the comparison.
warnings.simplefilter("ignore", DisconnectedGraphWarning)
X, y = load_digits(return_X_y=True)


def accuracy(**settings):
    return clustering_accuracy(
        y, AdaAMClustering(10, learner=AdaAM(10, **settings), head="k-means", n_init=5).fit_predict(X)
    )


default = AdaAM(10).fit(X)
sweeps = {
    "n_neighbors": ([4, 6, 7, 9, 12, 16], default.n_neighbors_),
    "n_components": ([4, 6, 8, 10, 14, 20], default.n_components_),
}

# %%

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
for ax, (name, (values, standard)) in zip(axes, sweeps.items(), strict=True):
    ax.plot(values, [100 * accuracy(**{name: value}) for value in values], "o-")
    ax.axvline(standard, color="0.6", linestyle="--", label=f"default: {standard}")
    ax.set(xlabel=name, ylim=(40, 100), yticks=np.arange(40, 101, 10))
    ax.legend(frameon=False)
axes[0].set_ylabel("accuracy (%)")
plt.show()
