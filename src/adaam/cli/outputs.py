"""Checks the outputs of a command before work starts: existing files are overwritten only with --force."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

STANDARD = "-"  # standard input as an input, standard output as an output


class OutputError(ValueError):
    """An output cannot be written, or would destroy something."""


def check_outputs(inputs: Sequence[str | None], outputs: Sequence[str | None], *, force: bool) -> None:
    """Refuse outputs that would destroy an input, another output or an existing file, or that cannot be written.

    None stands for an option that was not given, "-" for standard input and output, which are always allowed. With
    `force`, existing files may be replaced, but never an input.
    """
    targets = [target for target in outputs if target and target != STANDARD]
    for i, target in enumerate(targets):
        for source in inputs:
            if source and source != STANDARD:
                _check_apart(target, source)
        for other in targets[:i]:
            if _same(target, other):
                raise OutputError(f"{target}: is named for two outputs. Give each a file of its own.")
        _check_writable(target)
        if not force and Path(target).is_file():
            raise OutputError(f"{target}: exists already. Choose another name, or add --force to replace it.")


def check_folder(folder: Path, made: Sequence[str], *, force: bool) -> None:
    """Refuse a folder that holds something, unless the command made it itself or `force` is given.

    A folder that the command made holds a file of one of the names `made`.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file; results are written to a folder. Choose another name.")
    if force or not folder.is_dir() or not any(folder.iterdir()):
        return
    if not any((folder / name).exists() for name in made):
        raise OutputError(
            f"{folder}: holds files that this command did not make. Choose a new folder, or add --force to write there."
        )


def _check_apart(target: str, source: str) -> None:
    if _same(target, source):
        raise OutputError(
            f"{target}: is also an input of this command and would be destroyed. Choose another name for the output."
        )
    folder = Path(source).resolve()
    if folder.is_dir() and folder in Path(target).resolve().parents:
        raise OutputError(
            f"{target}: lies in the folder {source}, which is an input of this command. Write it somewhere else."
        )


def _same(one: str, other: str) -> bool:
    """Whether two paths are the same file, also through symbolic or hard links."""
    first, second = Path(one), Path(other)
    if _is_device(first):
        return False
    if first.exists() and second.exists():
        return first.samefile(second)
    return first.resolve() == second.resolve()


def _is_device(path: Path) -> bool:
    """Whether a path is a device, a pipe or a socket, which writing cannot destroy."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _check_writable(target: str) -> None:
    path = Path(target).resolve()
    if path.is_dir():
        raise OutputError(f"{target}: is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise OutputError(
            f"{target}: its folder does not exist. Make it first: mkdir -p {shlex.quote(str(path.parent))}"
        )
    if path.exists() and not os.access(path, os.W_OK):
        raise OutputError(f"{target}: you have no permission to write it. Choose another name, or change that.")
    # Outputs are written to a temporary file beside the target and then renamed, so the folder must be writable.
    if not _is_device(path) and not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{target}: you have no permission to write in its folder. Choose another folder.")
