"""
Cluster images
==============

This tutorial learns a metric from images of handwritten digits, clusters them without labels, looks at individual
images, finds similar ones, and saves the model. The classes are known here; they are used only at the end, to measure
the result.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
X, X_new = digits.data[:1500], digits.data[1500:]
print(X.shape, X_new.shape)


def show(images, titles=(), columns=12):
    """Draw rows of 64 pixels as images."""
    lines = -(-len(images) // columns)
    size = (9, 0.95 * lines)
    _, axes = plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for ax, image in zip(axes.flat, images, strict=False):
        ax.imshow(image.reshape(8, 8), cmap="gray_r")
    for ax, title in zip(axes.flat, titles, strict=False):
        ax.set_title(title, fontsize=8)


show(X[:24])
plt.show()

# %%
# Rows are images and columns are pixels. Pixels share one unit, so no scaling is needed.
#
# Learn a metric
# --------------
#
# :class:`~adaam.AdaAM` learns a linear map. Euclidean distance after the map is the learned metric.

from adaam import AdaAM

metric = AdaAM(n_clusters=10).fit(X)
print("neighbours:", metric.n_neighbors_, "  components:", metric.n_components_)
print("scaling of rows:", metric.preparation_.row_scaling)

# %%
# Each component of the map is a pattern of pixels. Red pixels move an image up along the component, blue ones down.

from adaam.displays import ComponentsDisplay

ComponentsDisplay.from_estimator(metric)
plt.show()

# %%
# Cluster
# -------
#
# :class:`~adaam.AdaAMClustering` compares the pixels themselves with learned metrics of several widths, and k-means
# with graph partitioning. It may decide that no learned metric is needed.

from adaam import AdaAMClustering
from adaam.displays import ProjectionDisplay, SelectionDisplay

model = AdaAMClustering(n_clusters=10).fit(X)
print(model.selection_)

# %%
# One bar for each trial; the chosen one is marked. Trials that score close to the chosen one and also agree with it
# (last column above) show that the clusters do not depend on the choice.

SelectionDisplay.from_estimator(model)
plt.gcf().set_size_inches(8, 3.6)
plt.show()

# %%

ProjectionDisplay.from_estimator(model, X)
plt.show()

# %%
# Look at the clusters
# --------------------
#
# One line for each cluster: images drawn at random.

rng = np.random.default_rng(0)
members = [rng.choice(np.flatnonzero(model.labels_ == cluster), 12) for cluster in range(10)]
show(X[np.concatenate(members)])
plt.show()

# %%
# The least certain rows have many graph links to other clusters.

doubtful = np.argsort(model.probabilities_)[:12]
show(X[doubtful], [f"{model.labels_[i]}: {model.probabilities_[i]:.0%}" for i in doubtful])
plt.show()

# %%
# Find similar images
# -------------------
#
# Any nearest-neighbour index for Euclidean distance can be used with the learned metric: transform the rows and index
# them. The first column shows new images, the others the most similar known ones.

from sklearn.neighbors import NearestNeighbors

index = NearestNeighbors(n_neighbors=11).fit(metric.transform(X))
distances, found = index.kneighbors(metric.transform(X_new[:4]))
show(np.concatenate([np.vstack([X_new[i], X[found[i]]]) for i in range(4)]))
plt.show()

# %%
# ``explain`` splits the squared distance between two rows by feature.

for name, share in metric.explain(X_new[0], X[found[0, 0]]).top(3):
    print(f"{name}: {share:.1%} of their squared distance")

# %%
# New rows and known classes
# --------------------------
#
# A new row gets the cluster of most of its nearest training rows. The classes of the digits have not been used so far.
# Now they show how accurate the clusters are.

from sklearn.cluster import KMeans

import adaam
from adaam.scores import clustering_accuracy

new_labels = model.predict(X_new)
k_means = KMeans(10, n_init=10, random_state=0).fit(X)
print(f"AdaAMClustering  {clustering_accuracy(digits.target[:1500], model.labels_):.1%} of the training rows")
print(f"                 {clustering_accuracy(digits.target[1500:], new_labels):.1%} of the new rows")
print(f"k-means          {clustering_accuracy(digits.target[:1500], k_means.labels_):.1%} of the training rows")

# %%
# Save the model. The file contains plain arrays and no code.

adaam.save(model, "digits.adaam")
print("the same labels:", bool((adaam.load("digits.adaam").predict(X_new) == new_labels).all()))
