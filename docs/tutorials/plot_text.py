"""
Cluster texts
=============

This tutorial clusters documents by their words. The corpus is the docstrings of eight packages of Python's standard
library, read from the source files of the Python that runs it, so nothing has to be downloaded
(:download:`standard_library.py </tutorials/standard_library.py>` reads them). Which package a docstring comes from is
known; it is used only to check the result.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from standard_library import docstrings

texts, subjects = docstrings(min_words=12)
print(pd.Series(subjects).value_counts().to_string())
print(f"\nOne of them, from {subjects[0]}:\n\n{texts[0]}")

# %%
# TF-IDF
# ------
#
# scikit-learn's vectorizer counts words and weights rare ones up. The result is a sparse matrix, which is never
# made dense. Rows are scaled to unit length, so long and short documents are comparable.

from sklearn.feature_extraction.text import TfidfVectorizer

vectorizer = TfidfVectorizer(
    stop_words="english", min_df=2, max_df=0.3, sublinear_tf=True, token_pattern=r"\b[a-z]{3,}\b"
)
X = vectorizer.fit_transform(texts)
print(f"{X.format} matrix of {X.shape[0]} rows and {X.shape[1]} words, {X.nnz / np.prod(X.shape):.1%} not zero")

# %%
# Cluster
# -------
#
# The clusterer computes the leading components of the sparse matrix and tries metrics and partitions on them.

from adaam import AdaAMClustering

chosen = AdaAMClustering(n_clusters=8).fit(X)
print(chosen.selection_)

# %%
# Read the last column before going on: how far each trial agrees with the chosen one. Trials that score well but agree
# little (well below 0.8) are a warning: the clusters depend on the metric. A corpus of a thousand documents is small
# for the number of its words, and each learned metric can fit different noise.
#
# The cautious choice is then to learn no metric: :class:`~adaam.PreparedMetric` uses the leading components themselves.
# The rest of this page does that; the comparison at the end shows how the two differ.

from adaam import Preparation, PreparedMetric

components = PreparedMetric(preparation=Preparation("unit", keep=256))
model = AdaAMClustering(n_clusters=8, learner=components, head="graph").fit(X)
print("rows in each cluster:", np.bincount(model.labels_))

# %%

from adaam.displays import ProjectionDisplay

ProjectionDisplay.from_estimator(model, X)
plt.show()

# %%
# What the clusters are about
# ---------------------------
#
# :func:`~adaam.cluster_words.cluster_words` ranks the words of each cluster by class-based TF-IDF: how much of the
# cluster's text a word makes up, times how rare the word is overall.

from adaam.cluster_words import cluster_words

for cluster, words in enumerate(cluster_words(texts, model.labels_, model.n_clusters_, n=7)):
    rows = np.flatnonzero(model.labels_ == cluster)
    print(f"cluster {cluster}, {len(rows)} texts: {', '.join(word.word for word in words)}")

# %%
# Typical texts of the first cluster, shortened: those with the largest inner product with its centre.

for row in np.argsort(-(model.transform(X) @ model.cluster_centers_[0]))[:3]:
    print(f"[{subjects[row]}] {' '.join(texts[row].split())[:110]} ...")

# %%
# Compare with the packages
# -------------------------
#
# Each row of the figure is a package and shows in which clusters its docstrings are.

shares = pd.crosstab(pd.Series(subjects, name="package"), model.labels_, normalize="index")
figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
ax.set_yticks(range(len(shares)), shares.index)
ax.set(xlabel="cluster", xticks=range(model.n_clusters_))
for (i, j), share in np.ndenumerate(shares.to_numpy()):
    if share >= 0.05:
        ax.text(j, i, f"{share:.0%}", ha="center", va="center", fontsize=8, color="white" if share > 0.5 else "black")
plt.show()

# %%
# The same scores for the first model and for the usual alternatives:

from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from adaam.scores import clustering_accuracy, normalized_mutual_information

y = pd.factorize(np.asarray(subjects))[0]
reduced = make_pipeline(TruncatedSVD(100, random_state=0), Normalizer()).fit_transform(X)
found = {
    "graph of the components": model.labels_,
    "AdaAMClustering, default": chosen.labels_,
    "k-means on TF-IDF": KMeans(8, n_init=5, random_state=0).fit_predict(X),
    "k-means on 100 components (LSA)": KMeans(8, n_init=5, random_state=0).fit_predict(reduced),
}
for name, labels in found.items():
    accuracy, nmi = clustering_accuracy(y, labels), normalized_mutual_information(y, labels)
    print(f"{name:32} accuracy {accuracy:.0%}, NMI {nmi:.2f}")

# %%
# New texts
# ---------
#
# A new text goes through the same vectorizer. ``membership_vectors`` gives how strongly it belongs to each cluster.

new = [
    "Parse the XML document and return its root element.",
    "Cancel the task and wait until the event loop has handled the cancellation.",
    "Return a header with an encoded charset for the MIME message.",
]
rows = vectorizer.transform(new)
for text, cluster, strength in zip(
    new, model.predict(rows), model.membership_vectors(rows).max(axis=1).toarray().ravel(), strict=True
):
    print(f"cluster {cluster} ({strength:.0%}): {text}")

# %%
# ``model.report(X, texts=texts)`` makes :doc:`a page </report>` that shows the text of the row under the pointer. On
# the command line, ``adaam cluster tickets.csv --text description`` does all of this for a text column of a table.
