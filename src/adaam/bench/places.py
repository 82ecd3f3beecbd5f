"""Where data sets are looked for, and where fetched ones go."""

import os
from pathlib import Path

from platformdirs import user_cache_path

from adaam.bench.data_files import DataFileError


def data_folder(given: str | None) -> Path | None:
    """Return the folder that the option or the environment names."""
    named = given or os.environ.get("ADAAM_DATA")
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        where = "--data" if given else "ADAAM_DATA"
        raise DataFileError(f"{where}={named}: is not a folder. Name one that holds the data sets.")
    return folder


def cache_folder() -> Path:
    """Return the user's own folder for fetched sets: ADAAM_CACHE, or the system's place for caches."""
    own = os.environ.get("ADAAM_CACHE")
    return Path(own) if own else user_cache_path("adaam", appauthor=False)


def searched(folder: Path | None) -> tuple[Path, ...]:
    """Return the folders that are looked in, in order: the one that was named, then the user's own."""
    if folder is not None and not folder.is_dir():
        raise DataFileError(f"{folder}: is not a folder. Give --data a folder that holds the data sets.")
    return tuple(dict.fromkeys(each for each in (folder, cache_folder()) if each is not None))


def fetch_folder(folder: Path | None) -> Path:
    """Return where fetched sets go: the folder that was named if files can be made in it, else the user's own."""
    if folder is not None and os.access(folder, os.W_OK | os.X_OK):
        return folder
    own = cache_folder()
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataFileError(
            f"{own}: cannot be made: {error.strerror}. Name a folder of your own with --data or ADAAM_CACHE."
        ) from error
    return own
