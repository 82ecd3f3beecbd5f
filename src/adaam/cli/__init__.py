"""The command line: parses arguments and runs a command; errors become one line and an exit code."""

import re
import signal
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from typing import NoReturn

from adaam._version import __version__
from adaam.bench.openml import SERVER, SOURCES
from adaam.cli import commands, datasets, reproduce
from adaam.cli.streams import command_streams, discard, discard_unwritten, output_error
from adaam.cli.tables import add_column_options, add_reading_options
from adaam.interrupts import interruptible

DEFAULT_OUT = "adaam-results"
# Names in error messages of the estimator parameters that options set, with the equals sign if a value follows.
PARAMETERS = re.compile(r"\b(?:n_(clusters|components|neighbors)|(contamination))\b(=(?=\S))?")
EXAMPLES = """examples:
  adaam inspect customers.csv
  adaam cluster customers.csv --clusters 5 -o clusters.csv --model customers.adaam
  adaam predict customers.adaam new_customers.csv -o new_clusters.csv
  adaam cluster customers.csv --report page.html -o clusters.csv
  adaam cluster digits --clusters 10 --plot digits.png -o labels.csv
  adaam fit rows.npy --clusters 5 -o metric.adaam
  adaam fit large.npy --clusters 10 --dry-run
  adaam transform metric.adaam new_rows.npy -o mapped.npy
  adaam datasets --fetch mnist usps umist
  adaam reproduce
"""


class _Parser(ArgumentParser):
    """Parser whose error has a hint for when an option that takes several names has consumed the file name."""

    def error(self, message: str) -> NoReturn:
        """Exit with a message."""
        if "required" in message and "ROWS" in message:
            message += " (name the file before options that take several names, such as --columns and --drop)"
        super().error(message)


def build_parser() -> ArgumentParser:
    """Return the parser of all commands and options."""
    parser = _Parser(
        prog="adaam",
        description="Cluster the rows of a table, or learn a linear metric from them, without labels.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"adaam {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(run: Callable[[Namespace], None], told: str, description: str | None = None) -> ArgumentParser:
        command = subparsers.add_parser(run.__name__, help=told, description=description)
        command.set_defaults(run=run)
        return command

    rows_help = (
        "a table (.csv, .tsv, .txt, .xlsx, .parquet, .json, .jsonl) or an array (.npy, .npz); "
        '"digits" is a data set that comes with scikit-learn, and "-" a table on standard input'
    )
    source_help = "; .npy, .zarr and .parquet (a file or a folder of files) may be larger than memory"
    results_help = (
        "where to write id, cluster, strength and outlier score of each row: .csv, .tsv, .npy, .npz or .parquet "
        '(default: "-", CSV on standard output)'
    )

    inspect = add(
        commands.inspect,
        "show what a table contains and how its columns would be used",
        "Show what a table contains and how each column would be used. Nothing is written.",
    )
    inspect.add_argument("rows", metavar="ROWS", help=rows_help)

    cluster = add(
        commands.cluster,
        "cluster the rows of a file",
        "Cluster the rows of a file. The metric, the way of partitioning and the number of clusters are "
        "chosen without labels, unless options set them.",
    )
    option = cluster.add_argument
    option("rows", metavar="ROWS", help=rows_help)
    told = "number of clusters (default: auto, estimated from the data)"
    option("--clusters", type=_clusters, default="auto", metavar="C", help=told)
    option("-o", "--output", metavar="FILE", help=results_help)
    told = "known classes to score the clusters against: a column of the table, or a file with one column"
    option("--truth", metavar="COLUMN|FILE", help=told)
    option("--plot", metavar="FILE", help="draw the clusters (.png, .pdf, .svg)")
    option("--report", metavar="FILE", help="write a page about the clusters (.html), to be opened in a browser")
    option("--model", metavar="FILE", help="save the fitted model, for use with adaam predict")
    told = "share of the rows to label -1, as outliers (default: 0)"
    option("--contamination", type=float, default=0.0, metavar="SHARE", help=told)
    option("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
    told = "how the rows are partitioned (default: auto, chosen together with the metric)"
    option("--head", choices=["auto", "k-means", "graph"], default="auto", help=told)
    option("--verbose", action="store_true", help="report the progress, and each metric that is tried")

    predict = add(
        commands.predict,
        "assign new rows to the clusters of a saved model",
        "Assign new rows to the clusters of a saved model. Columns are matched by name and treated as in the fit.",
    )
    predict.add_argument("model", metavar="MODEL", help="a model file written by adaam cluster --model")
    predict.add_argument("rows", metavar="ROWS", help=rows_help)
    predict.add_argument("-o", "--output", metavar="FILE", help=results_help)

    fit = add(
        commands.fit,
        "learn a metric and save it as a model file",
        "Learn a metric, that is, a linear map under which clusters are easier to separate, and save it.",
    )
    option = fit.add_argument
    option("rows", metavar="ROWS", help=rows_help + source_help)
    option("--clusters", type=int, required=True, metavar="C", help="number of clusters")
    option("-o", "--output", metavar="FILE", help="the model file to write")
    told = "pairs of rows to learn from: all, or those within random blocks (default: auto, all if feasible)"
    option("--pairs", choices=["auto", "all", "blocks"], default="auto", help=told)
    option("--dry-run", action="store_true", help="print what the fit would do, its memory and time, and stop")
    option("--verbose", action="store_true", help="report the progress")

    transform = add(
        commands.transform,
        "map rows into the learned space of a saved model",
        "Map rows into a space in which Euclidean distance is the metric of a saved model.",
    )
    option = transform.add_argument
    option("model", metavar="MODEL", help="a model file written by adaam fit or adaam cluster --model")
    option("rows", metavar="ROWS", help=rows_help + source_help)
    told = "where to write the mapped rows: .csv, .npy, .npz or .parquet (default: CSV on standard output)"
    option("-o", "--output", metavar="FILE", default="-", help=told)

    for command in (cluster, fit):
        option = command.add_argument
        option("--components", type=int, metavar="M", help="dimension of the learned space (default: C)")
        told = "number of neighbours of each row (default: log2(n/C))"
        option("--neighbors", type=int, metavar="K", help=told)
        told = (
            "how the rows are prepared; unit: scaled to unit length (default of adaam fit); linear: their leading "
            "principal components; center: all components; standard: all, of standardized columns"
        )
        option("--preparation", choices=["unit", "linear", "center", "standard"], help=told)
    for command in (inspect, cluster, fit):
        add_column_options(command)
    for command in (cluster, predict):
        told = "also write the cluster of each row in every layer, coarsest first"
        command.add_argument("--layers", action="store_true", help=told)
    for command in (cluster, predict, fit, transform):
        command.add_argument("--force", action="store_true", help="overwrite existing output files")
    for command in (inspect, cluster, predict, fit, transform):
        add_reading_options(command)

    run_plan = add(
        reproduce.reproduce,
        "run the paper's evaluation and write its tables, figures and page",
        "Run a plan of data sets and methods, record the results, and write tables, figures and a page. "
        "What has been recorded already is not run again, so a run that was stopped can be continued. Without the "
        "paper's data sets, the digits of scikit-learn are used.",
    )
    option = run_plan.add_argument
    option("--data", metavar="FOLDER", help="folder with the paper's data sets (default: $ADAAM_DATA)")
    option("--plan", metavar="FILE", help='the plan to run: "paper", "digits" or a file of your own')
    option("--quick", action="store_true", help="fewer rounds, data sets and methods, for a first look")
    option("--datasets", nargs="+", metavar="NAME", help="only these data sets of the plan")
    option("--methods", nargs="+", metavar="NAME", help="only these methods of the plan")
    option("--rounds", type=int, metavar="N", help="at most N rounds of each case")
    option("--jobs", type=int, default=1, metavar="N", help="number of cases to run at the same time (default: 1)")
    option("--out", metavar="FOLDER", default=DEFAULT_OUT, help=f"folder for the results (default: {DEFAULT_OUT})")

    report = add(reproduce.report, "make tables, figures and the page again from recorded results")
    report.add_argument("records", metavar="RECORDS", help="a records file (.jsonl, .jsonl.gz) or a results folder")
    report.add_argument("--out", metavar="FOLDER", help="folder to write to (default: that of the records)")

    for command in (run_plan, report):
        command.add_argument("--force", action="store_true", help="write into a folder that contains other files")

    fetch = add(
        datasets.datasets,
        "list the data sets of the evaluation, or download some of them",
        "List the data sets of the evaluation. With --fetch, download some of them from OpenML. "
        "Downloads are verified, can be continued after an interruption, and are stored as .npz files.",
    )
    option = fetch.add_argument
    option("--data", metavar="FOLDER", help="folder of the data sets (default: $ADAAM_DATA)")
    option("--fetch", nargs="+", metavar="NAME", help=f"data sets to download from OpenML: {', '.join(SOURCES)}")
    option("--server", metavar="URL", default=SERVER, help=f"address of the OpenML server (default: {SERVER})")
    return parser


def _clusters(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        count = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is neither a whole number nor auto") from None
    if count < 1:
        raise ArgumentTypeError(f"{count} is no number of clusters; use 1 or more")
    return count


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0 if everything was written, 1 if the command failed.

    A command that a signal interrupted returns 128 plus the number of the signal (130 for Ctrl-C); the parser exits
    with 2 on bad usage.
    """
    try:
        with command_streams(), interruptible():
            return _run(build_parser().parse_args(argv))
    except KeyboardInterrupt as interrupt:  # during the work, before or after it
        return 128 + int(getattr(interrupt, "number", signal.SIGINT))


def _run(arguments: Namespace) -> int:
    try:
        with warnings.catch_warnings():
            # Columns of files have been matched by name already, or have no names.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            warnings.showwarning = lambda message, *_, **__: print(f"adaam: warning: {message}", file=sys.stderr)
            arguments.run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("adaam: interrupted; nothing was written half-way", file=sys.stderr)
        raise
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        if isinstance(error, BrokenPipeError) and error.filename is None:
            # The reader of standard output closed it, as `head` does; errors of other pipes have a filename.
            discard(sys.stdout)
            return 0
        told = str(output_error(error) if isinstance(error, OSError) else error) or type(error).__name__
        print(f"adaam: error: {_by_options(told, arguments)}", file=sys.stderr)
        discard_unwritten(sys.stdout)
        return 1
    return 0


def _by_options(message: str, arguments: Namespace) -> str:
    """Replace names of estimator parameters in a message by the options of the command that set them."""

    def option(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return f"--{name}{' ' if found[3] else ''}" if name in vars(arguments) else found[0]

    return PARAMETERS.sub(option, message)
