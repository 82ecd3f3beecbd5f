"""
Explore layers of clusters
==========================

The same rows can often be clustered in several sensible ways: into a few broad groups, or into more and smaller ones.
This tutorial estimates the number of clusters, checks how certain the estimate is, and moves between coarser and finer
clusters.
"""

import matplotlib.pyplot as plt
import numpy as np

# %%
# A picture with two answers
# --------------------------
#
# Nine clouds in three groups. Three clusters and nine clusters are both right.

rng = np.random.default_rng(0)
groups = 6 * np.array([[0, 0], [4, 1], [2, 4]])
clouds = np.array([[-2.2, 0], [2.2, 0], [0, 3.4]])
centers = (groups[:, None, :] + clouds).reshape(9, 2)
points = np.repeat(centers, 80, axis=0) + rng.normal(scale=0.7, size=(720, 2))

from adaam import AdaAMClustering

nested = AdaAMClustering(n_clusters="auto").fit(points)
for number, layer in enumerate(nested.cluster_layers_):
    mark = " <- labels_" if number == nested.layer_ else ""
    print(f"layer {number}: {layer.n_clusters} clusters{mark}")

# %%
# ``cluster_layers_`` holds the layers, coarsest first. Every layer has labels for all rows. The last figure is
# ``labels_``, the others are coarser.

from adaam.displays import ProjectionDisplay

shown = nested.cluster_layers_[: nested.layer_ + 1][-3:]
figure, axes = plt.subplots(1, len(shown), figsize=(3.4 * len(shown), 3.2), layout="constrained", squeeze=False)
for ax, layer in zip(axes.flat, shown, strict=True):
    ProjectionDisplay(points, labels=layer.labels).plot(ax=ax, legend=False)
    ax.set(title=f"{layer.n_clusters} clusters", aspect="equal", xticks=[], yticks=[])
plt.show()

# %%
# Estimate the number of clusters
# -------------------------------
#
# On real data the answer is less clear. ``selection_.count`` holds the estimate, its range, and the steps that led to
# it.

from sklearn.datasets import load_digits

digits = load_digits()
X = digits.data
model = AdaAMClustering(n_clusters="auto").fit(X)
count = model.selection_.count
print(f"{count.n_clusters} clusters, range {count.low} to {count.high}")
print(model.selection_)

# %%
# The figure follows clusters as they are merged, from many on the right to one on the left. Two clusters are separate
# if clearly fewer links join them than would join the two halves of one homogeneous cloud, whose value is 1. A wide
# shaded range means that several numbers fit the rows about equally well.

from adaam.displays import ClusterCountDisplay

ClusterCountDisplay.from_estimator(model)
plt.xlim(0, 40)
plt.show()

# %%
# Layers
# ------
#
# :class:`~adaam.displays.ClusterLayersDisplay` draws each layer as a row of bars. The width of a bar is the size of the
# cluster, and the bars below it are its parts. Dark clusters are firm: hardly any links join them to their neighbours.

from adaam.displays import ClusterLayersDisplay

ClusterLayersDisplay.from_estimator(model)
plt.gcf().set_size_inches(8, 3.2)
plt.show()

# %%
# *Persistence* is the factor by which the resolution of modularity can change before a layer's number of clusters
# changes. Layers with large values do not depend on the exact resolution.

for number, layer in enumerate(model.cluster_layers_):
    print(
        f"layer {number}: {layer.n_clusters:3} clusters, persistence {layer.persistence:.2f}, "
        f"median firmness {np.median(layer.firmness):.2f}"
    )

# %%
# The tree
# --------
#
# ``cluster_tree_`` maps each (layer, cluster) to its parts in the next layer. Here are the clusters of the layer
# above ``labels_`` (or the coarsest one) and their parts, with the digits in each, which the clusterer never saw.


def main_digits(labels, cluster):
    """List the digits that make up at least a tenth of a cluster, the most frequent first."""
    shares = np.bincount(digits.target[labels == cluster], minlength=10) / (labels == cluster).sum()
    return ", ".join(str(digit) for digit in np.argsort(-shares) if shares[digit] >= 0.1)


above = max(model.layer_ - 1, 0)
layers = model.cluster_layers_
for cluster in range(layers[above].n_clusters):
    parts = model.cluster_tree_[above, cluster]
    print(f"{layers[above].sizes[cluster]:4.0f} rows: digits {main_digits(layers[above].labels, cluster)}")
    for layer, part in parts if len(parts) > 1 else ():
        print(f"      {layers[layer].sizes[part]:4.0f} rows: digits {main_digits(layers[layer].labels, part)}")

# %%
# The cluster that splits into the most parts: its mean image, and those of up to eight of the parts:

finer = min(model.layer_ + 1, len(layers) - 1)
splits = {cluster: model.cluster_tree_.get((finer - 1, cluster), ()) for cluster in range(layers[finer - 1].n_clusters)}
cluster, parts = max(splits.items(), key=lambda item: len(item[1]))
images = [X[layers[finer - 1].labels == cluster], *(X[layers[layer].labels == part] for layer, part in parts[:8])]
figure, axes = plt.subplots(1, len(images), figsize=(1.3 * len(images), 1.6), layout="constrained", squeeze=False)
for ax, rows in zip(axes.flat, images, strict=True):
    ax.imshow(rows.mean(axis=0).reshape(8, 8), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.set_title(f"{len(rows)} rows", fontsize=8)
axes[0, 0].set_title(f"cluster {cluster}\n{len(images[0])} rows", fontsize=8)
plt.show()

# %%
# New rows can be assigned to any layer:

print("labels_ layer: ", model.predict(X[:10]))
print("coarsest layer:", model.predict(X[:10], layer=0))
