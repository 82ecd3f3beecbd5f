"""What is collected, and where pictures go: doctests of modules that need an extra are left out where the extra is."""

import os
from importlib.util import find_spec

# Pictures are drawn without a window; set before matplotlib is loaded.
os.environ.setdefault("MPLBACKEND", "Agg")

collect_ignore_glob = [] if find_spec("torch") else ["src/adaam/engines/gpu/*"]
