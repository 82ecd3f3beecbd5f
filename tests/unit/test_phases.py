"""Progress of a fit: silent by default; its phases go to the log, to `verbose` and to callbacks."""

import logging
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adaam import CAN, LPP, PCAN, AdaAM, AdaAMClustering, PreparedMetric, RowBlocks
from adaam.estimators import choosing
from adaam.rows import BlockRows

X, _ = make_blobs(90, 5, centers=3, random_state=0, cluster_std=1.0)
PHASES = {
    AdaAM: ["preparation", "neighbours", "affinity", "projection"],
    LPP: ["preparation", "affinity", "projection"],
}

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")


@pytest.fixture(params=[AdaAM(3), LPP(2)], ids=["AdaAM", "LPP"])
def model(request):
    return clone(request.param)


def lines_of(model, caplog, level):
    with caplog.at_level(level, logger="adaam"):
        model.fit(X)
    return [record.message for record in caplog.records]


def without_seconds(line):
    return line.rsplit(" (", 1)[0]


def test_a_fit_is_quiet_by_default(model, caplog, capfd):
    assert lines_of(model, caplog, logging.INFO) == []
    assert capfd.readouterr() == ("", "")


def test_the_log_at_debug_names_every_phase_at_its_beginning_and_its_end(model, caplog):
    lines = lines_of(model, caplog, logging.DEBUG)
    name = type(model).__name__
    phases = PHASES[type(model)]
    assert [line for line in lines if line.endswith("...")] == [f"{name} {phase} ..." for phase in phases]
    assert [line.rsplit(" (", 1)[0] for line in lines[1::2]] == [f"{name} {phase}" for phase in phases]
    assert all(line.endswith(" s)") for line in lines[1::2])


def test_verbose_tells_phases_and_their_seconds(model, caplog):
    lines = lines_of(model.set_params(verbose=1), caplog, logging.INFO)
    assert [line.split()[1] for line in lines] == PHASES[type(model)]


def test_verbose_speaks_on_standard_error_where_nobody_listens_to_the_log():
    code = (
        "import numpy as np; from adaam import AdaAM;"
        "AdaAM(2, n_neighbors=9, verbose=1).fit(np.random.default_rng(0).normal(size=(40, 4)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == ""
    assert [line.split()[1] for line in run.stderr.splitlines()] == PHASES[AdaAM]


def test_without_callbacks_of_scikit_learn_everything_still_works():
    """scikit-learn before 1.9 has no module sklearn.callback."""
    code = """
import sys
sys.modules["sklearn.callback"] = None
import numpy as np
sys.modules.pop("adaam.estimators.phases", None)
from adaam import AdaAM, LPP
import adaam.estimators.phases as phases
assert phases._with_callbacks is None and not hasattr(AdaAM, "set_callbacks")
rows = np.random.default_rng(0).normal(size=(40, 4))
print(AdaAM(2, n_neighbors=9).fit_transform(rows).shape, LPP(2).fit_transform(rows).shape)
"""
    try:
        import sklearn.callback  # noqa: F401
    except ImportError:
        pytest.skip("there is no sklearn.callback to hide")
    # scikit-learn itself imports it, so it is hidden from adaam only.
    used = ("base", "cluster", "neighbors", "decomposition", "metrics", "pipeline")
    code = "".join(f"import sklearn.{name}\n" for name in used) + code
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.split("\n")[0] == "(40, 2) (40, 2)", run.stderr


class Recorder:
    """A callback that records its calls."""

    max_propagation_depth = None

    def __init__(self):
        self.told = []
        self.fitted = None

    def setup(self, estimator, context):
        self.told.append(("setup", type(estimator).__name__))

    def on_fit_task_begin(self, estimator, context):
        self.told.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.told.append(("end", context.task_name))
        self.fitted = fitted_estimator or self.fitted

    def teardown(self, estimator, context):
        self.told.append(("teardown", type(estimator).__name__))


@pytest.fixture
def recorder():
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    return Recorder()


def test_callbacks_see_the_phases_as_tasks_of_fit_in_order(model, recorder):
    model.set_callbacks(recorder).fit(X)
    name = type(model).__name__
    inner = [(act, phase) for phase in PHASES[type(model)] for act in ("begin", "end")]
    assert recorder.told == [("setup", name), ("begin", "fit"), *inner, ("end", "fit"), ("teardown", name)]


def test_callbacks_get_a_model_that_can_transform_at_the_end(model, recorder):
    model.set_callbacks(recorder).fit(X)
    np.testing.assert_array_equal(recorder.fitted.transform(X), model.transform(X))


def test_callbacks_are_torn_down_when_a_fit_fails(recorder):
    with pytest.raises(ValueError, match="exceeds the rank"):
        AdaAM(3, n_components=50).set_callbacks(recorder).fit(X)
    assert recorder.told[-1] == ("teardown", "AdaAM")


def test_callbacks_change_nothing_and_leave_nothing_behind(model, recorder):
    plain = clone(model).fit(X)
    model.set_callbacks(recorder).fit(X)
    np.testing.assert_array_equal(model.components_, plain.components_)
    assert set(vars(model)) - set(vars(plain)) == {"_skl_callbacks"}


@pytest.mark.parametrize("rows", [X, BlockRows(lambda: np.array_split(X, 4))], ids=["array", "source"])
def test_a_fit_from_row_blocks_prepares_and_pools(rows, recorder):
    model = AdaAM(3, pairs=RowBlocks(n_rows=30)).set_callbacks(recorder).fit(rows)
    inner = [(act, phase) for phase in ("preparation", "row blocks") for act in ("begin", "end")]
    assert recorder.told[1:-1] == [("begin", "fit"), *inner, ("end", "fit")]
    np.testing.assert_array_equal(recorder.fitted.transform(X), model.transform(X))


@pytest.mark.parametrize("cls", [CAN, PCAN])
def test_iterations_are_tasks(cls, recorder):
    model = cls(3).set_callbacks(recorder).fit(X)
    tasks = [name for act, name in recorder.told if act == "end"]
    assert tasks == [f"iteration {i + 1}" for i in range(model.n_iter_)] + ["fit"]


CANDIDATES = [
    f"candidate {preparation}: {name}"
    for name in ("rows as they are", "AdaAM, 1 column per cluster")
    for preparation in ("unit", "linear")
]


def test_a_search_is_quiet_by_default(caplog, capfd):
    assert lines_of(AdaAMClustering(3), caplog, logging.INFO) == []
    assert capfd.readouterr() == ("", "")


def test_a_search_tells_its_phases_and_what_it_tried_with_verbose_and_at_debug(caplog):
    expected = ["distinct rows", "number of clusters", *CANDIDATES, "search", "partition", "labels"]
    told = lines_of(AdaAMClustering("auto", verbose=1), caplog, logging.INFO)
    assert all(re.fullmatch(r".+ \(\d+\.\d s\)", line) for line in told)
    assert [without_seconds(line) for line in told] == [f"AdaAMClustering {text}" for text in expected]
    caplog.clear()
    logged = lines_of(AdaAMClustering("auto"), caplog, logging.DEBUG)
    assert [without_seconds(line) for line in logged if not line.endswith("...")] == list(map(without_seconds, told))
    begun = [line for line in logged if line.endswith("...")]
    phases = ["distinct rows", "number of clusters", "search", "partition", "labels"]
    assert begun == [f"AdaAMClustering {name} ..." for name in phases]


def test_a_search_on_a_sample_tells_when_all_rows_are_looked_at(caplog, monkeypatch):
    monkeypatch.setattr(choosing, "SEARCH_ROWS", 60)
    told = lines_of(AdaAMClustering(3, verbose=1), caplog, logging.INFO)
    assert [without_seconds(line) for line in told[-3:]] == [
        f"AdaAMClustering {t}" for t in ("search", "partition", "labels")
    ]


def test_callbacks_see_a_search_and_each_candidate_in_it(recorder):
    model = AdaAMClustering("auto").set_callbacks(recorder).fit(X)
    tried = [(act, name) for name in CANDIDATES for act in ("begin", "end")]
    expected = [
        ("setup", "AdaAMClustering"),
        ("begin", "fit"),
        *[(act, name) for name in ("distinct rows", "number of clusters") for act in ("begin", "end")],
        ("begin", "search"),
        *tried,
        ("end", "search"),
        ("begin", "partition"),
        ("end", "partition"),
        ("begin", "labels"),
        ("end", "labels"),
        ("end", "fit"),
        ("teardown", "AdaAMClustering"),
    ]
    assert recorder.told == expected
    np.testing.assert_array_equal(recorder.fitted.predict(X), model.predict(X))


def test_callbacks_of_a_clusterer_see_the_phases_of_its_learner(recorder):
    AdaAMClustering(3, learner=AdaAM(3)).set_callbacks(recorder).fit(X)
    ended = [name for act, name in recorder.told if act == "end"]
    # The fit of the learner takes the place of the phase "metric", under its own name.
    assert ended == ["distinct rows", *PHASES[AdaAM], "fit", "partition", "labels", "fit"]


def test_a_learner_without_callbacks_is_one_phase(recorder):
    AdaAMClustering(3, learner=PreparedMetric()).set_callbacks(recorder).fit(X)
    assert [name for act, name in recorder.told if act == "end"] == [
        "distinct rows",
        "metric",
        "partition",
        "labels",
        "fit",
    ]


def test_callbacks_that_go_everywhere_belong_to_the_clusterer_as_in_pipelines(recorder):
    """scikit-learn's rule for all meta-estimators."""
    with pytest.raises(TypeError, match="Register them directly on the meta-estimator"):
        AdaAMClustering(3, learner=AdaAM(3).set_callbacks(recorder)).fit(X)


def test_callbacks_of_a_clusterer_change_nothing_and_leave_nothing_behind(recorder):
    plain = AdaAMClustering(3).fit(X)
    model = AdaAMClustering(3).set_callbacks(recorder).fit(X)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    assert set(vars(model)) - set(vars(plain)) == {"_skl_callbacks"}


def test_callbacks_are_torn_down_when_a_clustering_fails(recorder):
    with pytest.raises(ValueError, match="exceeds n_samples"):
        AdaAMClustering(500).set_callbacks(recorder).fit(X)
    assert recorder.told[-1] == ("teardown", "AdaAMClustering")


def test_callbacks_reach_through_a_pipeline(recorder):
    pipeline = make_pipeline(StandardScaler(), AdaAM(3)).set_callbacks(recorder)
    pipeline.fit(X)
    assert [name for act, name in recorder.told if act == "end" and name in PHASES[AdaAM]] == PHASES[AdaAM]


def test_the_progress_bar_of_scikit_learn_ends_at_a_hundred_percent(capsys):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    pytest.importorskip("rich")
    AdaAM(3).set_callbacks(callback.ProgressBar()).fit(X)
    assert "100%" in capsys.readouterr().out
    AdaAMClustering(3).set_callbacks(callback.ProgressBar()).fit(X)
    shown = capsys.readouterr().out
    assert shown.count("100%") == 2
    assert "AdaAMClustering - search" in shown
