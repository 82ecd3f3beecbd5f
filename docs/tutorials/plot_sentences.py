"""
Cluster sentence embeddings
===========================

Embeddings are vectors that a model computed from sentences or images. Pass them to ``adaam`` without further
preparation. Here the sentences are the first sentences of docstrings in Python's standard library
(:download:`standard_library.py </tutorials/standard_library.py>` reads them), and the embedding model is small enough
to be trained on this page. With a larger one, replace that step by, for example,
``E = SentenceTransformer("all-MiniLM-L6-v2").encode(sentences)``; the rest stays the same.
"""

import re

import matplotlib.pyplot as plt
import numpy as np
from standard_library import docstrings

texts, subjects = docstrings(min_words=5)
first = [" ".join(re.split(r"(?<=[.!?])\s|\n\s*\n", text)[0].split()) for text in texts]
for sentence in first[:5]:
    print(sentence)

# %%
# Embed the sentences
# -------------------
#
# Words that occur in the same sentences get similar vectors: the leading components of their positive pointwise mutual
# information (PPMI). The vector of a sentence is the mean of its words, with frequent words weighted down and
# the direction that all sentences share removed (SIF; Arora, Liang and Ma, 2017).

from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer

corpus = [sentence for text in texts for sentence in re.split(r"(?<=[.!?])\s|\n\s*\n", text)]
counter = CountVectorizer(token_pattern=r"\b[a-z]{2,}\b", min_df=3)
counts = counter.fit_transform(corpus).astype(float)
together = (counts.T @ counts).tocoo()
frequency = np.asarray(together.sum(axis=0)).ravel() / together.sum()
pmi = np.log(together.data / together.sum() / (frequency[together.row] * frequency[together.col]))
together.data = np.maximum(pmi, 0.0)
words = TruncatedSVD(100, random_state=0).fit_transform(together.tocsr())
words /= np.linalg.norm(words, axis=1, keepdims=True) + 1e-12

E = counter.transform(first) @ (words * (1e-3 / (1e-3 + frequency))[:, None])
known = np.linalg.norm(E, axis=1) > 0  # sentences without a known word have no embedding
E, sentences, y = E[known], np.array(first)[known], np.array(subjects)[known]
E /= np.linalg.norm(E, axis=1, keepdims=True)
shared = np.linalg.svd(E, full_matrices=False)[2][:1]
E = (E - E @ shared.T @ shared).astype(np.float32)
print(E.shape, E.dtype)

# %%
# Cluster
# -------
#
# float16 to float64 embeddings are accepted, scaled to unit length or not.

from adaam import AdaAMClustering

model = AdaAMClustering(n_clusters=8).fit(E)
print(model.selection_)

# %%

from adaam.displays import ProjectionDisplay

ProjectionDisplay.from_estimator(model, E)
plt.show()

# %%
# Columns of an embedding have no names, so the clusters are described by the words of their sentences and by their most
# typical sentences: those closest to the centre of the cluster.

from adaam.cluster_words import cluster_words

Z = model.transform(E)
described = cluster_words(sentences, model.labels_, model.n_clusters_, n=5)
for cluster, effects in enumerate(described):
    rows = np.flatnonzero(model.labels_ == cluster)
    nearest = rows[np.argsort(np.linalg.norm(Z[rows] - model.cluster_centers_[cluster], axis=1))[:2]]
    print(f"cluster {cluster}, {len(rows)} sentences: {', '.join(effect.word for effect in effects)}")
    for row in nearest:
        print(f"    {sentences[row][:90]}")

# %%
# How certain is it?
# ------------------
#
# The strength of a row is the share of its links that stay in its cluster. Short sentences such as "Return the value."
# could belong anywhere. Rows of low strength can be set aside before clusters are named or counted.

strength = model.probabilities_
correct = np.zeros(len(y), dtype=bool)
for cluster in range(model.n_clusters_):
    members = model.labels_ == cluster
    names, number = np.unique(y[members], return_counts=True)
    correct[members] = y[members] == names[number.argmax()]

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
left.hist(strength, bins=20)
left.set(xlabel="strength", ylabel="sentences")
edges = np.array([0.0, 0.5, 0.7, 0.9, 1.01])
places = np.digitize(strength, edges) - 1
right.bar(range(4), [100 * correct[places == place].mean() for place in range(4)])
right.set_xticks(range(4), ["below 0.5", "0.5 to 0.7", "0.7 to 0.9", "above 0.9"])
right.set(xlabel="strength", ylabel="from the cluster's main package (%)", ylim=(0, 100))
plt.show()

# %%
# Search by meaning
# -----------------
#
# Distances in a learned metric rank sentences by similarity. A map with one column per cluster keeps what separates the
# clusters and drops finer differences. For search, keep more components.

from sklearn.neighbors import NearestNeighbors

from adaam import AdaAM

query = int(np.flatnonzero([("root element" in sentence) for sentence in sentences])[0])
print("query:", sentences[query])
for n_components in (8, 40):
    mapped = AdaAM(n_clusters=8, n_components=n_components).fit_transform(E)
    index = NearestNeighbors(n_neighbors=5).fit(mapped)
    print(f"\n{n_components} components:")
    for row in index.kneighbors(mapped[[query]], return_distance=False)[0][1:]:
        print("   ", sentences[row])

# %%
# For comparison, k-means on the embeddings. Both are scored by the packages that the sentences come from:

from sklearn.cluster import KMeans

from adaam.scores import clustering_accuracy

truth = np.unique(y, return_inverse=True)[1]
k_means = KMeans(8, n_init=10, random_state=0).fit(E)
print(f"AdaAMClustering  {clustering_accuracy(truth, model.labels_):.0%}")
print(f"k-means          {clustering_accuracy(truth, k_means.labels_):.0%}")
