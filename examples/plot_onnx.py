"""
Export to ONNX
==============

A fitted clusterer is exported as an ONNX graph, run by onnxruntime and compared with Python. The map alone takes
kilobytes. To predict labels by a vote of the nearest training rows, the graph also contains those rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from sklearn.datasets import load_digits

from adaam import AdaAMClustering
from adaam.export import to_onnx

X, _ = load_digits(return_X_y=True)
known, new = X[:1400], X[1400:]
model = AdaAMClustering(n_clusters=10).fit(known)
for method in ("transform", "predict"):
    graph = to_onnx(model, method=method, dtype=np.float32)
    print(f"{method}: {len(graph.SerializeToString()) / 1024:.1f} KiB, {len(graph.graph.node)} nodes")

session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
Z, labels = session.run(["embedding", "label"], {"X": new.astype(np.float32)})
print("labels of new rows that differ:", int((labels != model.predict(new)).sum()), "of", len(new))

# %%

expected = model.transform(new)
figure, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
ax.hist(np.log10(np.abs(Z - expected).ravel() / np.abs(expected).max() + 1e-12), bins=60)
ax.axvline(-5, color="tab:red", linestyle="--", label="promised")
ax.set(xlabel="difference to Python as a share of the largest value, log10", ylabel="entries")
ax.legend(frameon=False)
plt.show()
