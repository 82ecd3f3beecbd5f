"""What is collected, and where pictures go: doctests of modules that need an extra are left out where the extra is."""

import os
from importlib.util import find_spec

# Pictures are drawn without a window; set before matplotlib is loaded.
os.environ.setdefault("MPLBACKEND", "Agg")

NEEDS = {
    "torch": ("src/adaam/engines/gpu/*", "tests/crossings.py"),
    "numba": tuple(
        f"src/adaam/engines/kernels/{name}.py"
        for name in (
            "adding",
            "away",
            "compiled",
            "compiling",
            "lanes",
            "listing",
            "marking",
            "measuring",
            "pruning",
            "ranking",
            "screening",
            "searching",
            "skipping",
        )
    ),
    "onnx": ("src/adaam/export.py",),
    "matplotlib": ("src/adaam/displays/*",),
}
collect_ignore_glob = [path for extra, paths in NEEDS.items() if find_spec(extra) is None for path in paths]
