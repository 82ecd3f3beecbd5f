"""Plans: what is read, what is refused with which message, and the cases that they expand into."""

import pytest

from adaam.bench.datasets import DATASETS
from adaam.bench.methods import METHODS
from adaam.bench.plan import OWN_PLANS, PlanError, read_plan

SMALL = """
title = "small"
seed = 3
rounds = 4
refits = 2
[experiments.accuracy]
datasets = ["digits"]
methods = ["adaam", "knn", "pcan", "spectral"]
[experiments.accuracy.quick]
methods = ["adaam"]
rounds = 1
[experiments.passes]
datasets = ["digits"]
methods = ["adaam"]
n_iter = [1, 2]
rounds = 9
quick = false
"""


@pytest.fixture
def plan_of(tmp_path):
    def read(text, **options):
        path = tmp_path / "own.toml"
        path.write_text(text)
        return read_plan(path, **options)

    return read


def test_the_papers_plan_is_the_papers_protocol():
    plan = read_plan("paper")
    assert plan.datasets == ("umist", "coil20", "usps", "mnist10k", "exyaleb", "mnist")
    cases = plan.cases
    assert {case.n_starts for case in cases} == {10}
    table1 = [case for case in cases if (case.n_neighbors, case.n_rows, case.n_iter) == (None, None, 1)]
    for dataset in ("umist", "coil20", "usps", "mnist10k", "exyaleb"):
        for method in ("adaam", "knn", "cons-knn", "dn", "clustrf-bi", "pcan-kmeans"):
            rounds = {c.rounds for c in table1 if (c.dataset, c.method, c.kind) == (dataset, method, "score")}
            assert rounds == {100}
        assert {c.rounds for c in table1 if (c.dataset, c.method) == (dataset, "pcan")} == {1}, "labels without chance"
    assert {c.n_iter for c in cases if c.dataset == "usps" and c.method == "adaam"} == {1, 2, 3, 4, 5, 6}
    assert {c.dataset for c in cases if c.n_neighbors} == {"umist", "coil20", "usps", "exyaleb"}
    assert {c.dataset for c in cases if c.n_rows} == {"mnist"}
    assert [c.dataset for c in cases if c.kind == "histogram"] == ["usps"]


@pytest.mark.parametrize("name", OWN_PLANS)
@pytest.mark.parametrize("quick", [False, True])
def test_own_plans_name_what_exists_and_no_case_twice(name, quick):
    plan = read_plan(name, quick=quick)
    assert set(plan.datasets) <= set(DATASETS)
    cases = plan.cases
    assert len({(c.label, c.kind) for c in cases}) == len(cases) > 0


@pytest.mark.parametrize("name", OWN_PLANS)
def test_quick_is_a_small_part(name):
    whole, quick = (read_plan(name, quick=flag) for flag in (False, True))
    assert sum(c.rounds for c in quick.cases) < sum(c.rounds for c in whole.cases) / 5
    assert "adaam-clustering" in {c.method for c in quick.cases}, "the page leads with it"


def test_rounds_follow_the_kind_of_method(plan_of):
    rounds = {(c.method, c.n_iter): c.rounds for c in plan_of(SMALL).cases}
    assert rounds["knn", 1] == 4
    assert rounds["pcan", 1] == 1
    assert rounds["spectral", 1] == 2


def test_a_histogram_has_one_round_whatever_the_plan_says(plan_of):
    text = "rounds = 50\n[experiments.a]\nkind = 'histogram'\ndatasets = ['digits']\nmethods = ['adaam']"
    assert [case.rounds for case in plan_of(text).cases] == [1]


def test_a_case_of_two_experiments_is_run_once_with_the_most_rounds(plan_of):
    cases = [c for c in plan_of(SMALL).cases if c.method == "adaam"]
    assert [(c.n_iter, c.rounds) for c in cases] == [(1, 9), (2, 9)]


def test_quick_overrides_and_leaves_out(plan_of):
    assert [(c.method, c.rounds) for c in plan_of(SMALL, quick=True).cases] == [("adaam", 1)]


def test_narrowing_keeps_the_part_that_is_asked_for(plan_of):
    plan = plan_of(SMALL).narrowed(methods=("knn",), rounds=2)
    assert [(c.method, c.rounds) for c in plan.cases] == [("knn", 2)] * 2  # two preparations
    assert plan_of(SMALL).narrowed(datasets=("usps",)).cases == ()


def test_cases_beyond_the_rows_are_left_out(plan_of):
    text = (
        "[experiments.a]\ndatasets=['digits']\nmethods=['knn', 'mds']\nn_rows=[100, 1000, 5000]\n"
        "preparations=['raw', 'reference']\nmax_rows={mds=500}"
    )
    cases = plan_of(text).cases
    assert [(c.method, c.n_rows) for c in cases] == [("knn", 100), ("knn", 1000), ("mds", 100)]


def test_methods_own_limits_on_rows_hold(plan_of):
    text = "[experiments.a]\ndatasets=['mnist']\nmethods=['mds', 'pca']"
    assert METHODS["mds"].max_rows is not None
    assert [c.method for c in plan_of(text).cases] == ["pca"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "is not TOML"),
        ("title = 'x'", "experiments is missing: a plan needs at least one table"),
        ("sede = 3", "sede = 3: this key is not known; use one of"),
        ("[experiments.a]\nmethods = ['knn']", "experiments.a.datasets is missing: it must be a list"),
        ("[experiments.a]\ndatasets = 'usps'\nmethods = ['knn']", "experiments.a.datasets = 'usps': it must be a list"),
        ("[experiments.a]\ndatasets = [1]\nmethods = ['knn']", "it must be a list of names"),
        ("[experiments.a]\ndatasets = ['usps']\nmethods = ['kn']", "experiments.a.methods = 'kn': use one of adaam"),
        ("[experiments.a]\ndatasets = ['usps']\nmethods = []", "at least one entry"),
        ("[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\nrounds = 0", "rounds = 0: it must be a whole number"),
        ("[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\nrounds = true", "rounds = True: it must be"),
        ("[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\nn_rows = [2.5]", "n_rows = 2.5: it must be a whole"),
        ("[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\nkind = 'pie'", "kind = 'pie': use one of score"),
        ("[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\nkind = 'histogram'", "of AdaAM alone"),
        ("[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\npreparations = ['x']", "preparations = 'x': use one"),
        (
            "[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\nmax_rows = {a = 1}",
            "a.max_rows.a = 1: this key is not known; use one of adaam",
        ),
        ("[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\nmax_rows = 3", "max_rows = 3: it must be a table"),
        ("[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\nquick = 3", "quick = 3: use a table, or false"),
        (
            "[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\n[experiments.a.quick]\nx = 1",
            "a.quick.x = 1: this key",
        ),
        ("[experiments.a]\ndatasets = ['u']\nmethods = ['knn']\n[experiments.a.quick]\nrounds = 0", "rounds = 0"),
        ("experiments = {a = 1}", "experiments.a = 1: it must be a table"),
        ("experiments = 1", "experiments = 1: a plan needs"),
    ],
)
def test_a_fault_is_named_with_its_key_value_and_remedy(plan_of, text, message):
    with pytest.raises(PlanError) as caught:
        plan_of(text)
    assert message in str(caught.value)
    assert "own.toml" in str(caught.value)


def test_a_plan_that_is_not_there_names_the_librarys_own(tmp_path):
    with pytest.raises(PlanError, match="The library's own are paper and digits"):
        read_plan(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="cannot be read"):
        read_plan(tmp_path / "binary.toml")
