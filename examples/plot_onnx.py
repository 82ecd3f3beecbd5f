"""
Without Python: ONNX
====================

A fitted clusterer as an ONNX graph of a few kilobytes, run by onnxruntime and compared with Python.
"""

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from sklearn.datasets import load_digits

from adaam import AdaAMClustering
from adaam.export import to_onnx

X, _ = load_digits(return_X_y=True)
model = AdaAMClustering(n_clusters=10, head="k-means").fit(X)
graph = to_onnx(model, dtype=np.float32)
print(f"{len(graph.SerializeToString()) / 1024:.1f} KiB;", "operators:", [node.op_type for node in graph.graph.node])

session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
Z, labels = session.run(["embedding", "label"], {"X": X.astype(np.float32)})
print("labels that differ:", int((labels != model.predict(X)).sum()))

# %%

expected = model.transform(X)
figure, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
ax.hist(np.log10(np.abs(Z - expected).ravel() / np.abs(expected).max() + 1e-12), bins=60)
ax.axvline(-5, color="tab:red", linestyle="--", label="promised")
ax.set(xlabel="difference to Python as a share of the largest value, log10", ylabel="entries")
ax.legend(frameon=False)
plt.show()
