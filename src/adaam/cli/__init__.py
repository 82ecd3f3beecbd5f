"""The command line: parses and calls; errors become one line and an exit code."""

import os
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from typing import Any

from adaam._version import __version__
from adaam.cli import commands, datasets, reproduce

EXAMPLES = """examples:
  adaam cluster digits --clusters 10 --plot digits.png
  adaam cluster rows.csv --clusters 5 -o labels.csv
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
    rows_help = 'a .npy, .npz, .csv or .parquet file of numbers, or "digits" for the embedded data set'
    source_help = "; .npy, .parquet (also a folder of them) and .zarr are read block by block and may exceed memory"

    command = subparsers.add_parser("cluster", help="cluster the rows of a file")
    command.set_defaults(run=commands.cluster)
    command.add_argument("rows", metavar="ROWS", help=rows_help)
    _add_learner_options(command, _clusters)
    command.add_argument("-o", "--output", metavar="FILE", help='labels as .csv, .npy, .npz, .parquet; "-" prints CSV')
    command.add_argument("--truth", metavar="FILE", help="known classes, one a row, to score the clusters against")
    command.add_argument("--plot", metavar="FILE", help="a picture of the clusters (.png, .pdf, .svg)")
    command.add_argument("--model", metavar="FILE", help="also write the fitted model")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the k-means starts (default: 0)")
    command.add_argument(
        "--head",
        choices=["auto", "k-means", "graph"],
        default="auto",
        help="how rows are partitioned (default: chosen with the metric)",
    )
    command.add_argument("--verbose", action="store_true", help="tell phases, and each metric as it has been tried")

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

    command = subparsers.add_parser("transform", help="map rows by a model file")
    command.set_defaults(run=commands.transform)
    command.add_argument("model", metavar="MODEL", help="a model file written by fit or cluster --model")
    command.add_argument("rows", metavar="ROWS", help=rows_help + source_help)
    command.add_argument("-o", "--output", metavar="FILE", default="-", help="mapped rows (default: CSV on stdout)")

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
    known = "number of clusters" if clusters is int else 'number of clusters, or "auto"'
    command.add_argument("--clusters", type=clusters, required=True, metavar="C", help=known)
    command.add_argument("--components", type=int, metavar="M", help="dimension of the learned space (default: C)")
    command.add_argument("--neighbors", type=int, metavar="K", help="neighbours of each row (default: log2(n/C))")
    command.add_argument(
        "--preparation",
        choices=["unit", "linear", "center", "standard"],
        help="unit: rows to unit length first (default of fit); linear: a map that is linear in the input itself",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 1 for work that failed, 130 for an interrupt (2, bad usage, exits in the parser)."""
    arguments = build_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            arguments.run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("adaam: interrupted; nothing was written half-way", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away, as `head` does; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        print(f"adaam: error: {error or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


def _show_warning(message: Any, category: Any, *_: Any, **__: Any) -> None:
    print(f"adaam: warning: {message}", file=sys.stderr)
