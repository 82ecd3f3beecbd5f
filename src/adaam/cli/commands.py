"""What each command does with its parsed arguments; results go to files or standard output, talk to standard error."""

import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam.cli.outputs import check_outputs
from adaam.cli.tables import Table, TableError, check_ending, read_labels, read_table, write_labels, write_rows
from adaam.estimators import AdaAM, AdaAMClustering
from adaam.estimators.stored_rows import is_large
from adaam.files import atomic_file
from adaam.large import RowBlocks
from adaam.planning import plan
from adaam.rows import WRITERS, ArrayRows, RowSource, checked_blocks, open_rows, write_csv, writer_for
from adaam.scores import adjusted_rand_index, clustering_accuracy, normalized_mutual_information
from adaam.storage import load, save


def cluster(arguments: Namespace) -> None:
    """Cluster the rows of a file and write a label for each."""
    check_outputs(
        [arguments.rows, arguments.truth],
        [arguments.output, arguments.model, arguments.plot],
        force=arguments.force,
    )
    check_formats(arguments.output, arguments.plot)
    model = clusterer(arguments)
    rows, known, image_shape = rows_to_cluster(arguments.rows)
    if arguments.plot and isinstance(rows, RowSource):
        raise TableError(f"{arguments.rows}: is too large to draw. Leave --plot out, or draw a part of the rows.")
    classes = read_labels(arguments.truth) if arguments.truth else known
    n_rows = rows.n_rows if isinstance(rows, RowSource) else len(rows)
    if classes is not None and len(classes) != n_rows:
        raise TableError(f"{arguments.truth}: holds {len(classes)} classes for {n_rows} rows.")
    labels = model.fit_predict(rows)

    say(str(model.selection_))
    sizes = ", ".join(str(size) for size in np.bincount(labels))
    say(f"{len(labels)} rows in {model.n_clusters_} clusters of {sizes}")
    if classes is not None:
        say(
            f"accuracy {clustering_accuracy(classes, labels):.1%}   "
            f"NMI {normalized_mutual_information(classes, labels):.3f}   "
            f"ARI {adjusted_rand_index(classes, labels):.3f}   (against the known classes, which the fit never saw)"
        )
    if arguments.model:
        save(model, arguments.model)
        say(f"wrote {arguments.model}")
    if arguments.plot:
        from adaam.report.figures import draw_clusters

        draw_clusters(rows, model.transform(rows), labels, model.cluster_centers_, image_shape, arguments.plot)
        say(f"wrote {arguments.plot}")
    if arguments.output:
        write_labels(arguments.output, labels)
        say(f"wrote {arguments.output}" if arguments.output != "-" else "")


def clusterer(arguments: Namespace) -> AdaAMClustering:
    """Return the clusterer that the options describe: the choice without labels, unless one metric is asked for."""
    one_metric = arguments.components or arguments.neighbors or arguments.preparation
    if one_metric and arguments.clusters == "auto":
        raise ValueError("--clusters auto goes with the choice of metric; leave out the options of one metric.")
    return AdaAMClustering(
        arguments.clusters,
        learner=learner(arguments) if one_metric else None,
        head=arguments.head,
        random_state=arguments.seed,
        verbose=int(arguments.verbose),
    )


def fit(arguments: Namespace) -> None:
    """Learn a map from the rows of a file and write it as a model file; or say what that would take."""
    if not (arguments.dry_run or arguments.output):
        raise TableError("fit needs a model file to write: add -o FILE, or --dry-run.")
    check_outputs([arguments.rows], [arguments.output], force=arguments.force)
    rows = source_of(arguments.rows)
    pairs: Any = RowBlocks() if arguments.pairs == "blocks" else arguments.pairs
    if arguments.dry_run:
        assert rows.n_rows is not None  # every kind of file tells it
        itemsize = rows.dtype.itemsize
        print(plan(rows.n_rows, rows.n_features, arguments.clusters, pairs=pairs, itemsize=itemsize, stored=True))
        return
    model = learner(arguments).set_params(pairs=pairs, verbose=int(arguments.verbose)).fit(rows)
    save(model, arguments.output)
    if not model.plan_.exact:
        say(str(model.plan_))
    if model.stability_ is not None:
        say(str(model.stability_))
    say(f"{model.n_features_in_} features to {model.n_components_} components; wrote {arguments.output}")


def transform(arguments: Namespace) -> None:
    """Map the rows of a file by a model file, block by block."""
    check_outputs([arguments.model, arguments.rows], [arguments.output], force=arguments.force)
    model = load(arguments.model)
    rows = source_of(arguments.rows)
    columns = fitted_order(rows.names, getattr(model, "feature_names_in_", None))
    names = [str(name) for name in model.get_feature_names_out()]
    with warnings.catch_warnings():
        # Columns were matched by name above, or the file names none.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        mapped = (model.transform(block[:, columns]) for _, block in checked_blocks(rows))
        n_rows = write_blocks(arguments.output, mapped, names)
    if arguments.output != "-":
        say(f"{n_rows} rows of {len(names)} components; wrote {arguments.output}")


def write_blocks(target: str, blocks: Iterator[FloatMatrix], names: list[str]) -> int:
    """Write rows as they come; an .npz archive alone is put together in memory."""
    if target == "-":
        return write_csv(sys.stdout.buffer, blocks, names)
    if check_ending(target) not in WRITERS:
        Z = np.vstack([*blocks])
        write_rows(target, Z, names)
        return len(Z)
    write = writer_for(target)
    with atomic_file(target) as stream:
        return write(stream, blocks, names)


def fitted_order(names: list[str] | None, fitted_names: Any) -> Any:
    """Columns in the order the model was fitted on; other names are refused."""
    if names is None or fitted_names is None or list(fitted_names) == names:
        return slice(None)
    missing = [name for name in fitted_names if name not in names]
    if missing or len(names) != len(fitted_names):
        wanted = ", ".join(map(str, fitted_names[:8])) + (", ..." if len(fitted_names) > 8 else "")
        raise TableError(
            f"the columns are not those the model was fitted on ({wanted}); "
            + (f"{missing[0]!r} is missing." if missing else f"there are {len(names)} of them.")
        )
    return [names.index(name) for name in fitted_names]


def learner(arguments: Namespace) -> AdaAM:
    """Build the metric learner that the options describe."""
    return AdaAM(
        arguments.clusters,
        n_components=arguments.components,
        n_neighbors=arguments.neighbors,
        preparation=arguments.preparation or "unit",
    )


def rows_to_cluster(source: str) -> tuple[Any, Any, tuple[int, int] | None]:
    """Return rows, their classes where known, and the shape of their images; rows too large to load stay a source."""
    if can_be_opened(source):
        rows = open_rows(source)
        if is_large(rows):
            return rows, None, None
    table = rows_of(source)
    return table.X, table.classes, table.image_shape


def can_be_opened(source: str) -> bool:
    """Whether rows of this kind can be read block by block."""
    return Path(source).is_dir() or Path(source).suffix.lower() in (".npy", ".parquet", ".zarr")


def source_of(source: str) -> RowSource:
    """Open rows without reading them where their kind allows."""
    if can_be_opened(source):
        return open_rows(source)
    table = rows_of(source)
    return ArrayRows(table.X, source, table.names)


def rows_of(source: str) -> Table:
    """Read rows and check that they form a table of numbers."""
    table = read_table(source)
    if table.X.ndim != 2 or table.X.dtype.kind not in "fiub":
        raise TableError(f"{source}: holds an array of shape {table.X.shape} and type {table.X.dtype}, not a table.")
    return table


def check_formats(output: str | None, plot: str | None) -> None:
    """Refuse kinds of files that cannot be written before an hour of work, not after."""
    if output and output != "-":
        check_ending(output)
    if plot:
        from adaam.report.figures import check_drawable

        check_drawable(plot)


def say(text: str) -> None:
    """Talk to the person; results may be flowing through standard output."""
    if text:
        print(text, file=sys.stderr)
