"""
Grid search without labels
==========================

scikit-learn's searches accept any scorer. ``adaam.scorers`` has scorers that need no labels: they score the clusters of
held-out rows in the learned space.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from adaam import AdaAM, AdaAMClustering, scorers

X, _ = load_digits(return_X_y=True)
grid = {"learner__n_neighbors": [8, 12, 18], "learner__n_components": [5, 10, 20]}
search = GridSearchCV(
    AdaAMClustering(10, learner=AdaAM(10), head="k-means", n_init=3), grid, scoring=scorers.silhouette, cv=3
)
search.fit(X)
print(search.best_params_)

# %%
# Note that a silhouette favours few dimensions, because distances in them are easier to separate. Compare settings of
# the same dimension, or use several criteria.

scores = search.cv_results_["mean_test_score"].reshape(3, 3)
figure, ax = plt.subplots(figsize=(5, 3.8), layout="constrained")
image = ax.imshow(scores, cmap="viridis")
for (row, column), score in np.ndenumerate(scores):
    ax.text(column, row, f"{score:.2f}", ha="center", va="center", color="white")
ax.set(xticks=range(3), yticks=range(3), xlabel="n_neighbors", ylabel="n_components", title="silhouette, held out")
ax.set_xticklabels(grid["learner__n_neighbors"])
ax.set_yticklabels(grid["learner__n_components"])
figure.colorbar(image, ax=ax)
plt.show()
