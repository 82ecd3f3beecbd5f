"""What each command does with its parsed arguments; results go to files or standard output, talk to standard error."""

import sys
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam.cli.tables import Table, TableError, check_ending, read_labels, read_table, write_labels, write_rows
from adaam.estimators import AdaAM, AdaAMClustering
from adaam.scores import adjusted_rand_index, clustering_accuracy, normalized_mutual_information
from adaam.storage import load, save


def cluster(arguments: Namespace) -> None:
    """Cluster the rows of a file and write a label for each."""
    check_targets(arguments.output, arguments.plot)
    table = rows_of(arguments.rows)
    classes = read_labels(arguments.truth) if arguments.truth else table.classes
    if classes is not None and len(classes) != len(table.X):
        raise TableError(f"{arguments.truth}: holds {len(classes)} classes for {len(table.X)} rows.")
    model = clusterer(arguments)
    labels = model.fit_predict(table.X)

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

        draw_clusters(
            table.X, model.transform(table.X), labels, model.cluster_centers_, table.image_shape, arguments.plot
        )
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
    )


def fit(arguments: Namespace) -> None:
    """Learn a map from the rows of a file and write it as a model file."""
    table = rows_of(arguments.rows)
    model = learner(arguments).fit(table.X)
    if table.names is not None:
        model.feature_names_in_ = np.array(table.names, dtype=object)
    save(model, arguments.output)
    say(f"{model.n_features_in_} features to {model.n_components_} components; wrote {arguments.output}")


def transform(arguments: Namespace) -> None:
    """Map the rows of a file by a model file."""
    model = load(arguments.model)
    table = rows_of(arguments.rows)
    X = table.X if table.names is None else in_fitted_order(table, getattr(model, "feature_names_in_", None))
    with warnings.catch_warnings():
        # Columns were matched by name above, or the file names none.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        Z = model.transform(X)
    write_rows(arguments.output, Z, [str(name) for name in model.get_feature_names_out()])
    if arguments.output != "-":
        say(f"{Z.shape[0]} rows of {Z.shape[1]} components; wrote {arguments.output}")


def in_fitted_order(table: Table, fitted_names: Any) -> FloatMatrix:
    """Put named columns into the order the model was fitted on; other names are refused."""
    if fitted_names is None or list(fitted_names) == table.names:
        return table.X
    names = table.names or []
    missing = [name for name in fitted_names if name not in names]
    if missing or len(names) != len(fitted_names):
        wanted = ", ".join(map(str, fitted_names[:8])) + (", ..." if len(fitted_names) > 8 else "")
        raise TableError(
            f"the columns are not those the model was fitted on ({wanted}); "
            + (f"{missing[0]!r} is missing." if missing else f"there are {len(names)} of them.")
        )
    return table.X[:, [names.index(name) for name in fitted_names]]


def learner(arguments: Namespace) -> AdaAM:
    """Build the metric learner that the options describe."""
    return AdaAM(
        arguments.clusters,
        n_components=arguments.components,
        n_neighbors=arguments.neighbors,
        preparation=arguments.preparation or "unit",
    )


def rows_of(source: str) -> Table:
    """Read rows and check that they form a table of numbers."""
    table = read_table(source)
    if table.X.ndim != 2 or table.X.dtype.kind not in "fiub":
        raise TableError(f"{source}: holds an array of shape {table.X.shape} and type {table.X.dtype}, not a table.")
    return table


def check_targets(output: str | None, plot: str | None) -> None:
    """Refuse what cannot be written before an hour of work, not after."""
    if output and output != "-":
        check_ending(output)
    for target in (output, plot):
        if target and target != "-" and not Path(target).resolve().parent.is_dir():
            raise TableError(f"{target}: its folder does not exist.")
    if plot:
        from adaam.report.figures import check_drawable

        check_drawable(plot)


def say(text: str) -> None:
    """Talk to the person; results may be flowing through standard output."""
    if text:
        print(text, file=sys.stderr)
