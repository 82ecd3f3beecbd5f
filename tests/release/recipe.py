"""Render the conda recipe, then follow it in a new environment. Usage: python recipe.py RECIPE FOLDER.

Packages come from PyPI, where they have the same names. Otherwise the steps are those of rattler-build: host packages,
script, run packages, tests.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path


def main(path, folder):
    from rattler_build import Stage0Recipe

    path = Path(path).resolve()
    (variant,) = Stage0Recipe.from_file(path).render()
    recipe = variant.recipe.to_dict()
    print(f"{recipe['package']['name']} {recipe['package']['version']}, {recipe['build']['string']}")

    python = environment(Path(folder).resolve())
    source = path.parent / recipe["source"][0]["path"]
    requirements = recipe["requirements"]
    install(python, requirements["host"])
    script = recipe["build"]["script"]
    assert "${{ PYTHON }}" in script, script
    subprocess.run(script.replace("${{ PYTHON }}", str(python)), shell=True, check=True, cwd=source, stdout=-3)
    install(python, requirements["run"])

    with tempfile.TemporaryDirectory() as elsewhere:
        for test in recipe["tests"]:
            for command in commands(test, python):
                print("tried:", " ".join(command))
                subprocess.run(command, check=True, cwd=elsewhere)
    entry = recipe["build"]["python"]["entry_points"][0].partition(" = ")[0]
    assert (python.parent / entry).exists(), entry


def environment(folder):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def install(python, packages):
    """Install the packages of a list in the recipe, except Python itself."""
    wanted = [re.sub(r"\s+", "", package) for package in packages if not package.startswith("python ")]
    command = ["python3", "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *wanted], check=True)


def commands(test, python):
    if "python" in test:
        for module in test["python"]["imports"]:
            yield [str(python), "-c", f"import {module}"]
        if test["python"].get("pip_check", True):
            yield [str(python), "-m", "pip", "check"]
    if "script" in test:
        script = test["script"]
        for line in [script] if isinstance(script, str) else script:
            program, *rest = line.split()
            yield [str(python.parent / program), *rest]


if __name__ == "__main__":
    main(*sys.argv[1:])
