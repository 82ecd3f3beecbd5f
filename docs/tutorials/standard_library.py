"""Docstrings of Python's standard library: a corpus of technical English that every reader already has."""

import ast
import re
import sysconfig
from pathlib import Path

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
# Each package is about one subject. The docstrings of decimal are in its pure Python implementation.
SUBJECTS = {
    "asyncio": "asyncio",
    "decimal": "_pydecimal.py",
    "email": "email",
    "http": "http",
    "importlib": "importlib",
    "logging": "logging",
    "unittest": "unittest",
    "xml": "xml",
}


def docstrings(min_words):
    """Return the distinct docstrings of functions and classes, and the subject of each; examples are removed."""
    found = {}
    for subject, place in SUBJECTS.items():
        path = LIBRARY / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    text = re.sub(r"^ *>>>.*?(?:\n\s*\n|\Z)", "", ast.get_docstring(node) or "", flags=re.S | re.M)
                    if len(text.split()) >= min_words:
                        found.setdefault(text, subject)
    return list(found), list(found.values())
