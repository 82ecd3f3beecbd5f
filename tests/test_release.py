"""Facts about a release that are written in several places agree."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import adaam

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text_of(name):
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is not part of this copy")
    return path.read_text(encoding="utf-8")


def floors():
    return dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", entry).groups() for entry in PROJECT["dependencies"])


def test_the_version_is_the_same_everywhere():
    assert "version" in PROJECT["dynamic"]
    assert re.search(r"^version: (.+)$", text_of("CITATION.cff"), re.MULTILINE)[1] == adaam.__version__
    assert re.search(r'^  version: "(.+?)"', text_of("conda/recipe.yaml"), re.MULTILINE)[1] == adaam.__version__
    assert f"## {adaam.__version__}" in text_of("CHANGELOG.md")


def test_the_recipe_asks_for_what_the_package_asks_for():
    recipe = text_of("conda/recipe.yaml")
    wanted = dict(re.findall(r"^    - ([\w-]+) >=([\d.]+)$", recipe.partition("  run:\n")[2], re.MULTILINE))
    assert wanted == floors() | {"python": PROJECT["requires-python"].removeprefix(">=")}


def test_the_lowest_versions_tested_are_the_lowest_allowed():
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text_of("tests/release/lowest.txt"), re.MULTILINE))
    for name, floor in floors().items():
        assert pinned[name].startswith(floor), name
    extras = PROJECT["optional-dependencies"]
    for entry in [*extras["plot"], *extras["parquet"], *extras["test"]]:
        name, _, floor = entry.partition(">=")
        if name in pinned:
            assert pinned[name].startswith(floor), name


WORKFLOWS = (".github/workflows/ci.yml", ".github/workflows/release.yml")


def test_workflows_run_the_scripts_that_are_run_at_home():
    told = "".join(map(text_of, WORKFLOWS))
    for script in re.findall(r"bash (\.ci/\w+)", told + text_of(".ci/run")):
        subprocess.run(["bash", "-n", ROOT / script], check=True)
    for step in ("extras", "docs", "release", "newcomer", "recipes", "lowest"):
        assert f"bash .ci/{step}" in text_of(".ci/run")
    # Nothing else runs there except the README's commands for installing and testing, in their short form.
    own = {'python -m pip install -e ".[test]"', "python -m pytest -n auto", "python3 -m venv --without-pip .venv"}
    steps = re.findall(r"- run: (.+)", told)
    assert steps
    assert {step for step in steps if not step.startswith("bash .ci/")} <= own


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_to_a_commit_and_keep_no_credentials(name):
    told = text_of(name)
    used = re.findall(r"uses: (\S+)(.*)", told)
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r"  # v[\d.]+", comment), "the version it stands for"
    assert told.count("actions/checkout@") == told.count("persist-credentials: false")
    assert "permissions:\n  contents: read" in told
