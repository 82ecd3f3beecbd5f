"""The code and commands in the documentation run, and its claims are supported."""

import logging
import re
import shlex
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import adaam
from adaam import AdaAM
from adaam.cli import build_parser
from shown_output import python_output, same_output

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.glob("*.md") if "```python\n" in page.read_text())
TUTORIALS = sorted((DOCS / "tutorials").glob("plot_*.py"))


@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt = pytest.importorskip("matplotlib.pyplot")
    if "onnx" in page.read_text() and page.name == "production.md":
        pytest.importorskip("onnx")
        pytest.importorskip("skops")
    if page.name == "cluster.md":
        pytest.importorskip("distributed")
        pytest.importorskip("zarr")
    try:
        for shown, output in python_output(page):
            assert same_output(shown, output), f"python tests/shown_output.py docs/{page.name} writes:\n{output}"
    finally:
        plt.close("all")
        logging.getLogger("adaam").setLevel(logging.NOTSET)


def shown_commands():
    """Yield the adaam command lines of README and pages: those in shell blocks, and inline ones with arguments."""
    for page in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]:
        text = page.read_text()
        shell = "\n".join(re.findall(r"^```bash\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE))
        lines = re.findall(r"^(?:\w+=\S+ )?(?:\.venv/bin/)?adaam (.+)$", shell, flags=re.MULTILINE)
        inline = re.findall(r"`adaam ([^`]* [^`]*)`", text)
        for line in lines + inline:
            if "..." not in line:
                yield page.name, line


@pytest.mark.parametrize(("page", "line"), list(shown_commands()))
def test_every_command_line_that_is_shown_can_be_given(page, line, capsys):
    """Regression: the page on the paper showed a command without its required argument."""
    arguments = build_parser().parse_args(shlex.split(line, comments=True))
    assert callable(arguments.run)


def test_every_claim_in_the_table_of_peers_names_a_file_that_shows_it():
    data = tomllib.loads((DOCS / "peers.toml").read_text(encoding="utf-8"))
    assert len(data["feature"]) == 27
    for row in data["feature"]:
        assert len(row["peers"]) == len(data["peers"])
        if row["proof"]:
            assert (ROOT / row["proof"]).exists(), row["name"]
        else:
            assert row["ours"] in ("–", "yes"), row["name"]
    for row in data["neighbour_feature"]:
        assert len(row["peers"]) == len(data["neighbours"])


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api" / "index.md").read_text(), flags=re.MULTILINE))
    public = set(adaam.__all__) - {"__version__", "rows", "scores"}
    for module in ("scores", "scorers", "export"):
        public |= {f"{module}.{name}" for name in __import__(f"adaam.{module}", fromlist=["x"]).__all__}
    public |= set(adaam.displays.__all__)
    assert public <= listed, public - listed


def test_every_page_is_on_the_site():
    """Pages missing from every toctree would only be found by chance."""
    listed = set()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), flags=re.DOTALL):
            listed |= {line.strip() for line in block.splitlines()}
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert pages <= listed, pages - listed


@pytest.mark.parametrize("library", ["faiss", "hnswlib"])
def test_recipes_for_vector_search_give_the_learned_distance(library, monkeypatch):
    pytest.importorskip(library)
    monkeypatch.syspath_prepend(str(DOCS / "snippets"))
    recipe = __import__(f"index_{library}")
    X = load_digits().data
    stored, queries = X[:1200], X[1200:1230]
    metric = AdaAM(10, n_neighbors=12).fit(stored)
    distances, indices = recipe.query(metric, recipe.build(metric, stored), queries, k=5)
    pairs = np.stack([np.repeat(queries, 5, axis=0), stored[indices.ravel()]], axis=1)
    np.testing.assert_allclose(distances.ravel(), metric.pair_distance(pairs), atol=1e-3 * distances.max())
    Z, z = metric.transform(stored), metric.transform(queries)
    exact = np.argsort(((z[:, None, :] - Z) ** 2).sum(axis=2), axis=1)[:, :5]
    shared = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(indices, exact, strict=True)])
    assert shared > (0.99 if library == "faiss" else 0.9)
    sys.modules.pop(f"index_{library}", None)


def test_every_gallery_example_has_its_place_and_ends_in_a_figure(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    order = __import__("gallery_order").ORDER
    examples = sorted((ROOT / "examples").glob("plot_*.py"))
    assert sorted(order) == sorted(path.name for path in [*examples, *TUTORIALS])
    for path in examples:
        assert path.read_text().rstrip().endswith("plt.show()"), path.name
    sys.modules.pop("gallery_order", None)


def test_every_function_whose_code_a_page_shows_exists(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    module = __import__("code_of")
    named = re.findall(r"^```{code-of} (\S+) (\S+)$", (DOCS / "how_it_works.md").read_text(), flags=re.MULTILINE)
    assert len(named) >= 6
    for path, name in named:
        assert module.body_of(module.SOURCE / path, name), name
    sys.modules.pop("code_of", None)


def test_the_tutorials_cover_each_kind_of_data():
    assert {path.stem for path in TUTORIALS} == {
        *("plot_table", "plot_sentences", "plot_text", "plot_images", "plot_layers")
    }


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_built_tutorial_shows_figures_and_output(path):
    page = DOCS / "_build" / "html" / "auto_tutorials" / f"{path.stem}.html"
    if not page.exists():
        pytest.skip("the documentation has not been built; .ci/docs does it and runs this")
    text = page.read_text(encoding="utf-8")
    figures = len(re.findall(r'<img [^>]*src="\.\./_images/sphx_glr_' + path.stem, text))
    outputs = text.count("sphx-glr-script-out")
    assert figures >= 2, figures
    assert figures + outputs >= 6, (figures, outputs)


def test_output_is_the_same_up_to_rounding_and_no_further():
    assert same_output("9 of 10 directions\n  5.31 8.0\n", "9 of 10  directions\n  5.29 8.1\n")
    assert not same_output("9 of 10 directions", "7 of 10 directions")
    assert not same_output("9 of 10 directions", "9 of 10 rows")
