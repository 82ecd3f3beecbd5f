"""Order of the tutorials and of the gallery: the idea first, then its parameters, then use with other libraries."""

ORDER = (
    "plot_table.py",
    "plot_sentences.py",
    "plot_text.py",
    "plot_images.py",
    "plot_layers.py",
    "plot_before_after.py",
    "plot_how_it_works.py",
    "plot_components.py",
    "plot_search.py",
    "plot_parameters.py",
    "plot_on_top.py",
    "plot_index.py",
    "plot_onnx.py",
)


class ReadingOrder:
    """Sort key for sphinx-gallery; an example that is missing from ORDER stops the build."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, filename):
        return ORDER.index(filename)
