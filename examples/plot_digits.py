"""
Digits: sharper blocks
======================

1,797 images of 64 pixels, compared pair by pair and sorted by class. In the learned metric, ten numbers a row, rows of
one class are closer to each other and farther from the rest. The classes sort the picture; the method never sees them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances, silhouette_score

from adaam import AdaAM
from adaam.displays import MagnitudeDisplay

X, y = load_digits(return_X_y=True)
metric = AdaAM(n_clusters=10).fit(X)

# %%

figure, (before, between, after) = plt.subplots(1, 3, figsize=(12.5, 4.0), layout="constrained")
order = np.argsort(y, kind="stable")[::3]
for ax, name, rows in ((before, "pixels", X), (after, "learned metric", metric.transform(X))):
    distances = pairwise_distances(rows[order])
    ax.imshow(-distances, cmap="magma", vmin=-np.quantile(distances, 0.98), vmax=-np.quantile(distances, 0.005))
    ax.set(title=f"{name}: silhouette of the classes {silhouette_score(rows, y):.2f}", xticks=[], yticks=[])
MagnitudeDisplay.from_estimator(metric, X, ax=between)
between.set(title="the affinity in between")
between.xaxis.set_major_locator(plt.MaxNLocator(4))
plt.show()
