"""Awkward tables as they occur in practice, made from a seed, each with the expected outcome."""

import gzip
import io
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

N = 60  # rows, in three groups of twenty that the numbers alone separate
GROUP = np.repeat([0, 1, 2], N // 3)
NAMES = ("Anna", "Jörg", "Zoë", "Mia", "Renée")


@dataclass(frozen=True)
class Awkward:
    """A file, the options that a user adds, and the expected outcome."""

    name: str  # of the file
    content: bytes
    options: tuple[str, ...] = ()
    finds_groups: bool = True
    told: tuple[str, ...] = ()  # parts of the messages on standard error
    fails: bool = False
    header: str | None = None  # first line of the output
    stdin: bool = field(default=False)
    chooses: bool = False  # the metric is chosen, not given


def numbers(seed=0, columns=4, scale=1.0):
    """Three groups in a few columns."""
    rng = np.random.default_rng(seed)
    centers = rng.permuted(np.array([[0.0, 8.0, 16.0]] * columns), axis=1).T
    return (centers[GROUP] + rng.normal(size=(N, columns))) * scale + 20


def text(rows, names=None, sep=",", end="\n", encoding="utf-8"):
    lines = [sep.join(map(str, row)) for row in rows]
    return (end.join([sep.join(names), *lines] if names else lines) + end).encode(encoding)


def rounded(X, digits=2):
    return [[f"{value:.{digits}f}" for value in row] for row in X]


def german(value, digits=2):
    return f"{value:,.{digits}f}".replace(",", "_").replace(".", ",").replace("_", ".")


def beside(*columns):
    return [list(row) for row in zip(*columns, strict=True)]


def excel(rows, sheets=("Data",), title=None):
    openpyxl = __import__("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = sheets[0]
    for line in ([[title], []] if title else []) + rows:
        sheet.append(line)
    for name in sheets[1:]:
        book.create_sheet(name).append(["nothing"])
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def parquet(columns):
    pa, pq = __import__("pyarrow"), __import__("pyarrow.parquet").parquet
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def titanic():
    rng = np.random.default_rng(1)
    X = numbers(1, 3)
    age = ["" if rng.random() < 0.2 else f"{value:.0f}" for value in X[:, 0]]
    names = [
        f'"{surname}, Mr. {name} the {i}th"'
        for i, (surname, name) in enumerate(zip(NAMES * 12, NAMES * 12, strict=True))
    ]
    cabins = [f"C{i}" if i % 5 == 0 else "" for i in range(N)]
    sexes, ports = np.array(["male", "female", "male"])[GROUP], np.array(["S", "C", "Q"])[GROUP]
    rows = beside(range(1, N + 1), GROUP + 1, names, sexes, age, rounded(X[:, 1:2]), cabins, ports)
    rows = [[*row[:5], row[5][0], *row[6:]] for row in rows]
    return text(rows, ["PassengerId", "Pclass", "Name", "Sex", "Age", "Fare", "Cabin", "Embarked"])


def bank():
    rng = np.random.default_rng(2)
    X = numbers(2, 2, 1000)
    jobs = np.array(["admin.", "services", "retired"])[GROUP]
    loans = np.array(["no", "yes", "no"])[GROUP]
    housing = np.where(rng.random(N) < 0.5, "yes", "no")
    rows = beside(X[:, 0].round().astype(int), jobs, loans, housing, X[:, 1].round().astype(int))
    quoted = [[cell if isinstance(cell, (int, np.integer)) else f'"{cell}"' for cell in row] for row in rows]
    return text(quoted, ['"balance"', '"job"', '"loan"', '"housing"', '"duration"'], ";")


def sensor():
    X = rounded(numbers(3, 3))
    stamps = [f"2024-05-{1 + i // 24:02d}T{i % 24:02d}:00:00Z" for i in range(N)]
    return text(
        [[stamp, *row, "OK"] for stamp, row in zip(stamps, X, strict=True)], ["time", "t1", "t2", "t3", "status"]
    )


def with_missing(share, mark="", seed=4):
    rng = np.random.default_rng(seed)
    X = rounded(numbers(seed, 6))
    return text([[mark if rng.random() < share else cell for cell in row] for row in X], list("abcdef"))


def plain(names=("a", "b", "c", "d"), **options):
    return text(rounded(numbers()), list(names), **options)


def tables() -> list[Awkward]:
    """Return all tables."""
    X = numbers()
    cells = rounded(X)
    german_rows = [[german(value * 100) for value in row] for row in X]
    a = []

    def add(name: str, content: bytes, *options: str, **more: Any) -> None:
        a.append(Awkward(name, content, options, **more))

    # Common tables.
    add(
        "titanic.csv",
        titanic(),
        told=(
            "PassengerId: left out (id",
            "Name: left out (free text",
            "Age: used, imputed",
            "Sex: encoded (2 categories",
            "Cabin: left out",
        ),
        header="PassengerId,cluster",
    )
    species = np.array(["setosa", "versicolor", "virginica"])[GROUP]
    iris = text(
        [[*row, kind] for row, kind in zip(cells, species, strict=True)],
        ["sepal length", "sepal width", "petal length", "petal width", "species"],
    )
    add("iris.csv", iris, told=("species: left out (named like known classes",))
    add("iris_truth.csv", iris, "--truth", "species", told=("accuracy 100.0%",))
    add("bank.csv", bank(), told=("job: encoded (3 categories", "loan: encoded (boolean", "separated by semicolons"))
    add("sensor.csv", sensor(), told=("time: left out (dates; --date time", "status: left out (constant"))
    # Excel and its exports.
    header = ["kunde", "umsatz", "menge", "preis", "rabatt"]
    sheet = [header, *([f"K{i:03d}", *map(float, row)] for i, row in enumerate(X))]
    add("report.xlsx", excel(sheet), told=("kunde: left out (id",), header="kunde,cluster")
    add(
        "titled.xlsx",
        excel(sheet, ("Daten", "Notes"), "Umsatz 2024"),
        told=("1 line above the table left out: 'Umsatz 2024'", "other sheets are left out: Notes"),
        header="kunde,cluster",
    )
    add(
        "german.csv",
        text([[f"K{i}", *row] for i, row in enumerate(german_rows)], header, ";", "\r\n", "cp1252"),
        told=("umsatz: used (number, decimal comma, point between thousands)",),
        header="kunde,cluster",
    )
    add("bom.csv", plain(encoding="utf-8-sig"), told=("  a: used (number)",))
    add("utf16.csv", plain(sep="\t", encoding="utf-16"), told=("separated by tabs",))
    add(
        "sepline.csv",
        b"sep=;\r\n" + text([[german(v) for v in row] for row in X], list("abcd"), ";", "\r\n"),
        told=("a: used (number, decimal comma)",),
    )
    add(
        "latin1.csv",
        text(
            [[*row, NAMES[i % 5]] for i, row in enumerate(cells)], ["größe", "b", "c", "d", "name"], encoding="latin-1"
        ),
        "--drop",
        "name",
        told=("größe: used (number)", "read as Windows-1252"),
    )
    # Headers.
    add("years.csv", plain(("2018", "2019", "2020", "2021")), told=("2018: used", "taken as column names"))
    add(
        "country_years.csv",
        text([[f"Land{i}", *row] for i, row in enumerate(cells)], ["country", "2018", "2019", "2020", "2021"]),
        told=("country: left out (id", "2021: used"),
        header="country,cluster",
    )
    add("no_header.csv", text(cells), told=("x0: used", "without a header"))
    add("first_cell_empty.csv", text([["", *cells[0][1:]], *cells[1:]]), told=("60 rows", "x0: used, imputed"))
    add(
        "twice.csv",
        plain(("a", "b", "a", "c")),
        told=("columns 1 and 3 are both named 'a'; the second is called 'a_2'",),
    )
    add(
        "one_too_many.csv",
        plain(("a", "b", "c", "d", "e")),
        fails=True,
        told=("the header (line 1) names 5 columns, but rows have 4 cells",),
    )
    add(
        "r_export.csv",
        text([[f'"{i}"', *row] for i, row in enumerate(cells, 1)], ["a", "b", "c", "d"]),
        told=("taken as row names",),
        header="row_names,cluster",
    )
    add(
        "pandas_index.csv",
        text([[i, *row] for i, row in enumerate(cells)], ["", "a", "b", "c", "d"]),
        told=("column_1: left out (id",),
        header="column_1,cluster",
    )
    add("savetxt.csv", b"# " + plain(), told=("  a: used (number)",))
    # Rows.
    hashed = [row.copy() for row in cells]
    hashed[7][0] = f"#{hashed[7][0]}"
    add(
        "hash.csv",
        text(hashed, list("abcd")),
        fails=True,
        told=("column 'a' is numeric, but row 8 (line 9) holds '#", "--na"),
    )
    add("comments.csv", b"# station 12\n# 2024\n" + plain(), "--comment", "#", told=("60 rows",))
    above = "1 line above the table left out: 'exported by tool'"
    add("preamble.csv", b"exported by tool\n\n" + plain(), told=("60 rows", above, "a: used (number)"))
    add("padded_title.csv", b"exported by tool,,,\n,,,\n" + plain(), told=("60 rows", above, "a: used (number)"))
    add(
        "title_of_two_cells.csv",
        b"Sales, by region\n" + plain(),
        told=("1 line above the table left out: 'Sales, by region'",),
    )
    add(
        "station.csv",
        b"Station;12\nExport;01.05.2024\n\n" + text([[german(v) for v in row] for row in X], list("abcd"), ";"),
        told=(
            "2 lines above the table left out: 'Station; 12' to 'Export; 01.05.2024'",
            "a: used (number, decimal comma",
        ),
    )
    add("short_first_row.csv", b"5.1\n" + text(cells), fails=True, told=("line 1 has 1 cell, other rows have 4",))
    add("skipped.csv", b"exported by tool\n\n" + plain(), "--skip", "2", told=("60 rows",))
    add(
        "ragged.csv",
        text([*cells[:30], cells[30][:3], *cells[31:]], list("abcd")),
        fails=True,
        told=("line 32 has 3 cells, other rows have 4",),
    )
    add(
        "trailing.csv",
        text([[*row, ""] for row in cells], ["a", "b", "c", "d", ""]),
        told=("column_5: left out (no values",),
    )
    quoted = [[*row, f'"line one\nline two of {i}, ""quoted"""'] for i, row in enumerate(cells)]
    add("newlines.csv", text(quoted, [*"abcd", "note"]), told=("60 rows", "note: left out (free text"))
    add(
        "total_row.csv",
        text([*cells, ["Total", *cells[0][1:]]], list("abcd")),
        fails=True,
        told=("column 'a' is numeric, but row 61 (line 62) holds 'Total'", "--drop a"),
    )
    add("empty_rows.csv", plain() + b",,,\n,,,\n", told=("60 rows", "empty rows at the end are left out: 2"))
    gone = [*cells[:30], ["", "", "", ""], *cells[31:]]
    add("empty_row.csv", text(gone, list("abcd")), told=("60 rows", "1 of 60 values missing"), finds_groups=False)
    add(
        "one_column.txt",
        text([[row[0]] for row in cells[:20]] + [[""]] + [[row[0]] for row in cells[21:]], ["a"]),
        told=("60 rows, 1 column", "1 of 60 values missing"),
        finds_groups=False,
    )
    add("name_lost.csv", text(cells, ["a", "b", "c"]), fails=True, told=("names 3 columns, but rows have 4 cells",))
    add("years.xlsx", excel([[2018, 2019, 2020, 2021], *X.tolist()]), told=("2018: used", "60 rows"))
    add("crlf_blank.csv", plain(end="\r\n") + b"\r\n\r\n", told=("60 rows",))
    add("spaces.txt", text(cells, list("abcd"), "   "), told=("separated by blanks",))
    add("bars.txt", plain(sep="|"), told=("separated by bars",))
    # Columns.
    thousand = [[f'"{value * 1000:,.0f}"' for value in row] for row in X]
    add("thousands.csv", text(thousand, list("abcd")), told=("a: used (number, comma between thousands)",))
    add(
        "swiss.csv",
        text([[f"{value * 1000:,.2f}".replace(",", "'") for value in row] for row in X], list("abcd"), ";"),
        told=("apostrophe between thousands",),
    )
    add(
        "money.csv",
        text(
            [
                [f"${value:.2f}", f"{other:.1f}%", *rest]
                for (value, other), rest in zip(X[:, :2], [r[2:] for r in cells], strict=True)
            ],
            list("abcd"),
        ),
        told=("a: used (number)", "b: used (number)"),
    )
    add("missing30.csv", with_missing(0.3), finds_groups=False, told=("filled with the median",))
    add("unknown_mark.csv", with_missing(0.05, "n.k."), fails=True, told=("holds 'n.k.'", "--na n.k."))
    add("known_mark.csv", with_missing(0.05, "n.k."), "--na", "n.k.", told=("filled with the median",))
    add("sentinel.csv", with_missing(0.05, "-999"), "--na", "-999", told=("filled with the median",))
    add(
        "all_missing.csv",
        text(
            [[*row, "NA", "7", "TRUE" if i % 2 else "FALSE"] for i, row in enumerate(cells)],
            [*"abcd", "gone", "same", "flag"],
        ),
        told=("gone: left out (no values", "same: left out (constant: always 7)", "flag: encoded (boolean"),
    )
    add("drop_rows.csv", with_missing(0.02), "--missing", "drop-rows", told=("rows with missing values are left out",))
    add(
        "ids.csv",
        text([[100000 + 7 * i, *row] for i, row in enumerate(cells)], ["customer", *"abcd"]),
        told=("customer: left out (id: it rises",),
        header="customer,cluster",
    )
    add(
        "chosen.csv",
        titanic(),
        "--columns",
        "Pclass,Fare",
        "--category",
        "Pclass",
        told=("Pclass: encoded (3 categories", "Age: left out (not among"),
        header="PassengerId,cluster",
    )
    add(
        "records.jsonl",
        "".join(
            json.dumps({"id": i, **dict(zip("abcd", map(float, row), strict=True)), "tag": "xyz"[GROUP[i]]}) + "\n"
            for i, row in enumerate(X)
        ).encode(),
        told=("tag: encoded (3 categories",),
        header="id,cluster",
    )
    add(
        "mixed.parquet",
        parquet(
            {
                "key": [f"k{i}" for i in range(N)],
                "a": X[:, 0],
                "b": [None if i == 3 else float(v) for i, v in enumerate(X[:, 1])],
                "kind": list(species),
            }
        ),
        told=("b: used, imputed", "kind: encoded"),
        header="key,cluster",
    )
    words = ("delivery late parcel lost", "price refund money charged", "screen battery phone broken")
    said = [words[group].split() for group in GROUP]
    notes = [[i, f"{each[i % 4]} {each[(i + 1) % 4]} {each[(i + 2) % 4]} case"] for i, each in enumerate(said)]
    add(
        "complaints.tsv",
        text(notes, ["id", "note"], "\t"),
        "--text",
        "note",
        told=("note: encoded (text: 12 words",),
        header="id,cluster",
    )
    add("piped.csv", plain(sep=";"), stdin=True, told=("standard input: 60 rows",))
    # Nothing to cluster.
    add(
        "only_text.csv",
        text([[f"K{i}", f"2024-01-{1 + i % 28:02d}"] for i in range(N)], ["key", "day"]),
        fails=True,
        told=("no column is left to use", "--date day"),
    )
    add("header_only.csv", b"a,b,c\n", fails=True, told=("no rows below",))
    add("picture.csv", b"\x89PNG\r\n\x00\x00", fails=True, told=("is not text",))
    add("unclosed.csv", plain() + b'"1,2,3,4\n', fails=True, told=("line 62",))
    a += more_tables(X, cells)
    return a


def more_tables(X: Any, cells: list[list[str]]) -> list[Awkward]:
    """Return tables as they are exported, joined, compressed or measured."""
    a = []

    def add(name: str, content: bytes, *options: str, **more: Any) -> None:
        a.append(Awkward(name, content, options, **more))

    add(
        "joined.csv",
        text([*cells[:30], list("abcd"), *cells[30:]], list("abcd")),
        told=("rows that repeat the header are left out: 1, the first in line 32", "a: used (number)"),
    )
    named = [[f"r{i}", *row] for i, row in enumerate(cells)]
    sums = [f"{value:.2f}" for value in X.sum(axis=0)]
    add(
        "sums.csv",
        text([*named, ["Total", *sums]], ["name", *"abcd"]),
        told=("the last row (line 62) says 'Total' and sums up the others: left out",),
        header="name,cluster",
    )
    add("sums_blank.csv", text([*cells, ["", "", "Sum", sums[3]]], list("abcd")), told=("says 'Sum'",))
    means = ["Mean", *map(float, X.mean(axis=0))]
    sheet = [["name", *"abcd"], *([f"r{i}", *map(float, row)] for i, row in enumerate(X)), means]
    add("means.xlsx", excel(sheet), told=("says 'Mean'",), header="name,cluster")
    dates = [
        (f"2024-01-{i % 28 + 1:02d}", f"{i % 28 + 1:02d}.02.2024", f"{i % 12 + 1}/{i % 28 + 1}/2024")[i % 3]
        for i in range(N)
    ]
    mixed_dates = text(beside(dates, *zip(*cells, strict=True)), ["when", *"abcd"])
    add("mixed_dates.csv", mixed_dates, told=("when: left out (dates",))
    add(
        "used_dates.csv",
        mixed_dates,
        "--date",
        "when",
        fails=True,
        told=("column 'when' should be dates, but row 2 holds '02.02.2024'", "Write all dates in one form"),
    )
    paid = [[f'"${v[0] * 1000:,.2f}"', f"€{v[1]:.2f}", f"{v[2]:.2f} EUR", f"(£{v[3]:.2f})"] for v in X]
    add("currencies.csv", text(paid, list("abcd")), told=("comma between thousands", "d: used (number)"))
    powers = [[f"{value:.3e}".replace(".", ",") for value in row] for row in X * 1e5]
    add("powers.csv", text(powers, list("abcd"), ";"), told=("a: used (number, decimal comma)",))
    weighed = [[f"{row[0]} kg", f"{row[1]}cm", *row[2:]] for row in cells]
    add("units.csv", text(weighed, list("abcd")), told=("a: used (number, in kg)", "b: used (number, in cm)"))
    two_units = [[f"{row[0]} {'kg' if i % 2 else 'g'}", *row[1:]] for i, row in enumerate(cells)]
    add(
        "two_units.csv",
        text(two_units, list("abcd")),
        fails=True,
        told=("column 'a' holds numbers in g and kg, as in row 1 (line 2): '37.30 g'", "--drop a"),
    )
    two_rows = "the first two rows are taken as column names, such as"
    add(
        "units_row.csv",
        text([["[m]", "kg", "", "V"], *cells], list("abcd")),
        told=(f"{two_rows} 'a (m)'; --header yes", "a (m): used (number)", "c: used (number)"),
    )
    add(
        "unit_alone.csv",
        text([["", "kg"], *([f"K{i}", row[0]] for i, row in enumerate(cells))], ["key", "a"]),
        told=("a (kg): used (number)",),
        finds_groups=False,
        header="key,cluster",
    )
    add(
        "word_below_name.csv",
        text([["K0", "lost"], *([f"K{i}", row[0]] for i, row in enumerate(cells[1:], 1))], ["key", "a"]),
        fails=True,
        told=("column 'a' is numeric, but row 1 (line 2) holds 'lost'",),
    )
    add(
        "units_row_refused.csv",
        text([["m", "kg", "s", "V"], *cells], list("abcd")),
        "--header",
        "yes",
        fails=True,
        told=("column 'a' is numeric, but row 1 (line 2) holds 'm'", "--skip N"),
    )
    grouped = [["Cu", "Zn", "mean", "last"], *cells]
    add(
        "groups.csv",
        b"Measured 2024,,,\n" + text(grouped, ["Metals", "", "Rain", ""]),
        told=("1 line above the table", f"{two_rows} 'Metals Cu'", "Metals Zn: used (number)", "Rain last: used"),
    )
    years = [["", "2019", "2020", "2019", "2020"], *([f"L{i}", *row] for i, row in enumerate(cells))]
    add(
        "grouped_years.csv",
        text(years, ["Country", "Population", "", "GDP", ""]),
        told=("60 rows", f"{two_rows} 'Population 2019'", "GDP 2020: used (number)"),
        header="Country,cluster",
    )
    add(
        "footnotes.csv",
        plain() + b"\nSource: office of statistics\n* preliminary\n",
        told=("60 rows", "2 lines below the table left out: 'Source: office of statistics' to '* preliminary'"),
    )
    add(
        "footnotes.xlsx",
        excel([list("abcd"), *X.tolist(), [], ["Source: office of statistics"]]),
        told=("60 rows", "1 line below the table left out: 'Source: office of statistics'"),
    )
    known = [*([f"K{i}", *row] for i, row in enumerate(cells[:-1])), ["K59", "", "", "", ""]]
    add(
        "last_row_unknown.csv",
        text(known, ["key", *"abcd"]),
        told=("60 rows", "1 of 60 values missing"),
        header="key,cluster",
    )
    limits = [[("<" if i % 9 == 0 else "") + row[0], *row[1:]] for i, row in enumerate(cells)]
    add(
        "limits.csv",
        text(limits, list("abcd")),
        told=(f"a: used (number; 7 of 60 values below a limit, such as {limits[0][0]}, are taken as half of it",),
    )
    known = [[*row, "<0,5" if i % 7 == 0 else ">100" if i % 7 == 1 else f"1,{i:02d}"] for i, row in enumerate(cells)]
    known = [[cell.replace(".", ",") for cell in row] for row in known]
    add(
        "german_limits.csv",
        text(known, list("abcde"), ";"),
        told=(
            "e: used (number, decimal comma; 9 of 60 values below a limit, such as <0,5, are taken as half of it; "
            "9 of 60 values above a limit, such as >100, are taken as the limit; --na '<0,5' treats",
        ),
        finds_groups=False,
    )
    bands = [["<40" if GROUP[i] else ">40", *row] for i, row in enumerate(cells)]
    add("bands.csv", text(bands, ["age", *"abcd"]), told=("age: encoded (2 categories",))
    add("packed.csv.gz", gzip.compress(plain()), told=("60 rows, 4 columns", "a: used (number)"))
    add("packed.zip", gzip.compress(plain()), fails=True, told=("Unpack it first; .csv.gz is read",))
    add("rows.feather", b"ARROW1", fails=True, told=(".feather files are not read. Save the table as .parquet",))
    add("damaged.csv.gz", gzip.compress(plain())[:-20], fails=True, told=("cannot be read",))
    add(
        "readme_first.xlsx",
        excel([["See the other sheet"]], ("Readme", "Data")),
        fails=True,
        told=("sheet 'Readme' holds column names, but no rows", "--sheet NAME: Data"),
    )
    merged = [["2023", None, "2024", None], ["h1", "h2", "h1", "h2"], *X.tolist()]
    add("merged.xlsx", excel(merged), told=("such as '2023 h1'", "2023 h2: used (number)", "2024 h1: used (number)"))
    add("titled_merged.xlsx", excel(merged, title="Sales"), told=("1 line above the table", "2024 h2: used (number)"))
    add("below_merged.xlsx", excel(merged), "--skip", "1", told=("the second is called 'h1_2' here",))
    worked_out = [["a", "b", "sum"], *([*map(float, row[:2]), f"=A{i}+B{i}"] for i, row in enumerate(X, start=2))]
    add(
        "formulas.xlsx",
        excel(worked_out),
        told=("column 'sum' holds formulas without stored values; open the file", "sum: left out (no values"),
    )
    nested = [
        {"user": {"id": i, "city": ("Rome", "Oslo")[i % 2]}, "m": dict(zip("ab", map(float, row[:2]), strict=True))}
        for i, row in enumerate(X)
    ]
    lines = "\n".join(map(json.dumps, nested)).encode()
    add(
        "nested.jsonl",
        lines,
        told=("user.city: encoded (2 categories", "m.a: used (number)"),
        finds_groups=False,
        header="user.id,cluster",
    )
    add(
        "list.json",
        json.dumps(nested).encode(),
        "--columns",
        "m.a,m.b",
        told=("m.b: used (number)",),
        header="user.id,cluster",
    )
    add("vectors.parquet", parquet({"emb": X.tolist()}), told=("60 rows, 4 columns", "emb[0]: used (number)"))
    spans = [timedelta(hours=float(value)) for value in X[:, 0]]
    kinds = {"a": X[:, 1], "took": spans, "when": [datetime(2024, 1, 1) + timedelta(days=i) for i in range(N)]}
    add("spans.parquet", parquet(kinds), told=("took: used (number)", "when: left out (dates"))
    add(
        "wide.csv",
        text(rounded(numbers(columns=45)), [f"g{j}" for j in range(45)]),
        told=("45 columns of kind",),
        chooses=True,
    )
    yes = [["yes" if GROUP[i] else "no", "Y" if GROUP[i] == 1 else "N", *row[:2]] for i, row in enumerate(cells)]
    add("yes_no.csv", text(yes, list("abcd")), told=("a: encoded (boolean, yes as 1", "b: encoded (boolean, Y as 1"))
    said = ("the cat sat on the mat", "stocks fell in trading", "a goal in the last minute")
    add(
        "all_text.csv",
        text([[f"{said[group]} {i}", f"{said[group]} {i + 7} again"] for i, group in enumerate(GROUP)], ["t", "u"]),
        fails=True,
        told=("no column is left to use", "--text t uses its words"),
    )
    add("one_row.csv", b"a,b,c\n1,2,3\n", fails=True, told=("one_row.csv: holds 1 row; clustering needs",))
    add("alike.csv", text([["1.5", "2.5"]] * N, list("ab")), fails=True, told=("no column is left", "always 1.5"))
    add("empty.csv", b"", fails=True, told=("empty.csv: is empty",))
    add("login.csv", b"<!DOCTYPE html><html>sign in</html>", fails=True, told=("is a web page or XML, not a table",))
    infinite = [["inf" if i == 5 else row[0], *row[1:]] for i, row in enumerate(cells)]
    add("infinite.csv", text(infinite, list("abcd")), fails=True, told=("row 6 (line 7) holds 'inf'", "--na inf"))
    return a
