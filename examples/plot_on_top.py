"""
HDBSCAN in the learned space
============================

The learned space is Euclidean, so density clustering, nearest neighbours or a nonlinear layout can be applied to it.
This example applies HDBSCAN, which leaves uncertain rows unlabelled, to raw pixels and to the learned space.
"""

import matplotlib.pyplot as plt
from sklearn.cluster import HDBSCAN
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from adaam import AdaAM
from adaam.displays import ProjectionDisplay
from adaam.scores import adjusted_rand_index

X, y = load_digits(return_X_y=True)
metric = AdaAM(n_clusters=10)
found = {
    "pixels": HDBSCAN(min_cluster_size=20, copy=True).fit_predict(X),
    "learned metric": make_pipeline(metric, HDBSCAN(min_cluster_size=20, copy=True)).fit_predict(X),
}
for name, labels in found.items():
    kept = labels >= 0
    score = adjusted_rand_index(y[kept], labels[kept])
    print(f"{name:15} {labels.max() + 1:2} clusters, {kept.mean():.0%} of rows, ARI on those {score:.2f}")

# %%
# UMAP is applied in the same way: ``make_pipeline(AdaAM(10), umap.UMAP())``.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for ax, (name, labels) in zip(axes, found.items(), strict=True):
    ProjectionDisplay.from_estimator(metric, X, labels=labels, ax=ax)
    ax.set_title(f"HDBSCAN on the {name} (-1: left out)")
plt.show()
