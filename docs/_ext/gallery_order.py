"""Order of the gallery: the idea first, then how it is used, then where it goes."""

ORDER = (
    "plot_before_after.py",
    "plot_digits.py",
    "plot_tables.py",
    "plot_components.py",
    "plot_selection.py",
    "plot_search.py",
    "plot_parameters.py",
    "plot_on_top.py",
    "plot_index.py",
    "plot_onnx.py",
)


class ReadingOrder:
    """Sort key of sphinx-gallery; an example that has no place yet stops the build."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, filename):
        return ORDER.index(filename)
