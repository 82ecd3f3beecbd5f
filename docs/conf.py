"""Settings of the documentation site; built without network: python -m sphinx -W -b html docs docs/_build/html."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")

import adaam  # noqa: E402

project = "adaam"
author = "The adaam developers"
copyright = "the adaam developers"
version = release = adaam.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "code_of",
    "mathml",
    "plain_docstrings",
    "peers_table",
]
exclude_patterns = ["_build", "_generated", "_ext", "snippets", "tutorials", "decisions/README.md", "auto_*/*.py"]
templates_path = ["_templates"]
# Sphinx warns that settings which hold functions or patterns cannot be cached, which is harmless.
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": ["tutorials", "../examples"],
    "gallery_dirs": ["auto_tutorials", "auto_examples"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "gallery_order.ReadingOrder",
    "ignore_pattern": r"own_affinity\.py|standard_library\.py",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # that page loads scripts from other sites
    "image_srcset": ["2x"],
}

html_theme = "pydata_sphinx_theme"
html_title = "adaam"
html_static_path = ["_static"]
html_css_files = ["adaam.css"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "peers": []},
}
html_sidebars = {"index": [], "peers": []}


def skip_member(app, what, name, obj, skip, options):
    """Leave out what scikit-learn documents itself."""
    return skip or str(getattr(obj, "__module__", "")).startswith("sklearn")


def setup(app):
    """Register the handler above."""
    app.connect("autodoc-skip-member", skip_member)
