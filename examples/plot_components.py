"""
What the metric looks at
========================

A linear map can be interpreted. If rows are images, its components are images too; its eigenvalues show how well
each is determined; and ``explain`` splits distances by feature.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from adaam import AdaAM
from adaam.displays import ComponentsDisplay, ContributionsDisplay, EigenvalueDisplay, MagnitudeDisplay

X, y = load_digits(return_X_y=True)
metric = AdaAM(n_clusters=10).fit(X)

# %%
# Each component is a pattern of pixels: red pixels move an image up along it, blue ones down.

ComponentsDisplay.from_estimator(metric)
plt.show()

# %%
# Small eigenvalues belong to directions in which strongly linked rows stay together. If two values are almost equal,
# their directions could be exchanged on slightly different data.

EigenvalueDisplay.from_estimator(metric)
plt.show()

# %%
# Which pixels contribute to the distances? On the left: the mean squared distance between all rows. On the right: the
# distance between a three and an eight.

three, eight = X[y == 3][0], X[y == 8][0]
figure, (whole, pair) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
ContributionsDisplay.from_estimator(metric, image_shape=(8, 8), ax=whole)
whole.set_title("all rows")
ContributionsDisplay.from_estimator(metric, three, eight, image_shape=(8, 8), ax=pair)
pair.set_title("a three and an eight")
plt.show()

# %%
# How much of the affinity is kept? The histogram shows the magnitudes of all pairs, and the cut below which they are
# set to zero.

MagnitudeDisplay.from_estimator(metric, X)
plt.show()
