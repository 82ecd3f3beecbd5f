"""What is collected: doctests of modules that need an extra are left out where the extra is."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/adaam/engines/gpu/*"]
