"""
Vector search with faiss
========================

Transform the rows, then index them with Euclidean distance: that is exactly the learned metric, so any vector index can
be used. This example uses faiss; hnswlib and pgvector work the same way (:doc:`/production`).
"""

import faiss
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from adaam import AdaAM

X, y = load_digits(return_X_y=True)
stored, queries = X[:1500], X[1500:1510]
metric = AdaAM(n_clusters=10).fit(stored)

index = faiss.IndexFlatL2(metric.n_components_)
index.add(metric.transform(stored).astype(np.float32))
squared, found = index.search(metric.transform(queries).astype(np.float32), 6)

# %%
# The index stores 10 numbers per row instead of 64, and its distances are those of ``pair_distance``:

pairs = np.stack([queries, stored[found[:, 0]]], axis=1)
print("largest difference:", float(np.abs(metric.pair_distance(pairs) - np.sqrt(squared[:, 0])).max()))

# %%

figure, axes = plt.subplots(5, 7, figsize=(7, 5.2), layout="constrained")
for row, axes_row in enumerate(axes):
    for place, ax in enumerate(axes_row):
        image = queries[row] if place == 0 else stored[found[row, place - 1]]
        ax.imshow(image.reshape(8, 8), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
axes[0, 0].set_title("query")
axes[0, 1].set_title("nearest rows in the learned metric", loc="left", fontsize=10)
plt.show()
