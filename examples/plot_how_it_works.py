"""
The method in pictures
======================

AdaAM step by step on 500 images of digits, in plain NumPy with dense matrices, drawn after each step: rows, neighbours,
affinity, map, partition. The rows are sorted by class so that blocks can be seen; the method does not use the classes.
At the end the result is compared with :class:`~adaam.AdaAM`, which computes the same without any n × n matrix.
:doc:`/how_it_works` gives the reasons for each step.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.linalg import eigh, subspace_angles
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

rows, y = load_digits(return_X_y=True)
order = np.argsort(y[:500], kind="stable")
rows, y = rows[order], y[order]
n, c = len(rows), 10

# %%
# Rows
# ----
#
# Each row is scaled to unit length, the mean is subtracted, and the principal components that hold 99 % of the variance
# are kept. The first two of them are drawn.

scaled = rows / np.linalg.norm(rows, axis=1, keepdims=True)
U, s, Vt = np.linalg.svd(scaled - scaled.mean(axis=0), full_matrices=False)
kept = np.searchsorted(np.cumsum(s**2) / np.sum(s**2), 0.99) + 1
X = U[:, :kept] * s[:kept]


def draw_rows(ax, points, title, edges=()):
    """Draw rows in the plane, coloured by class, and links between them."""
    ax.add_collection(LineCollection(points[edges] if len(edges) else [], colors="0.6", linewidths=0.4, zorder=0))
    ax.scatter(*points.T, c=y, cmap="tab10", s=9)
    ax.set(title=title, xticks=[], yticks=[])


# %%
# Neighbours
# ----------
#
# Each row is linked to its k = log2(n / c) nearest rows. Most links join rows of the same class, but not all.

k = round(np.log2(n / c))
distances = cdist(X, X)
np.fill_diagonal(distances, np.inf)
nearest = np.argsort(distances, axis=1)[:, :k]
edges = np.column_stack([np.repeat(np.arange(n), k), nearest.ravel()])

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
draw_rows(left, X[:, :2], f"rows: 2 of {kept} principal components")
same = np.mean(y[edges[:, 0]] == y[edges[:, 1]])
draw_rows(right, X[:, :2], f"{k} nearest neighbours, {same:.0%} of the same class", edges)
plt.show()

# %%
# Affinity
# --------
#
# The weights W of the links are local: most pairs have none. The matrix PP', made from the c leading left singular
# vectors, is global but blurred. Pruned to its strongest entries, it is the first affinity. Together, the two define a
# projection in which the affinity is learned again and pruned more strictly.


def pruned(S, alpha):
    """Keep the n² / (alpha c) entries of largest magnitude."""
    cut = np.sort(np.abs(S).ravel())[-int(n * n / (alpha * c))]
    return np.where(np.abs(S) >= cut, S, 0.0)


def laplacian(A):
    return np.diag(A.sum(axis=1)) - A


def leading(M):
    return np.linalg.svd(M, full_matrices=False)[0][:, :c]


W = np.zeros((n, n))
lengths = distances[edges[:, 0], edges[:, 1]]
W[edges[:, 0], edges[:, 1]] = np.exp(-lengths / (10 * lengths.mean()))
W = np.maximum(W, W.T)
P = leading(X)
first = pruned(P @ P.T, 2.5)
_, directions = eigh(X.T @ (laplacian(W) + laplacian(first)) @ X, X.T @ X, subset_by_index=[0, c - 1])
P = leading(X @ directions)
final = pruned(P @ P.T, 5.0)

figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
inside = y[:, None] == y
names = ("neighbour weights W", "PP'", "pruned", "pruned again in the projection")
for ax, name, S in zip(axes, names, (W, leading(X) @ leading(X).T, first, final), strict=True):
    top = np.quantile(np.abs(S[S != 0]), 0.9)
    ax.imshow(S, cmap="RdBu_r", vmin=-top, vmax=top, interpolation="antialiased")
    share = np.abs(S[inside]).sum() / np.abs(S).sum()
    ax.set(title=f"{name}\n{share:.0%} of the weight inside classes", xticks=[], yticks=[])
    ax.title.set_fontsize(9)
plt.show()

# %%
# Map
# ---
#
# Locality preserving projection on the final affinity gives the map: linked rows stay close together, and rows with
# negative entries are pushed apart. The images show the distances of all pairs of rows before and after. In the
# learned metric, rows of one class (blocks on the diagonal) are closer to each other and farther from the rest.

from sklearn.metrics import silhouette_score

A = final + np.diag(W.sum(axis=1))
_, vectors = eigh(X.T @ laplacian(A) @ X, X.T @ np.diag(A.sum(axis=1)) @ X, subset_by_index=[0, c - 1])
Z = X @ (vectors / np.linalg.norm(vectors, axis=0))

figure, axes = plt.subplots(1, 2, figsize=(8.4, 4.2), layout="constrained")
for ax, name, points in zip(axes, (f"rows: {kept} columns", f"mapped rows: {c} columns"), (X, Z), strict=True):
    pairwise = cdist(points, points)
    ax.imshow(-pairwise, cmap="magma", vmin=-np.quantile(pairwise, 0.98), vmax=-np.quantile(pairwise, 0.005))
    ax.set(title=f"{name}\nsilhouette of the classes {silhouette_score(points, y):.2f}", xticks=[], yticks=[])
plt.show()

# %%
# The same map, from the library:

from adaam import AdaAM, AdaAMClustering

metric = AdaAM(n_clusters=c).fit(rows)
largest = np.degrees(subspace_angles(metric.transform(rows), Z - Z.mean(axis=0)).max())
print(f"largest angle between the two learned spaces: {largest:.1e} degrees")

# %%
# Partition
# ---------
#
# The paper runs k-means on the mapped rows. The graph head of :class:`~adaam.AdaAMClustering` instead partitions the
# graph of ten nearest neighbours in the map: many small communities are merged until the wanted number of clusters is
# reached. The rows are drawn in a t-SNE layout of the map, coloured by cluster.

from sklearn.manifold import TSNE

from adaam.palette import cluster_colors

model = AdaAMClustering(n_clusters=c, learner=AdaAM(c), head="graph").fit(rows)
layout = TSNE(init="pca", random_state=0).fit_transform(metric.transform(rows))
between = cdist(metric.transform(rows), metric.transform(rows))
np.fill_diagonal(between, np.inf)
links = np.column_stack([np.repeat(np.arange(n), 10), np.argsort(between, axis=1)[:, :10].ravel()])

communities = model.cluster_layers_[-1]
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
titles = ("links in the map", f"{communities.n_clusters} small communities", f"{model.n_clusters_} clusters")
for ax, title, labels in zip(axes, titles, (None, communities.labels, model.labels_), strict=True):
    ax.add_collection(LineCollection(layout[links], colors="0.8", linewidths=0.4, zorder=0))
    ax.scatter(*layout.T, s=10, c="0.4" if labels is None else cluster_colors(labels))
    ax.set(title=title, xticks=[], yticks=[])
plt.show()
