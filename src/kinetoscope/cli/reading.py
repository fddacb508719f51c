"""Reading traces for a command: one, or a folder of them, with errors in one line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinetoscope.cli.console import CommandError, progress, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinetoscope.trace.trace import Trace

TraceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A trace: Kinetoscope's .parquet, or Kineto's JSON, plain or compressed; a file, archive.zip::member, a URL, "
        "or - for standard input.",
    ),
]

SUFFIXES = (".parquet", ".json", ".json.gz", ".json.zst", ".trace", ".trace.gz")
"""Names of files in a folder that may be traces."""


def read_trace(path: Path | str) -> Trace:
    """Read a trace for a command.

    Raises:
        CommandError: there is none; the message says what is there instead.
    """
    import kinetoscope

    with progress(f"reading {path}"), errors_in_one_line(path), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = kinetoscope.read(path)
    for warning in caught:
        say(str(warning.message))
    return trace


class errors_in_one_line:  # noqa: N801 - reads as a statement
    """Turn what reading and writing raise into the one error of commands."""

    def __init__(self, path: Path | str) -> None:
        """``path`` stands in messages that do not name it."""
        self.path = path

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Raise CommandError instead of TraceError, FileNotFoundError and OSError."""
        import kinetoscope

        if isinstance(error, kinetoscope.TraceError):
            raise CommandError(str(error)) from error
        if isinstance(error, BrokenPipeError):
            return
        if isinstance(error, FileNotFoundError):
            raise CommandError(f"{error.filename or self.path}: no such file or folder") from error
        if isinstance(error, OSError):
            raise CommandError(f"{error.filename or self.path}: {error.strerror or error}") from error


def files_of(folder: Path) -> list[Path]:
    """The files in a folder, at any depth, whose names are those of traces, by name.

    Raises:
        CommandError: there are none.
    """
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name.lower().endswith(SUFFIXES))
    if not found:
        raise CommandError(f"{folder}: no traces in this folder; their names end in {', '.join(SUFFIXES)}")
    return found


def read_folder(folder: Path) -> Iterator[tuple[Path, Trace | CommandError]]:
    """Read the traces of a folder one by one; what is none comes as its error.

    Raises:
        CommandError: the folder has no file that may be one.
    """
    for path in files_of(folder):
        try:
            yield path, read_trace(path)
        except CommandError as error:
            yield path, error
