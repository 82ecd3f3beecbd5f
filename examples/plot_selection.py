"""
What was chosen, and why
========================

``AdaAMClustering`` tries several metrics and ways to partition and takes the simplest that nothing clearly beats. Its
report says what was tried; :class:`~adaam.displays.SelectionDisplay` draws it, and
:class:`~adaam.displays.ClusterCountDisplay` the criterion by which ``n_clusters="auto"`` estimates their number. No
label is used.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from adaam import AdaAMClustering
from adaam.displays import ClusterCountDisplay, SelectionDisplay

X, _ = load_digits(return_X_y=True)
model = AdaAMClustering(n_clusters="auto").fit(X)
print(model.selection_)

# %%
# On the left, what each trial is worth; trials close to the chosen one that also agree with it (last column above) say
# that the answer does not hang on the choice. On the right, the number of clusters: where the product is highest,
# within the band that resamples of the rows give. More than ten are found, since digits are written
# in more than ten ways.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
SelectionDisplay.from_estimator(model, ax=left)
ClusterCountDisplay.from_estimator(model, ax=right)
plt.show()
