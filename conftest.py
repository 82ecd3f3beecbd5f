"""Where pictures go: they are drawn without a window."""

import os

# Set before matplotlib is loaded.
os.environ.setdefault("MPLBACKEND", "Agg")
