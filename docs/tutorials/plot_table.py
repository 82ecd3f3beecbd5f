"""
Cluster a table
===============

This tutorial clusters a table of customers that has ids, dates, categories, a boolean column, formatted currency values
and missing cells. It shows how to see what happens to each column, how to describe the clusters, and how to assign new
rows to them. The table is synthetic and comes with the repository (``examples/tables``). :doc:`/tables` shows the
same steps on the command line.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

table = pd.read_csv("../../examples/tables/customers.csv")
print(table.head().to_string())

# %%
# Prepare the columns
# -------------------
#
# :class:`~adaam.TableEncoder` is a scikit-learn transformer that turns such a table into numbers. After ``fit``, its
# ``columns_`` state what is done with each column and why.

from adaam import TableEncoder

encoder = TableEncoder().set_output(transform="pandas")
X = encoder.fit_transform(table)
print(*encoder.columns_, sep="\n")

# %%
# Numbers are standardized here because they are combined with categories. A category has half the weight of a number,
# as in k-prototypes, so that one unrelated category cannot split every cluster.

print(X.head().round(2).T.to_string())

# %%
# Cluster
# -------
#
# :class:`~adaam.AdaAMClustering` tries several metrics and partitioning methods, scores them without labels, and keeps
# the simplest one that no other clearly beats. ``selection_`` lists what was tried.

from adaam import AdaAMClustering

model = AdaAMClustering(n_clusters=4).fit(X)
print(model.selection_)

# %%
# Each row has a cluster, a strength (the share of its graph links that stay inside the cluster) and an outlier score.

result = pd.DataFrame(
    {
        "customer": table["customer_id"],
        "cluster": model.labels_,
        "strength": model.probabilities_.round(2),
        "outlier score": model.outlier_scores_.round(2),
    }
)
print(result.head().to_string())
print("\nrows in each cluster:", np.bincount(model.labels_))

# %%
# :class:`~adaam.displays.ProjectionDisplay` draws the rows in the plane in which the cluster means are farthest apart.

from adaam.displays import ProjectionDisplay

ProjectionDisplay.from_estimator(model, X)
plt.show()

# %%
# Describe the clusters
# ---------------------
#
# ``explain`` compares the rows of each cluster with all other rows. *d* is Cohen's d: the difference of the two means
# divided by the pooled standard deviation.

profiles = model.explain()
print(profiles)

# %%
# The same numbers as a picture: red features are higher in the cluster than elsewhere, blue ones are lower.

figure, ax = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
image = ax.imshow(profiles.effects, cmap="RdBu_r", vmin=-3, vmax=3, aspect="auto")
ax.set_xticks(range(len(profiles.names)), profiles.names, rotation=40, ha="right")
ax.set_yticks(range(len(profiles.sizes)), [f"cluster {c} ({size:.0f} rows)" for c, size in enumerate(profiles.sizes)])
figure.colorbar(image, ax=ax, label="Cohen's d")
plt.show()

# %%
# Columns that were left out can be compared with the clusters too. In the original units:

numbers = table.assign(revenue=table["revenue"].astype(str).str.replace(",", "").astype(float))
print(numbers.groupby(model.labels_)[["age", "orders", "revenue", "returns"]].median().to_string())
print()
print(pd.crosstab(model.labels_, table["plan"], rownames=["cluster"]).to_string())

# %%
# Assign new rows
# ---------------
#
# A pipeline of encoder and clusterer treats new rows in the same way: same medians, same categories, same scale. It is
# saved to one file that contains plain data and no code.

from sklearn.pipeline import make_pipeline

import adaam

pipeline = make_pipeline(TableEncoder(), AdaAMClustering(n_clusters=4)).fit(table)
adaam.save(pipeline, "customers.adaam")

new = pd.read_csv("../../examples/tables/new_customers.csv")
clusters = adaam.load("customers.adaam").predict(new)
print(new.assign(cluster=clusters)[["customer_id", "age", "plan", "orders", "revenue", "cluster"]].to_string())

# %%
# Next steps: ``model.report(X).save("customers.html")`` writes :doc:`a page about the clusters </report>` that can be
# shared, ``AdaAMClustering("auto")`` :doc:`estimates the number of clusters <plot_layers>`, and :doc:`/tables` lists
# every kind of column and the options that change how it is treated.
