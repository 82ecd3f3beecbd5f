"""Columns of every kind are turned into numbers, by defaults that are reported or as the user requests."""

import contextlib
import json
import zipfile
from time import perf_counter

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import adaam
from adaam import AdaAMClustering, TableEncoder
from adaam.tables import CellError, TableError, TextForm, frame_of, read_delimited

rng = np.random.default_rng(0)
N = 40


@parametrize_with_checks([TableEncoder()])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture
def table():
    group = np.arange(N) % 2
    return pd.DataFrame(
        {
            "customer_id": np.arange(N) + 1000,
            "income": 1000.0 + 500 * group + rng.normal(size=N),
            "age": np.where(np.arange(N) % 5 == 0, np.nan, 30.0 + 20 * group),
            "city": np.array(["Rom", "Bonn"])[group],
            "member": np.arange(N) % 3 == 0,
            "since": pd.date_range("2020-01-01", periods=N),
            "note": [f"this is note number {i} of many" for i in range(N)],
            "same": 7,
            "gone": None,
        }
    )


def treatments(encoder):
    return {column.name: (column.kind, column.treatment) for column in encoder.columns_}


def test_every_kind_has_its_default(table):
    assert treatments(TableEncoder().fit(table)) == {
        "customer_id": ("id", "left out"),
        "income": ("number", "used"),
        "age": ("number", "used"),
        "city": ("category", "encoded"),
        "member": ("boolean", "encoded"),
        "since": ("date", "left out"),
        "note": ("text", "left out"),
        "same": ("constant", "left out"),
        "gone": ("empty", "left out"),
    }


def test_numbers_are_standardized_and_categories_count_half_where_kinds_are_mixed(table):
    encoder = TableEncoder().fit(table)
    Z = encoder.transform(table)
    variances = Z.var(axis=0)
    names = encoder.get_feature_names_out()
    for name, variance in (("income", 1), ("age", 1), ("city", 1 / 4), ("member", 1 / 4)):
        own = [each for label, each in zip(names, variances, strict=True) if label.split("=")[0] == name]
        assert sum(own) == pytest.approx(variance), name


def test_very_large_numbers_are_standardized_without_overflow():
    frame = pd.DataFrame({"a": [1e300, -1e300, 3e299, 0.0] * 3, "b": ["x", "y", "x", "y"] * 3})
    Z = TableEncoder().fit_transform(frame)
    np.testing.assert_allclose(Z.std(axis=0)[0], 1.0)


def test_a_table_of_numbers_keeps_its_values(table):
    numbers = table[["income"]].assign(other=rng.normal(size=N))
    encoder = TableEncoder().fit(numbers)
    np.testing.assert_array_equal(encoder.transform(numbers), numbers)
    assert encoder.is_identity
    assert not TableEncoder().fit(table).is_identity


def test_what_is_asked_for_wins_over_the_defaults(table):
    encoder = TableEncoder(columns=["income", "customer_id", "since"]).fit(table)
    assert list(encoder.get_feature_names_out()) == ["customer_id", "income", "since"]
    encoder = TableEncoder(kinds={"age": "category", "since": "date"}, drop=["member"]).fit(table)
    assert [name for name in encoder.get_feature_names_out() if name.startswith("age")] == [
        "age=30",
        "age=50",
        "age=(missing)",
    ]
    assert treatments(encoder)["since"] == ("date", "encoded")
    assert treatments(encoder)["member"] == ("dropped", "left out")


def test_words_of_a_text_column_stand_in_place_of_the_others():
    table = pd.DataFrame({"a": rng.normal(size=30), "text": ["red wine", "green tea", "red tea"] * 10})
    encoder = TableEncoder(kinds={"text": "text"}).fit(table)
    Z = encoder.transform(table)
    assert list(encoder.get_feature_names_out()) == ["text:green", "text:wine"], "red and tea are in most rows"
    assert Z.shape == (30, 2)
    assert Z.nnz == 20


def test_new_rows_are_treated_as_the_fitted_ones(table):
    encoder = TableEncoder().fit(table)
    few = table.iloc[[3]][list(reversed(table.columns))].drop(columns=["note", "gone"])
    np.testing.assert_allclose(encoder.transform(few), encoder.transform(table)[[3]])
    with pytest.raises(TableError, match="column 'age' is missing"):
        encoder.transform(few.drop(columns=["age"]))


def test_an_unseen_category_is_none_of_the_known_and_is_told(table):
    encoder = TableEncoder().fit(table)
    new = table.iloc[:2].assign(city=["Köln", "Rom"])
    with pytest.warns(UserWarning, match="column 'city' holds categories that were not seen in fit: 'Köln'"):
        Z = encoder.transform(new)
    at = [name.startswith("city=") for name in encoder.get_feature_names_out()]
    assert (Z[0, at] == 0).all()


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "2,25", "3,0"], [1.5, 2.25, 3.0]),
        (["1.234,5", "2,25", "10.000,0"], [1234.5, 2.25, 10000.0]),
        (["1,234.5", "2.25", "10,000"], [1234.5, 2.25, 10000.0]),
        (["1,234,567", "1,000", "5"], [1234567.0, 1000.0, 5.0]),
        (["1.234.567", "1.000", "5"], [1234567.0, 1000.0, 5.0]),
        (["0,125", "0,250", "1,500"], [0.125, 0.25, 1.5]),
        (["1'234.50", "12.00", "3"], [1234.5, 12.0, 3.0]),
        (["1\u202f234,5", "2,5", "3"], [1234.5, 2.5, 3.0]),
        (["$ 5", "$1,200.50", "$3"], [5.0, 1200.5, 3.0]),
        (["12,34,567.5", "1,00,000", "500"], [1234567.5, 100000.0, 500.0]),
        (["5 %", "7.5%", "\u22123%"], [5.0, 7.5, -3.0]),
        ([" 1e3", "2E-1 ", "+4"], [1000.0, 0.2, 4.0]),
    ],
)
def test_signs_of_numbers_are_found(cells, values):
    frame = pd.DataFrame({"a": cells * 4, "b": rng.normal(size=4 * len(cells))})
    Z = TableEncoder().fit_transform(frame)
    np.testing.assert_allclose(Z[:, 0], values * 4)


def test_numbers_whose_signs_do_not_add_up_are_refused():
    frame = pd.DataFrame({"a": ["1234.567,00", "999.000,50", "5.000,00", "77777.000,00"] * 5})
    with pytest.raises(CellError, match="column 'a' is numeric, but row 1 holds '1234.567,00'"):
        TableEncoder().fit(frame)


@pytest.mark.parametrize(
    ("cells", "value"),
    [(["1.234", "2.500", "3.125"], 1.234), (["1.234", "2.500", "750"], 1234), (["1,234", "2,500", "3,125"], 1.234)],
)
def test_what_semicolons_suggest_of_signs(cells, value):
    text = "a;b\n" + "".join(f"{cell};{i * i}\n" for i, cell in enumerate(cells * 4))
    frame = read_delimited(text.encode(), "t.csv", TextForm())
    assert TableEncoder(columns=["a"]).fit_transform(frame)[0, 0] == value


def test_signs_can_be_given():
    frame = pd.DataFrame({"a": ["1,234", "5,678", "9,012"] * 5, "b": ["1,5"] * 7 + ["2,5"] * 8})
    assert TableEncoder(columns=["a"]).fit_transform(frame)[0, 0] == 1.234, "as in the column beside it"
    given = TableEncoder(columns=["a"], decimal=".", thousands=",").fit_transform(frame)
    assert given[0, 0] == 1234
    with pytest.raises(ValueError, match="also the decimal sign"):
        TableEncoder(decimal=",", thousands=",").fit(frame)


def test_a_cell_that_is_no_number_is_named_with_its_row_and_a_way_out():
    frame = pd.DataFrame({"a": [*map(str, range(20)), "n.k.", *map(str, range(20))]})
    with pytest.raises(CellError, match="column 'a' is numeric, but row 21 holds 'n.k.'; .* --na n.k.,") as error:
        TableEncoder().fit(frame)
    assert error.value.row == 20
    assert TableEncoder(na_values=["n.k."], kinds={"a": "number"}).fit_transform(frame).shape == (41, 1)
    encoder = TableEncoder(kinds={"a": "number"}, na_values=["n.k."]).fit(frame)
    with pytest.raises(CellError, match="column 'a' holds 'x' in row 2, which is not a number"):
        encoder.transform(pd.DataFrame({"a": ["1", "x"]}))
    with pytest.raises(CellError, match="inf"):
        encoder.transform(pd.DataFrame({"a": [1.0, np.inf]}))


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("PassengerId", rng.permutation(N) * 3, "id"),
        ("zip", np.array([53111, 50667] * 20), "number"),
        ("zip", np.array([53111, 50667, 10115, 80331] * 10), "id"),
        ("x", np.arange(N) + 500, "id"),
        ("x", np.arange(N) * 3.0, "id"),
        ("x", rng.permutation(N) * 3, "number"),
        ("humid", rng.permutation(N) * 3, "number"),
        ("x", 10**9 + rng.permutation(10**6)[:N], "id"),
        ("timestamp", 1_700_000_000 + 60 * np.arange(N), "date"),
        ("x", [f"K-{i:04d}" for i in range(N)], "id"),
        ("x", [f"2024-01-{1 + i % 28:02d} 10:00" for i in range(N)], "date"),
        ("x", [f"{1 + i % 28}.{1 + i % 12}.2024" for i in range(N)], "date"),
        ("x", ["1", "2", "3+", "0"] * 10, "category"),
        ("x", ["007", "012", "100", "099"] * 10, "id"),
        ("x", [str(1234567890123456789 + i) for i in range(N)], "id"),
        ("x", ["ja", "nein"] * 20, "boolean"),
        ("x", [True, False] * 20, "boolean"),
        ("label", ["a", "b"] * 20, "classes"),
        ("x", [f"T{i % 30}" for i in range(N)], "category"),
        ("x", ["-", "NA", "", None] * 10, "empty"),
        ("x", [0.5] * N, "constant"),
        ("x", pd.to_timedelta(rng.normal(size=N), unit="h"), "number"),
        ("x", pd.date_range("2024", periods=N, tz="UTC"), "date"),
    ],
)
def test_kinds_are_recognised(name, cells, kind):
    frame = pd.DataFrame({name: cells, "other": rng.normal(size=N)})
    assert TableEncoder().plan(frame)[0].kind == kind


def test_missing_values_can_be_refused_or_their_columns_left_out(table):
    with pytest.raises(TableError, match="column 'age': 8 of 40 values missing, the first in row 1"):
        TableEncoder(missing="error").fit(table)
    assert treatments(TableEncoder(missing="drop").fit(table))["age"] == ("number", "left out")
    complete = TableEncoder(missing="error", columns=["income"]).fit(table)
    with pytest.raises(CellError, match="column 'income' is empty in row 2"):
        complete.transform(pd.DataFrame({"income": [1.0, None]}))


def test_names_that_are_not_in_the_table_are_named(table):
    with pytest.raises(TableError, match="columns names 'Income', but .* Do you mean 'income'?"):
        TableEncoder(columns=["Income"]).fit(table)
    with pytest.raises(ValueError, match="kinds='nonsense'"):
        TableEncoder(kinds={"age": "nonsense"}).fit(table)


def test_many_categories_are_left_out_unless_asked_for():
    frame = pd.DataFrame({"a": [f"T{i % 30} x" for i in range(90)], "b": rng.normal(size=90)})
    assert treatments(TableEncoder().fit(frame))["a"] == ("category", "left out")
    encoder = TableEncoder(columns=["a", "b"], max_categories=5).fit(frame)
    names = list(encoder.get_feature_names_out())
    assert len(names) == 6
    assert "a=(other)" in names
    assert encoder.transform(frame)[:, names.index("a=(other)")].astype(bool).sum() == 90 - 12


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_frames_give_the_same(table, library):
    plain = table.drop(columns=["gone"])
    expected = TableEncoder().fit_transform(plain)
    other = pytest.importorskip("pyarrow").Table.from_pandas(plain)
    if library == "polars":
        other = pytest.importorskip("polars").from_arrow(other)
    np.testing.assert_allclose(TableEncoder().fit_transform(other), expected)


def test_nullable_and_categorical_columns_of_pandas():
    frame = pd.DataFrame(
        {
            "count": pd.array([1, None, 3, 2] * 5, dtype="Int64"),
            "kind": pd.Categorical(["x", None, "y", "x"] * 5),
            "flag": pd.array([True, None, False, True] * 5, dtype="boolean"),
        }
    )
    encoder = TableEncoder().fit(frame)
    assert treatments(encoder) == {
        "count": ("number", "used"),
        "kind": ("category", "encoded"),
        "flag": ("boolean", "encoded"),
    }
    assert [column.n_missing for column in encoder.columns_] == [5, 5, 5]
    assert np.isfinite(encoder.transform(frame)).all()


def test_names_need_not_be_words():
    frame = pd.DataFrame(rng.normal(size=(20, 3))).rename(columns={2: 7})
    encoder = TableEncoder().fit(frame)
    assert list(encoder.get_feature_names_out()) == ["0", "1", "7"]
    np.testing.assert_array_equal(encoder.transform(frame), frame)


def test_columns_of_one_name_are_told_apart():
    frame = pd.DataFrame(rng.normal(size=(20, 3)), columns=["a", "b", "a"])
    encoder = TableEncoder().fit(frame)
    assert list(encoder.get_feature_names_out()) == ["a", "b", "a_2"]
    np.testing.assert_array_equal(encoder.transform(frame), frame)


def test_lists_of_cells_are_tables_too():
    cells = [["a", "1,5"], ["b", "2,5"], ["a", "3,5"], ["b", "4,0"]]
    Z = TableEncoder().fit(cells).transform(cells[:1])
    assert Z.shape == (1, 3)


def test_frames_come_out_when_asked_for(table):
    out = TableEncoder().set_output(transform="pandas").fit_transform(table)
    assert list(out.columns) == ["income", "age", "city=Bonn", "city=Rom", "member"]


@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_a_model_is_kept_with_its_columns_as_plain_data(table, tmp_path):
    pipeline = make_pipeline(TableEncoder(kinds={"age": "number"}), AdaAMClustering(2)).fit(table)
    adaam.save(pipeline, tmp_path / "m.adaam")
    again = adaam.load(tmp_path / "m.adaam")
    np.testing.assert_array_equal(again.predict(table), pipeline.predict(table))
    assert again[0].columns_ == pipeline[0].columns_
    assert again[0].get_params() == pipeline[0].get_params()
    header = json.loads(zipfile.ZipFile(tmp_path / "m.adaam").read("header.json"))
    (_, encoder), _ = [step["tuple"] for step in header["model"]["params"]["steps"]["list"]]
    names = [column["params"]["name"] for column in encoder["fitted"]["columns_"]["tuple"]]
    assert names == list(table.columns)


def test_words_are_kept_with_a_model(tmp_path):
    table = pd.DataFrame({"text": ["red wine", "green tea", "blue tea", "blue wine"] * 10})
    pipeline = make_pipeline(TableEncoder(kinds={"text": "text"}), adaam.PreparedMetric()).fit(table)
    adaam.save(pipeline, tmp_path / "m.adaam")
    np.testing.assert_allclose(adaam.load(tmp_path / "m.adaam").transform(table), pipeline.transform(table))


def test_whatever_a_text_file_holds_is_read_or_refused_with_a_reason():
    """Seeded noise of separators, quotes, signs and words: finite numbers under distinct names, or a TableError."""
    noise = np.random.default_rng(0)
    words = [*",;\t|\n\"'.-#019 e%_", "\r\n", "2020", "abc", "é", "NA", "\u00a0", "€", "true", "1.234,5", "2024-01-01"]
    words += ["12:30", "\x00", "id", "inf", "1e999"]
    n_read = 0
    for _ in range(600):
        width, sep = noise.integers(1, 5), noise.choice(list(",;\t|"))
        cells = [["".join(noise.choice(words[5:], noise.integers(3))) for _ in range(width)] for _ in range(12)]
        text = "\n".join(sep.join(row) for row in cells) if noise.random() < 0.7 else "".join(noise.choice(words, 60))
        try:
            frame = read_delimited(text.encode(), "noise.csv", TextForm())
            encoder = TableEncoder().fit(frame)
        except TableError:
            continue
        n_read += 1
        assert len(set(frame.names)) == len(frame.names)
        assert np.isfinite(encoder.transform(frame)).all()
    assert n_read > 20


@pytest.mark.parametrize(
    "cell", ["1" * 120_000 + "x", "1." * 60_000, "1,.2" * 30_000, "2024-01-01 " * 10_000, "a " * 60_000]
)
def test_a_very_long_cell_takes_no_time(cell):
    """Regular expressions for numbers and dates would take minutes on it."""
    text = "a;b\n" + "".join(f"{cell};{i * 0.5}\n" for i in range(5)) + "1;2\n"
    start = perf_counter()
    with contextlib.suppress(TableError):
        TableEncoder().fit(read_delimited(text.encode(), "t.csv", TextForm()))
    assert perf_counter() - start < 10


def test_own_units_are_numbers_as_written_and_all_else_as_text(table):
    table["price"] = [f"{1000 + i},50 €" for i in range(N)]
    encoder = TableEncoder(drop=["note"]).fit(table)
    found = encoder.own_units(table.iloc[:3])
    assert list(found) == ["customer_id", "income", "age", "city", "member", "since", "price"]
    np.testing.assert_array_equal(found["income"], table["income"][:3])
    assert np.isnan(found["age"][0])
    assert found["age"][1] == 50
    assert found["city"].tolist() == ["Rom", "Bonn", "Rom"]
    assert found["member"].tolist() == ["yes", "no", "no"]
    assert found["since"].tolist() == ["2020-01-01", "2020-01-02", "2020-01-03"]
    assert found["price"].tolist() == [1000.5, 1001.5, 1002.5]


def test_numbers_with_a_unit_keep_it_for_new_rows():
    frame = read_delimited(b"weight,b\n1.5 kg,1\n2 kg,3\n4 kg,5\n", "t", TextForm())
    encoder = TableEncoder().fit(frame)
    assert str(encoder.columns_[0]) == "weight: used (number, in kg)"
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"weight": ["3 kg", "7"], "b": [1, 2]}))[:, 0], [3, 7])
    with pytest.raises(CellError, match=r"holds '300 g' in row 1, which is not a number as the others .* \(in kg\)"):
        encoder.transform(pd.DataFrame({"weight": ["300 g"], "b": [1]}))


def test_a_misspelt_column_of_new_rows_is_named(table):
    encoder = TableEncoder(columns=["income", "age"]).fit(table)
    with pytest.raises(
        TableError, match=r"column 'age' is missing: .*the table has income, AGE\. Rename 'AGE' to 'age'"
    ):
        encoder.transform(pd.DataFrame({"income": [1.0], "AGE": [2.0]}))


def test_a_list_or_struct_of_a_parquet_table_becomes_columns():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"v": [[1.0, 2.0], [3.0, 4.0], None], "s": [{"x": 1, "y": "a"}] * 3, "w": [[1], [1, 2], []]})
    frame = frame_of(table)
    assert frame.names == ("v[0]", "v[1]", "s.x", "s.y", "w")
    np.testing.assert_array_equal(frame.column("v[1]"), [2.0, 4.0, np.nan])
    assert frame.column("w").tolist() == ["[1]", "[1, 2]", "[]"]


def clustered(**columns):
    """Return a frame of these columns, a numeric one and a categorical one."""
    n = len(next(iter(columns.values())))
    return pd.DataFrame(columns | {"v": rng.normal(size=n), "town": ["A", "B"] * (n // 2)})


def test_timestamps_as_text_can_be_used_as_the_message_says():
    frame = clustered(timestamp=[str(1_700_000_000 + 977 * i) for i in range(N)])
    (column, *_) = TableEncoder().plan(frame)
    assert "--number timestamp" in str(column)
    for kind in ("date", "number"):
        encoder = TableEncoder(kinds={"timestamp": kind}).fit(frame)
        first = encoder.transform(frame)[:, 0]
        assert np.ptp(np.diff(first)) < 1e-9
        assert first[-1] > first[0]


@pytest.mark.parametrize(
    "cells",
    [
        [f"{h:02d}:05:00" for h in range(90)],
        [f"{h}:05" for h in range(90)],
        [f"{h // 24} days {h % 24:02d}:05:00" for h in range(90)],
        [f"{h // 24} days, {h % 24}:05:00" if h > 24 else f"{h}:05:00" for h in range(90)],
        [f"PT{h}H5M" for h in range(90)],
        [f"{h} h 5 min" for h in range(90)],
    ],
)
def test_durations_are_left_out_and_used_as_days_where_asked_for(cells):
    frame = clustered(t=cells)
    (column, *_) = TableEncoder().plan(frame)
    assert str(column) == "t: left out (durations; --date t uses them as days)"
    encoder = TableEncoder(kinds={"t": "date"}).fit(frame)
    values = encoder.transform(frame)[:, 0] * encoder.columns_[0].scale + encoder.columns_[0].center
    np.testing.assert_allclose(values, (np.arange(90) + 5 / 60) / 24)


def test_dates_in_several_forms_are_told_before_they_are_asked_for():
    frame = clustered(d=["2024-01-05", "05.01.2024"] * 20)
    assert "in more than one form" in str(TableEncoder().plan(frame)[0])


def test_cells_without_letters_are_no_free_text():
    frame = clustered(phone=[f"+49 30 {i:06d}" for i in range(N)])
    assert TableEncoder().plan(frame)[0].kind == "id"


def test_a_column_of_two_numbers_a_cell_is_not_called_numeric():
    frame = clustered(place=[f"{48 + i / 100:.4f},{11 + i / 70:.4f}" for i in range(N)])
    with pytest.raises(CellError, match="column 'place': row 1 holds '48.0000,11.0000', .* no other cell"):
        TableEncoder().fit(frame)


def test_a_mark_or_nothing_can_be_used_as_a_category():
    frame = clustered(vip=["x", None, None, "x"] * 10)
    assert str(TableEncoder().plan(frame)[0]) == (
        "vip: left out (always 'x' or missing; --category vip uses whether it is there)"
    )
    encoder = TableEncoder(kinds={"vip": "category"}).fit(frame)
    assert list(encoder.get_feature_names_out())[:2] == ["vip=x", "vip=(missing)"]


def test_names_in_options_can_be_pasted_into_a_shell():
    frame = clustered(**{"it's & more": [f"K-{i}" for i in range(N)], "Straße": [f"S-{i}" for i in range(N)]})
    assert "--category Straße uses it" in str(TableEncoder().plan(frame)[1])
    assert """--category 'it'"'"'s & more' uses it""" in str(TableEncoder().plan(frame)[0])


def test_dates_are_read_so_that_they_can_be_sorted():
    frame = clustered(since=[f"{1 + i % 28:02d}.02.2024" for i in range(N)], at=[f"{i % 24}:30" for i in range(N)])
    own = TableEncoder().fit(frame).own_units(frame)
    assert own["since"][0] == "2024-02-01"
    assert own["at"][0] == "0:30"
