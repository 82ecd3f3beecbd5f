"""Check the contents of wheel and sdist: all required files, no foreign ones. Usage: python contents.py DIST_FOLDER."""

import sys
import tarfile
import zipfile
from pathlib import Path

WHEEL_NEEDS = ("adaam/__init__.py", "adaam/py.typed", "adaam/bench/plans/paper.toml", "adaam/report/paper.toml")
SDIST_NEEDS = (
    "src/adaam/__init__.py",
    "tests/oracles.py",
    "docs/conf.py",
    "examples/own_affinity.py",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "pyproject.toml",
    "conftest.py",
)
FOREIGN = (".venv", "_build", "__pycache__", ".npz", ".mat", "auto_examples", ".git/")
KEPT_MUTANTS = "tests/fuzz/cases/"  # small damaged files of every kind, which belong to the tests
LARGEST = 4 << 20


def check(path, names, needs):
    missing = [name for name in needs if name not in names]
    ours = [name for name in names if not name.startswith(KEPT_MUTANTS)]
    foreign = [name for name in ours if any(part in name for part in FOREIGN)]
    assert not missing, f"{path.name} lacks {missing}"
    assert not foreign, f"{path.name} holds {foreign[:5]}"
    assert path.stat().st_size < LARGEST, f"{path.name} has {path.stat().st_size} bytes"
    print(f"{path.name}: {len(names)} files, {path.stat().st_size / 1024:.0f} KiB")


def main(folder):
    (wheel,) = Path(folder).glob("*.whl")
    (sdist,) = Path(folder).glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    check(wheel, names, WHEEL_NEEDS)
    assert all(name.startswith(("adaam/", "adaam-")) for name in names), "the wheel installs something beside adaam"
    assert wheel.name.endswith("-py3-none-any.whl"), f"{wheel.name} is not pure Python"
    with tarfile.open(sdist) as archive:
        check(sdist, [name.partition("/")[2] for name in archive.getnames()], SDIST_NEEDS)


if __name__ == "__main__":
    main(sys.argv[1])
