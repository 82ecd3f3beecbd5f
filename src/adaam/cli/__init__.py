"""The command line: parses and calls; errors become one line and an exit code."""

import signal
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from typing import Any

from adaam._version import __version__
from adaam.cli import commands, datasets, reproduce
from adaam.cli.streams import command_streams, discard, discard_unwritten, output_error
from adaam.cli.tables import add_column_options, add_reading_options
from adaam.interrupts import interruptible

EXAMPLES = """examples:
  adaam inspect customers.csv
  adaam cluster customers.csv --clusters 5 -o clusters.csv --model customers.adaam
  adaam predict customers.adaam new_customers.csv -o new_clusters.csv
  adaam cluster digits --clusters 10 --plot digits.png -o labels.csv
  adaam fit rows.npy --clusters 5 -o metric.adaam
  adaam fit large.npy --clusters 10 --dry-run
  adaam transform metric.adaam new_rows.npy -o mapped.npy
  adaam datasets --fetch mnist usps umist
  adaam reproduce
"""


def build_parser() -> ArgumentParser:
    """Describe the commands and their options."""
    parser = ArgumentParser(
        prog="adaam",
        description="Learn, from unlabelled rows, a linear map in which clusters separate.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"adaam {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    rows_help = (
        "a table (.csv, .tsv, .txt, .xlsx, .parquet, .jsonl), an array (.npy, .npz), "
        '"digits" for the embedded data set, or "-" for a table on standard input'
    )
    source_help = "; .npy, .parquet (also a folder of them) and .zarr are read block by block and may exceed memory"
    results_help = 'as .csv, .tsv, .npy, .npz or .parquet; CSV on standard output by default, or for "-"'

    command = subparsers.add_parser("inspect", help="show what a table holds and what would be done with its columns")
    command.set_defaults(run=commands.inspect)
    command.add_argument("rows", metavar="ROWS", help=rows_help)
    add_column_options(command)
    add_reading_options(command)

    command = subparsers.add_parser("cluster", help="cluster the rows of a file")
    command.set_defaults(run=commands.cluster)
    command.add_argument("rows", metavar="ROWS", help=rows_help)
    _add_learner_options(command, _clusters)
    command.add_argument(
        "-o", "--output", metavar="FILE", help=f"id, cluster, strength and outlier score of each row, {results_help}"
    )
    command.add_argument(
        "--truth", metavar="COLUMN|FILE", help="known classes, a column of the table or a file of one, to score against"
    )
    command.add_argument("--plot", metavar="FILE", help="a picture of the clusters (.png, .pdf, .svg)")
    command.add_argument("--report", metavar="FILE", help="a page about the clusters (.html), to open in a browser")
    command.add_argument("--model", metavar="FILE", help="also write the fitted model, for adaam predict")
    command.add_argument(
        "--contamination",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of rows labelled -1, as outliers",
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the k-means starts (default: 0)")
    command.add_argument(
        "--head",
        choices=["auto", "k-means", "graph"],
        default="auto",
        help="how rows are partitioned (default: chosen with the metric)",
    )
    command.add_argument("--verbose", action="store_true", help="tell phases, and each metric as it has been tried")
    add_column_options(command)
    add_reading_options(command)

    command = subparsers.add_parser("predict", help="tell the cluster of new rows by a model that was kept")
    command.set_defaults(run=commands.predict)
    command.add_argument("model", metavar="MODEL", help="a model file written by cluster --model")
    command.add_argument("rows", metavar="ROWS", help=rows_help)
    command.add_argument(
        "-o", "--output", metavar="FILE", help=f"id, cluster, strength and outlier score of each row, {results_help}"
    )
    add_reading_options(command)

    command = subparsers.add_parser("fit", help="learn a map and write it as a model file")
    command.set_defaults(run=commands.fit)
    command.add_argument("rows", metavar="ROWS", help=rows_help + source_help)
    _add_learner_options(command)
    command.add_argument("-o", "--output", metavar="FILE", help="the model file to write")
    command.add_argument(
        "--pairs",
        choices=["auto", "all", "blocks"],
        default="auto",
        help="pairs of rows to learn from: all, those within random blocks, or (default) all where that is affordable",
    )
    command.add_argument("--dry-run", action="store_true", help="say what the fit would do, and do nothing")
    command.add_argument("--verbose", action="store_true", help="tell phases and passes over row blocks")
    add_column_options(command)
    add_reading_options(command)

    command = subparsers.add_parser("transform", help="map rows by a model file")
    command.set_defaults(run=commands.transform)
    command.add_argument("model", metavar="MODEL", help="a model file written by fit or cluster --model")
    command.add_argument("rows", metavar="ROWS", help=rows_help + source_help)
    command.add_argument("-o", "--output", metavar="FILE", default="-", help="mapped rows (default: CSV on stdout)")
    add_reading_options(command)

    for name in ("cluster", "predict"):
        subparsers.choices[name].add_argument(
            "--layers", action="store_true", help="also the cluster in each layer, coarsest first"
        )
    for name in ("cluster", "predict", "fit", "transform"):
        subparsers.choices[name].add_argument("--force", action="store_true", help="replace outputs that exist already")

    reproduce.add_commands(subparsers)
    datasets.add_command(subparsers)
    return parser


def _clusters(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is neither a whole number nor auto") from None


def _add_learner_options(command: ArgumentParser, clusters: Callable[[str], int | str] = int) -> None:
    if clusters is int:
        command.add_argument("--clusters", type=int, required=True, metavar="C", help="number of clusters")
    else:
        told = "number of clusters (default: auto, estimated from the rows)"
        command.add_argument("--clusters", type=clusters, default="auto", metavar="C", help=told)
    command.add_argument("--components", type=int, metavar="M", help="dimension of the learned space (default: C)")
    command.add_argument("--neighbors", type=int, metavar="K", help="neighbours of each row (default: log2(n/C))")
    command.add_argument(
        "--preparation",
        choices=["unit", "linear", "center", "standard"],
        help="unit: rows to unit length first (default of fit); linear: a map that is linear in the input itself",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns
    -------
    int
        0 when everything was written; 1 for work that failed; 128 and the number of the signal for a command that was
        asked to end (130 for Ctrl-C). Bad usage exits with 2 in the parser.
    """
    try:
        with command_streams(), interruptible():
            return _run(build_parser().parse_args(argv))
    except KeyboardInterrupt as interrupt:  # before the work, or after it
        return _stopped(interrupt)


def _run(arguments: Namespace) -> int:
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            arguments.run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        print("adaam: interrupted; nothing was written half-way", file=sys.stderr)
        return _stopped(interrupt)
    except BrokenPipeError as error:
        # Whoever read standard output went away, as `head` does. Of a pipe that was to be written the error has a name.
        if error.filename is None:
            discard(sys.stdout)
            return 0
        print(f"adaam: error: {error}", file=sys.stderr)
        return 1
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        told = output_error(error) if isinstance(error, OSError) else error
        print(f"adaam: error: {told or type(error).__name__}", file=sys.stderr)
        discard_unwritten(sys.stdout)
        return 1
    return 0


def _stopped(interrupt: KeyboardInterrupt) -> int:
    return 128 + int(getattr(interrupt, "number", signal.SIGINT))


def _show_warning(message: Any, category: Any, *_: Any, **__: Any) -> None:
    print(f"adaam: warning: {message}", file=sys.stderr)
