"""The commands on rows and models; results go to files or standard output, messages to standard error."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from adaam._typing import FloatMatrix
from adaam.cli.outputs import STANDARD, check_outputs
from adaam.cli.results import (
    ENDINGS,
    MAPPED,
    check_ending,
    fitted_columns,
    predicted_columns,
    write_blocks,
    write_columns,
)
from adaam.cli.tables import (
    Rows,
    array_rows,
    class_numbers,
    column_lines,
    encoder_for,
    encoder_of,
    located,
    new_rows,
    open_frame,
    read_classes,
    read_rows,
)
from adaam.cluster_report import ClusterReport
from adaam.estimators import AdaAM, AdaAMClustering
from adaam.estimators.stored_rows import is_large
from adaam.large import RowBlocks
from adaam.planning import plan
from adaam.rows import ArrayRows, RowSource, checked_blocks, read_all
from adaam.scores import adjusted_rand_index, clustering_accuracy, normalized_mutual_information
from adaam.storage import load, save
from adaam.tables import CellError, TableEncoder, TableError, counted, is_vector_part, missing_cells


def inspect(arguments: Namespace) -> None:
    """Show what a table holds and how each of its columns would be treated."""
    array = array_rows(arguments.rows)
    if array is not None:
        kind = "sparse numbers" if issparse(array.X) else "numbers"
        print(f"{arguments.rows}: {array.n_rows} rows of {array.width} {kind} ({array.X.dtype}); all are used")
        return
    frame = open_frame(arguments.rows, arguments)
    encoder, _ = encoder_for(frame, arguments)
    try:
        columns = encoder.plan(frame)
    except TableError as error:
        raise TableError(f"{arguments.rows}: {error}") from error
    print("\n".join([*frame.notes, *column_lines(columns)]))
    try:
        width = len(encoder.fit(frame).get_feature_names_out())
    except CellError as error:
        print(f"Clustering would stop. {located(error, frame, arguments.rows)}")
    except TableError as error:
        print(f"Clustering would stop. {arguments.rows}: {error}")
    else:
        n_used = sum(column.is_taken for column in columns)
        size = f"{counted(width, 'feature')} of {counted(frame.n_rows, 'row')}"
        print(f"{n_used} of {counted(len(columns), 'column')} {'is' if n_used == 1 else 'are'} used, as {size}.")


def cluster(arguments: Namespace) -> None:
    """Cluster the rows of a file and write a label for each."""
    output = arguments.output or STANDARD
    truth_file = arguments.truth if arguments.truth and Path(arguments.truth).exists() else None
    targets = [output, arguments.model, arguments.plot, arguments.report]
    check_outputs([arguments.rows, truth_file], targets, force=arguments.force)
    check_kinds(output, arguments.model, arguments.plot, arguments.report)
    model = clusterer(arguments)
    rows = in_memory(read_rows(arguments.rows, arguments), arguments.rows)
    if rows.n_rows is not None and rows.n_rows < 2:
        raise TableError(f"{arguments.rows}: holds {counted(rows.n_rows, 'row')}; clustering needs at least 2.")
    if rows.n_rows is not None and arguments.clusters != "auto" and arguments.clusters > rows.n_rows:
        raise TableError(f"--clusters {arguments.clusters}: {arguments.rows} has {rows.n_rows} rows. Ask for fewer.")
    if (arguments.plot or arguments.report) and isinstance(rows.X, RowSource):
        drawn = "--plot" if arguments.plot else "--report"
        raise TableError(f"{arguments.rows}: is too large to draw. Leave {drawn} out, or draw a part of the rows.")
    classes = known_classes(rows, arguments)
    for line in rows.report:
        say(line)
    labels = model.fit_predict(rows.source(arguments.rows))
    if rows.names is not None:
        model.metric_.feature_names_in_ = np.array(rows.names, dtype=object)

    say(str(model.selection_))
    sizes = ", ".join(str(size) for size in np.bincount(labels[labels >= 0]))
    say(f"{len(labels)} rows in {counted(model.n_clusters_, 'cluster')} of {sizes}")
    if (labels < 0).any():
        say(f"{(labels < 0).sum()} rows are outliers, labelled -1")
    if classes is not None:
        say(scores(classes, labels))
    columns = fitted_columns(rows, model, layers=arguments.layers)
    outputs: dict[str, Callable[[], object]] = {output: lambda: write_columns(output, columns)}
    if arguments.model:
        outputs[arguments.model] = lambda: save(rows.kept_model(model), arguments.model)
    if arguments.plot:
        outputs[arguments.plot] = lambda: draw(rows, model, labels, arguments.plot)
    if arguments.report:
        outputs[arguments.report] = lambda: report(rows, model, arguments, classes).save(arguments.report)
    write_all(outputs)


def write_all(outputs: dict[str, Callable[[], object]]) -> None:
    """Write every output that can be written, then raise the first error, if any."""
    failures = []
    for target, write in outputs.items():
        try:
            write()
        except (OSError, ValueError, TypeError, ImportError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            failures.append(error)
        else:
            say(f"wrote {target}" if target != STANDARD else "")
    if failures:
        raise failures[0]


def draw(rows: Rows, model: AdaAMClustering, labels: Any, target: str) -> None:
    """Draw the clusters."""
    from adaam.report.figures import draw_clusters

    X = rows.X.toarray() if hasattr(rows.X, "toarray") else rows.X
    Z = model.transform(rows.source(target))
    draw_clusters(X, Z, labels, model.cluster_centers_, rows.image_shape, target)


def report(rows: Rows, model: AdaAMClustering, arguments: Namespace, classes: Any) -> ClusterReport:
    """Return the page about the clusters, with the columns of the table in their own units."""
    table, texts, known = None, None, {}
    if rows.frame is not None and rows.encoder is not None:
        table = {name: cells for name, cells in rows.encoder.own_units(rows.frame).items() if name != rows.id_name}
        told = text_column(rows.encoder)
        texts = None if told is None else ["" if cell is None else str(cell) for cell in table.pop(told)]
        table = {name: cells for name, cells in table.items() if not is_vector_part(name)}
    if classes is not None:
        name = arguments.truth if rows.frame is not None and arguments.truth in rows.frame.names else "known class"
        missing = missing_cells(np.asarray(classes))
        known = {name: [None if gone else str(each) for each, gone in zip(classes, missing, strict=True)]}
    made = model.report(
        rows.X,
        names=rows.names,
        ids=rows.ids,
        images=rows.image_shape,
        texts=texts,
        table=table,
        columns=known,
        title="standard input" if arguments.rows == STANDARD else Path(arguments.rows).name,
    )
    return replace(made, data=replace(made.data, first_row=1))  # as in the table of results


def text_column(encoder: TableEncoder) -> str | None:
    """Return the text column that describes the clusters: its words are used, or all other columns used are vectors."""
    taken = [column for column in encoder.columns_ if column.is_taken]
    texts = [column.name for column in encoder.columns_ if column.kind == "text"]
    used = [column.name for column in taken if column.terms]
    return next(iter(used or (texts if all(is_vector_part(column.name) for column in taken) else [])), None)


def in_memory(rows: Rows, label: str) -> Rows:
    """Read the rows of a small source; an error names the first row that is not finite."""
    if isinstance(rows.X, RowSource) and is_large(rows.X):
        return rows  # checked as they are read
    read = Rows(read_all(rows.X), rows.X.names) if isinstance(rows.X, RowSource) else rows
    if isinstance(read.X, np.ndarray):
        for _ in checked_blocks(ArrayRows(read.X, label, read.names)):
            pass
    return read


def known_classes(rows: Rows, arguments: Namespace) -> Any:
    """Return known classes from the table or archive of the rows, or from a file."""
    if rows.classes is not None or not arguments.truth:
        return rows.classes
    n_rows = rows.n_rows if rows.kept is None else len(rows.kept)
    classes = read_classes(arguments.truth, n_rows or 0, arguments)
    if rows.kept is not None and len(classes) == len(rows.kept):
        classes = classes[rows.kept]
    if len(classes) != rows.n_rows:
        raise TableError(f"{arguments.truth}: holds {len(classes)} classes for {rows.n_rows} rows.")
    return classes


def scores(classes: Any, labels: Any) -> str:
    """Return scores of the clusters against known classes, over the rows that have one."""
    numbers, known = class_numbers(classes)
    y, found = numbers[known], np.asarray(labels)[known]
    part = "" if known.all() else f"{known.sum()} rows with "
    return (
        f"accuracy {clustering_accuracy(y, found):.1%}   "
        f"NMI {normalized_mutual_information(y, found):.3f}   "
        f"ARI {adjusted_rand_index(y, found):.3f}   (against {part}the known classes, which the fit never saw)"
    )


def clusterer(arguments: Namespace) -> AdaAMClustering:
    """Return the clusterer that the options describe; it chooses the metric, unless the options describe one."""
    one_metric = arguments.components or arguments.neighbors or arguments.preparation
    if one_metric and arguments.clusters == "auto":
        raise ValueError(
            "--components, --neighbors and --preparation describe one metric, which needs a number of clusters: add "
            "--clusters C, or leave them out to have metric and number chosen."
        )
    return AdaAMClustering(
        arguments.clusters,
        learner=learner(arguments) if one_metric else None,
        head=arguments.head,
        contamination=arguments.contamination,
        random_state=arguments.seed,
        verbose=int(arguments.verbose),
    )


def fit(arguments: Namespace) -> None:
    """Learn a map from the rows of a file and write a model file, or print the plan of the fit."""
    if not (arguments.dry_run or arguments.output):
        raise TableError("fit needs a model file to write: add -o FILE, or --dry-run.")
    check_outputs([arguments.rows], [arguments.output], force=arguments.force)
    check_kinds(STANDARD, arguments.output)
    rows = read_rows(arguments.rows, arguments)
    pairs: Any = RowBlocks() if arguments.pairs == "blocks" else arguments.pairs
    for line in rows.report:
        say(line)
    if arguments.dry_run:
        n_rows, itemsize = rows.n_rows or 0, rows.X.dtype.itemsize
        print(plan(n_rows, rows.width, arguments.clusters, pairs=pairs, itemsize=itemsize, stored=True))
        return
    model = learner(arguments).set_params(pairs=pairs, verbose=int(arguments.verbose)).fit(rows.source(arguments.rows))
    save(rows.kept_model(model), arguments.output)
    if not model.plan_.exact:
        say(str(model.plan_))
    if model.stability_ is not None:
        say(str(model.stability_))
    say(f"{model.n_features_in_} features to {model.n_components_} components; wrote {arguments.output}")


def predict(arguments: Namespace) -> None:
    """Write the clusters of new rows, predicted by a saved model."""
    output = arguments.output or STANDARD
    check_outputs([arguments.model, arguments.rows], [output], force=arguments.force)
    check_kinds(output)
    kept = load(arguments.model)
    model = kept[-1] if encoder_of(kept) else kept
    if not hasattr(model, "predict"):
        raise TableError(
            f"{arguments.model}: is a metric, which has no clusters. Make one with adaam cluster --model, or map the "
            "rows with adaam transform."
        )
    rows = new_rows(arguments.rows, kept, arguments)
    X = matched(rows.X, model)
    X = read_all(X) if isinstance(X, RowSource) and not is_large(X) else X
    columns = predicted_columns(rows, model, X, layers=arguments.layers)
    write_columns(output, columns)
    if output != STANDARD:
        say(f"{len(columns['cluster'])} rows; wrote {output}")


def transform(arguments: Namespace) -> None:
    """Map the rows of a file by a saved model, block by block."""
    check_outputs([arguments.model, arguments.rows], [arguments.output], force=arguments.force)
    if arguments.output != STANDARD:
        check_ending(arguments.output, MAPPED)
    kept = load(arguments.model)
    model = kept[-1] if encoder_of(kept) else kept
    rows = new_rows(arguments.rows, kept, arguments)
    names = [str(name) for name in model.get_feature_names_out()]
    if issparse(rows.X):
        mapped: Iterator[FloatMatrix] = iter([model.transform(rows.X)])
    else:
        source = matched(rows.X, model)
        source = source if isinstance(source, RowSource) else ArrayRows(source, arguments.rows, rows.names)
        mapped = (model.transform(block) for _, block in checked_blocks(source))
    n_rows = write_blocks(arguments.output, mapped, names)
    if arguments.output != STANDARD:
        say(f"{n_rows} rows of {len(names)} components; wrote {arguments.output}")


def matched(X: Any, model: Any) -> Any:
    """Return rows with columns in the order the model was fitted on, if the source has column names."""
    names = getattr(X, "names", None)
    fitted = getattr(model, "feature_names_in_", None)
    if names is None or fitted is None or list(fitted) == names:
        return X
    missing = [name for name in fitted if name not in names]
    if missing or len(names) != len(fitted):
        wanted = ", ".join(map(str, fitted[:8])) + (", ..." if len(fitted) > 8 else "")
        raise TableError(
            f"{X.label}: the columns are not those the model was fitted on ({wanted}); "
            + (f"{missing[0]!r} is missing." if missing else f"there are {len(names)} of them.")
        )
    ordered, places = copy(X), [names.index(name) for name in fitted]
    ordered.names, ordered.blocks = list(fitted), lambda: (block[:, places] for block in X.blocks())
    return ordered


def learner(arguments: Namespace) -> AdaAM:
    """Build the metric learner that the options describe."""
    return AdaAM(
        arguments.clusters,
        n_components=arguments.components,
        n_neighbors=arguments.neighbors,
        preparation=arguments.preparation or "unit",
    )


def check_kinds(output: str, model: str | None = None, plot: str | None = None, page: str | None = None) -> None:
    """Refuse file types that cannot be written, before the work starts."""
    if output != STANDARD:
        check_ending(output, ENDINGS)
    if model == STANDARD:
        raise TableError("-: a model is not written to standard output; name a file, such as model.adaam.")
    if plot:
        from adaam.report.figures import check_drawable

        check_drawable(plot)
    if page and Path(page).suffix.lower() not in (".html", ".htm"):
        raise TableError(f"{page}: a page is an HTML file; give it a name that ends in .html.")


def say(text: str) -> None:
    """Print a message to standard error, since standard output may carry results."""
    if text:
        print(text, file=sys.stderr)
