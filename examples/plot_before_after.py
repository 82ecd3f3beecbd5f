"""
Before and after
================

The idea in one picture: three stretched clouds. Euclidean distance treats a step along a cloud and a step across it
alike, so k-means cuts clouds into pieces. The learned metric gives steps along the clouds less weight, and k-means
finds the clouds. No label is used to learn it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from adaam import AdaAM, AdaAMClustering
from adaam.displays import ProjectionDisplay
from adaam.scores import clustering_accuracy

clouds, y = make_blobs(600, centers=3, random_state=170)
X = clouds @ [[0.6, -0.64], [-0.4, 0.85]]

plain = KMeans(3, n_init=10, random_state=0).fit_predict(X)
model = AdaAMClustering(3, learner=AdaAM(3, n_neighbors=15, preparation="linear"), head="k-means").fit(X)

# %%
# All points of one ring are equally far from its centre.

figure, (before, metric, after) = plt.subplots(1, 3, figsize=(12.5, 4.0), layout="constrained")
ProjectionDisplay(X, labels=plain).plot(ax=before, legend=False)
before.set(title=f"k-means on the rows: {clustering_accuracy(y, plain):.0%} right")

circle = np.array([np.cos(turn := np.linspace(0, 2 * np.pi, 100)), np.sin(turn)])
ellipse = np.linalg.pinv(model.components_) @ circle
ProjectionDisplay(X).plot(ax=metric, color="0.75")
for cloud in range(3):
    centre = X[y == cloud].mean(axis=0)[:, None]
    (ordinary,) = metric.plot(*(centre + circle), color="tab:red")
    (learned,) = metric.plot(*(centre + ellipse), color="tab:blue")
metric.legend([ordinary, learned], ["Euclidean distance", "learned metric"], frameon=False)
metric.set(title="rows at distance 1")

ProjectionDisplay.from_estimator(model, X, components=(0, 1), ax=after, legend=False)
after.set(title=f"k-means in the learned metric: {clustering_accuracy(y, model.labels_):.0%} right")
for ax in (before, metric, after):
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="", aspect="equal")
plt.show()
