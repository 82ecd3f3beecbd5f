"""Every measured figure in the documents comes from the records."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
if not (ROOT / "results" / "records.jsonl.gz").exists():
    pytest.skip("the records are in the repository, not in the source distribution", allow_module_level=True)

spec = importlib.util.spec_from_file_location("figures", ROOT / "benchmarks" / "figures.py")
figures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(figures)

DOCUMENTS = figures.documents()
# Documents in which every measured figure must name its record. Decisions are not among them, since their figures are
# those of their time, nor outputs of programs (benchmarks/results and the like, benchmarks/attack.md), nor pages that
# include another file.
PROSE = [path for path in DOCUMENTS if path.name not in ("changelog.md", "security.md")]
NOT_PROSE = re.compile(
    r"^```.*?^```$|<!-- table:.*?<!-- end of table -->|<!-- quoted -->.*?<!-- end of quotation -->"
    r"|\d[\d,.]*<!-- [^>]+ --> ?(?:%|s|MB|GB|GiB|times)?"
    r"|`[^`\n]+`|\]\([^)]+\)",
    re.DOTALL | re.MULTILINE,
)
MEASURED = re.compile(
    r"(?<![\w.,])\d[\d,]*(?:\.\d+)?"
    r"(?: ?[%×](?! ?\d)| (?:s|ms|seconds?|minutes?|hours?|[kMG]i?B|degrees|times|points)\b)"
    r"|(?<=\| )\**\d+\.\d+\**(?= \|)"
)
# Settings, definitions and sizes that follow from them, which were not measured.
SETTINGS = {
    "benchmarks/README.md": ["32 MiB", "12,800 MB"],
    "benchmarks/large/README.md": ["12 GB", "3 GB"],
    "cluster.md": ["1.5 GB"],
    "engines.md": ["12.8 GB"],
    "faq.md": ["2 %"],
    "how_it_works.md": ["99 %"],
    "production.md": ["2 GB"],
    "clustering.md": ["0.45 times"],
    "tables.md": ["2 %"],
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_figures_and_tables_are_those_of_the_records(document):
    text = document.read_text(encoding="utf-8")
    assert text == figures.refreshed(text), "python benchmarks/figures.py writes them anew"


@pytest.mark.parametrize("document", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_figure_in_the_prose_names_its_record(document):
    name = str(document.relative_to(ROOT)).removeprefix("docs/")
    prose = NOT_PROSE.sub(" ", document.read_text(encoding="utf-8"))
    assert sorted(MEASURED.findall(prose)) == sorted(SETTINGS.get(name, []))


def test_a_figure_that_was_typed_is_found_and_corrected():
    source = "scores dataset=usps method=adaam-clustering average*100"
    (value,) = re.findall(r"\d+\.\d", figures.refreshed(f"0.0<!-- {source} -->"))
    assert float(value) == pytest.approx(figures.value_of(source), abs=0.05)
    assert MEASURED.findall(NOT_PROSE.sub(" ", f"It reaches 93.5 %, or {value}<!-- {source} --> % in 3 minutes.")) == [
        "93.5 %",
        "3 minutes",
    ]
    assert MEASURED.findall("| k-means | 42.4 | **68.4** |") == ["42.4", "**68.4**"]


@pytest.mark.parametrize(
    "source", ["scores dataset=usps average", "results/digits.jsonl classes=10 method=kmeans median"]
)
def test_a_comment_that_names_no_figure_is_an_error(source):
    with pytest.raises(figures.FigureError):
        figures.refreshed(f"1.0<!-- {source} -->")
