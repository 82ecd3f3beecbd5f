"""Displays draw the numbers of dense oracles, in the caller's axes or in a new figure."""

import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

import oracles
from adaam import CAN, LPP, AdaAM, AdaAMClustering
from adaam.displays import (
    ClusterCountDisplay,
    ComponentsDisplay,
    ContributionsDisplay,
    EigenvalueDisplay,
    GraphComponentsDisplay,
    MagnitudeDisplay,
    ProjectionDisplay,
    SelectionDisplay,
)

plt = pytest.importorskip("matplotlib.pyplot")

# Few rows have few neighbours.
pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:400]


@pytest.fixture(scope="module")
def metric(digits):
    return AdaAM(10).fit(digits)


@pytest.fixture(scope="module")
def wine():
    return load_wine(as_frame=True).data


def all_displays(model, X):
    yield ProjectionDisplay, (X,)
    yield EigenvalueDisplay, ()
    yield ComponentsDisplay, ()
    yield ContributionsDisplay, ()
    yield MagnitudeDisplay, (X,)
    yield GraphComponentsDisplay, (X,)


def test_every_display_keeps_the_axes_it_drew_in_and_draws_again_in_others(metric, digits):
    for cls, arguments in all_displays(metric, digits):
        display = cls.from_estimator(metric, *arguments)
        assert display.figure_ is display.ax_.figure
        _, ax = plt.subplots()
        assert display.plot(ax=ax) is display
        assert display.ax_ is ax
        display.figure_.canvas.draw()


def test_displays_refuse_models_without_a_linear_map(digits):
    with pytest.raises(TypeError, match="no linear map"):
        EigenvalueDisplay.from_estimator(CAN(3))


@pytest.mark.parametrize("display", [SelectionDisplay, ClusterCountDisplay])
def test_displays_of_a_choice_refuse_models_that_choose_nothing_or_are_not_fitted(display, metric):
    with pytest.raises(TypeError, match="AdaAM, which chooses nothing. Use a fitted AdaAMClustering"):
        display.from_estimator(metric)
    with pytest.raises(NotFittedError):
        display.from_estimator(AdaAMClustering("auto"))


def test_matplotlib_is_loaded_when_a_display_is_drawn_and_not_before():
    code = "import sys, adaam.displays; print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_projection_draws_chosen_components(metric, digits):
    display = ProjectionDisplay.from_estimator(metric, digits, components=(2, 0))
    drawn = np.asarray(display.scatter_[0].get_offsets())
    expected = metric.transform(digits)[:, [2, 0]]
    order = np.random.default_rng(0).permutation(len(digits))
    np.testing.assert_allclose(drawn, expected[order])


def test_projection_by_default_is_the_plane_of_largest_spread(metric, digits):
    points = ProjectionDisplay.from_estimator(metric, digits).points
    Z = metric.transform(digits)
    U, s, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(points), np.abs(U[:, :2] * s[:2]), atol=1e-8)


def test_projection_colours_by_the_clusterers_own_labels_in_the_plane_of_their_means(digits):
    model = AdaAMClustering(10).fit(digits)
    display = ProjectionDisplay.from_estimator(model, digits)
    np.testing.assert_array_equal(display.labels, model.labels_)
    assert [len(part.get_offsets()) for part in display.scatter_] == np.bincount(model.labels_).tolist()
    Z = model.transform(digits)
    means = np.array([Z[model.labels_ == c].mean(axis=0) for c in range(10)])
    np.testing.assert_allclose(np.abs(display.points), np.abs(PCA(2).fit(means).transform(Z)), atol=1e-8)


def test_projection_draws_at_most_the_rows_asked_for_and_a_line_for_one_component(digits):
    display = ProjectionDisplay.from_estimator(LPP(1).fit(digits), digits, max_points=50)
    assert len(display.scatter_[0].get_offsets()) == 50
    assert (display.points[:, 1] == 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"components": (0, 10)}, r"components=\(0, 10\) must name two of the components 0..9"),
        ({"components": (0,)}, "components=\\(0,\\) must name two"),
        ({"components": 1}, "components=1 must name two"),
        ({"labels": [1, 2]}, "one label a row"),
    ],
)
def test_projection_names_what_does_not_fit(metric, digits, options, message):
    with pytest.raises(ValueError, match=message):
        ProjectionDisplay.from_estimator(metric, digits, **options)


def test_eigenvalues_are_drawn_as_the_oracle_has_them(digits):
    rows = digits[:80]
    values, _, _ = oracles.adaam(rows, 4)
    drawn = EigenvalueDisplay.from_estimator(AdaAM(4).fit(rows)).line_.get_ydata()
    np.testing.assert_allclose(drawn, values, atol=1e-8)


def test_components_of_square_rows_are_images(metric):
    display = ComponentsDisplay.from_estimator(metric)
    assert len(display.axes_) == 10
    for ax, component in zip(display.axes_, metric.components_, strict=True):
        np.testing.assert_allclose(ax.images[0].get_array(), component.reshape(8, 8))
    assert len(ComponentsDisplay.from_estimator(metric, image_shape=(4, 16), n_components=3).axes_) == 3


@pytest.mark.filterwarnings("ignore::adaam.UnlikeUnitsWarning")
def test_components_of_named_features_are_bars_of_the_strongest_ones(wine):
    model = AdaAM(3, preparation="linear").fit(wine)
    display = ComponentsDisplay.from_estimator(model, n_features=4)
    assert display.image_shape is None
    for ax, component in zip(display.axes_, model.components_, strict=True):
        strongest = np.argsort(-np.abs(component), kind="stable")[:4]
        assert [tick.get_text() for tick in ax.get_yticklabels()] == [wine.columns[j][:24] for j in strongest]
        np.testing.assert_allclose([bar.get_width() for bar in ax.patches], component[strongest])


def test_components_refuse_a_shape_that_does_not_fit(metric):
    for shape in ((7, 7), 64, (64,), "square"):
        with pytest.raises(ValueError, match=rf"image_shape={re.escape(repr(shape))} does not fit 64 features"):
            ComponentsDisplay.from_estimator(metric, image_shape=shape)


def test_contributions_of_a_clusterer_are_those_of_its_metric(wine):
    model = AdaAMClustering(3).fit(wine)
    shown = ContributionsDisplay.from_estimator(model).contributions
    np.testing.assert_array_equal(shown.share, model.metric_.explain().share)
    assert shown.names == tuple(wine.columns)


@pytest.mark.filterwarnings("ignore::adaam.UnlikeUnitsWarning")
def test_contributions_are_the_shares_of_the_mean_squared_distance(wine):
    model = AdaAM(3, preparation="linear").fit(wine)
    display = ContributionsDisplay.from_estimator(model)
    # By definition: the mean over all pairs of (x_i - x_j)' M (x_i - x_j), split by feature. The map sees only what the
    # prepared rows keep of a difference, 98 % of the variance.
    Z, mean, basis = oracles.prepare(wine, row_scaling="none", variance=0.98)
    rows = Z @ basis.T
    M = model.get_mahalanobis_matrix()
    terms = np.einsum("ij,jk,ik->k", rows, M, rows)
    np.testing.assert_allclose(display.contributions.share, terms / terms.sum(), atol=1e-8)
    drawn = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(drawn, 100 * np.sort(terms / terms.sum())[::-1], atol=1e-6)


def test_contributions_to_one_distance_as_an_image(metric, digits):
    display = ContributionsDisplay.from_estimator(metric, digits[0], digits[1], image_shape=(8, 8))
    share = metric.explain(digits[0], digits[1]).share
    np.testing.assert_allclose(display.image_.get_array(), 100 * share.reshape(8, 8))
    with pytest.raises(ValueError, match="does not fit 64 features"):
        ContributionsDisplay.from_estimator(metric, image_shape=(5, 5))


@pytest.mark.parametrize("which", ["final", "intermediate"])
def test_magnitudes_are_those_of_the_dense_affinity(digits, which):
    rows = digits[:150]
    model = AdaAM(5).fit(rows)
    display = MagnitudeDisplay.from_estimator(model, rows, which=which, n_bins=40)
    Z, _, _ = oracles.prepare(rows)
    P = oracles.left_vectors(Z, 5)
    if which == "final":
        W = oracles.heat_weights(Z, model.n_neighbors_)
        first = oracles.prune(P @ P.T, int(150**2 / (2.5 * 5)))
        total = oracles.laplacian(W) + oracles.laplacian(first)
        P = oracles.left_vectors(Z @ oracles.smallest(Z.T @ total @ Z, Z.T @ Z, 5)[1], 5)
    dense = np.abs(P @ P.T)
    counts, edges = np.histogram(dense, bins=40, range=(0.0, dense.max()))
    np.testing.assert_allclose(display.edges, edges, rtol=1e-6)
    assert np.abs(display.counts - counts).sum() <= 4  # an entry on an edge may fall to either side
    cut = oracles.cut(dense, int(150**2 / ((5.0 if which == "final" else 2.5) * 5)))
    assert display.line_.get_xdata()[0] == pytest.approx(cut)
    assert display.kept == pytest.approx((dense >= cut).mean(), abs=counts.max() / counts.sum())


def test_magnitudes_ask_for_the_training_rows_and_for_adaam(metric, digits):
    with pytest.raises(ValueError, match="the model was fitted on"):
        MagnitudeDisplay.from_estimator(metric, digits[:300])
    with pytest.raises(TypeError, match="LPP learns no adaptive affinity"):
        MagnitudeDisplay.from_estimator(LPP(2).fit(digits), digits)


def test_graph_components_have_the_sizes_of_separate_blobs():
    X, y = make_blobs([30, 20, 10], n_features=4, random_state=0, cluster_std=0.1)
    X = np.vstack([X, X[y == 2][:5]])  # five rows twice
    model = AdaAM(3, n_neighbors=4, preparation="linear").fit(X)
    display = GraphComponentsDisplay.from_estimator(model, X)
    assert display.sizes.tolist() == [30, 20, 15]
    assert [bar.get_height() for bar in display.bars_] == [30, 20, 15]
    assert "3 connected components" in display.ax_.get_title()
    clusterer = AdaAMClustering(3, learner=model).fit(X)
    assert GraphComponentsDisplay.from_estimator(clusterer, X).sizes.tolist() == [30, 20, 15]


def test_graph_components_need_a_number_of_neighbours(digits):
    model = LPP(2).fit(digits)
    with pytest.raises(ValueError, match="Pass n_neighbors"):
        GraphComponentsDisplay.from_estimator(model, digits)
    assert GraphComponentsDisplay.from_estimator(model, digits, n_neighbors=10).sizes.tolist() == [400]
