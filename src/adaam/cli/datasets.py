"""The command `datasets`: lists where each data set is and how to obtain it, and downloads those on OpenML."""

import sys
from argparse import Namespace
from pathlib import Path
from time import monotonic
from typing import IO

from adaam.bench.data_files import DataFileError
from adaam.bench.datasets import DATASETS, data_folder, fetch_folder, find_files
from adaam.bench.download import DownloadError, Network
from adaam.bench.openml import SERVER, SOURCES, fetch
from adaam.bench.session import duration
from adaam.cli.commands import say
from adaam.progress import ChangingLine

MEGABYTE = 1e6
PART_OF = {"mnist10k": "mnist"}


def datasets(arguments: Namespace) -> None:
    """List the data sets, or fetch some."""
    folder = data_folder(arguments.data)
    if arguments.fetch:
        fetch_all(arguments.fetch, folder, arguments.server)
        return
    for name, each in DATASETS.items():
        paths = find_files(name, folder, required=False)
        here = f"here: {', '.join(map(str, paths))}" if paths else "embedded" if name == "digits" else "not here"
        height, width = each.image_shape
        print(f"{name}: {each.n} images of {height}x{width}, {each.c} classes ({here})")
        for key in ("found", "obtain", "fetched", "terms", "note"):
            if told := getattr(each, key):
                print(f"  {key + ':':8} {told}")
    print(
        "Files may be .npz (X, y, image_shape), .mat (fea, gnd) or, for mnist, IDX. "
        "Nothing is downloaded unless --fetch asks for it."
    )


def fetch_all(names: list[str], folder: Path | None, server: str = SERVER) -> None:
    """Fetch data sets one by one; if one fails, the others are still fetched."""
    wanted = tuple(dict.fromkeys(PART_OF.get(name, name) for name in names))
    for name in wanted:
        if name not in SOURCES:
            known = f" To obtain it: {DATASETS[name].obtain}." if name in DATASETS else ""
            raise DataFileError(f"--fetch {name}: cannot be fetched; use some of {', '.join(SOURCES)}.{known}")
    place = fetch_folder(folder)
    failures = []
    for name in wanted:
        elsewhere = [path for path in find_files(name, folder, required=False) if path.parent != place]
        if elsewhere:
            say(f"{name}: {', '.join(map(str, elsewhere))} (there already, and looked for there first)")
            continue
        progress = Progress(name, sys.stderr)
        try:
            path = fetch(name, place, Network(say=progress.say, tell=progress.tell), server)
            progress.say(f"{name}: {path}")
        except KeyboardInterrupt:
            progress.say("stopped; what was downloaded is kept, and the same command goes on from there")
            raise
        except (DownloadError, DataFileError) as error:
            progress.line.end()
            failures.append(f"  {error}")
    if failures:
        raise ValueError(f"{len(failures)} of {len(wanted)} could not be fetched:\n" + "\n".join(failures))


class Progress:
    """Progress of a download: continuous on a terminal, a line for each tenth elsewhere."""

    def __init__(self, name: str, stream: IO[str]) -> None:
        self._name, self.line = name, ChangingLine(stream)
        self._told, self._tenth = 0.0, -1
        self._start: tuple[float, int] | None = None  # time and number of bytes of the first call of `tell`

    def tell(self, n_bytes: int, total: int | None) -> None:
        """Show the number of bytes so far, the rate and the time left."""
        now = monotonic()
        start, first = self._start = self._start or (now, n_bytes)
        tenth = 10 * n_bytes // total if total else int(n_bytes / MEGABYTE) // 10
        if now - self._told < 0.1 and n_bytes != total if self.line.changes else tenth == self._tenth:
            return
        self._told, self._tenth = now, tenth
        parts = [f"{n_bytes / MEGABYTE:.1f}" + (f" of {total / MEGABYTE:.1f} MB" if total else " MB")]
        if n_bytes > first and now > start:
            rate = (n_bytes - first) / (now - start)
            parts.append(f"{rate / MEGABYTE:.1f} MB/s")
            parts += [f"about {duration((total - n_bytes) / rate)} left"] if total else []
        self.line.show(f"{self._name}: {', '.join(parts)}")

    def say(self, text: str) -> None:
        """End the progress line and print a message."""
        self.line.end()
        say(text)
