"""
Named features: wines
=====================

Thirteen measurements of 178 wines, in units that have nothing to do with each other: scale them first, learn a metric
that is linear in the input (``preparation="linear"``), and ask which measurements it uses.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from adaam import AdaAM, AdaAMClustering
from adaam.displays import ContributionsDisplay, ProjectionDisplay
from adaam.scores import clustering_accuracy

data = load_wine(as_frame=True)
rows = StandardScaler().set_output(transform="pandas").fit_transform(data.data)

model = AdaAMClustering(3, learner=AdaAM(3, n_neighbors=15, preparation="linear")).fit(rows)
print(f"accuracy {clustering_accuracy(data.target, model.labels_):.1%}")
print(model.explain())

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
ProjectionDisplay.from_estimator(model, rows, ax=left)
left.set_title("clusters in the learned metric")
ContributionsDisplay.from_estimator(model, ax=right)
plt.show()
