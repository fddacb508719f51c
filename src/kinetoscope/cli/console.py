"""What all commands share: their one kind of error, where they print, and progress on what takes long."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console

PATIENCE_SECONDS = 1.0
"""What takes longer than this shows that it is at work."""


class CommandError(Exception):
    """A command cannot do what it was asked to; the message is the one line that the user sees."""

    def __init__(self, message: str, status: int = 2) -> None:
        """``status`` is the exit status: 2 where the request was wrong, 1 where the answer is no."""
        super().__init__(message)
        self.status = status


PLAIN_WIDTH = 120
"""Columns of text where no terminal and no variable says how many."""


def console(stream: IO[str]) -> Console:
    """A console that writes to the stream: with colours on a terminal, unless NO_COLOR is set, and plain elsewhere.

    Its width is that of the terminal, or what the variable COLUMNS says, else :data:`PLAIN_WIDTH`.
    """
    shown = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not shown.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        shown.width = PLAIN_WIDTH
    return shown


def say(text: str) -> None:
    """Print one line of ours on stderr, for people."""
    try:
        print(f"kinetoscope: {text}", file=sys.stderr)
    except (OSError, ValueError, AttributeError):
        return  # stderr is closed: there is nobody to tell


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show on stderr that something is being done, if it takes long and stderr is a terminal."""
    shown = console(sys.stderr)
    if not shown.is_terminal:
        yield
        return
    status = shown.status(what)
    timer = threading.Timer(PATIENCE_SECONDS, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def tolerate_any_name(stream: IO[str]) -> None:
    """Print what the stream's encoding lacks as escapes: a name in a trace must not end the command."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def abandon_stdout() -> None:
    """Let nothing more reach a stdout whose reader has gone, so that Python's flush at exit stays quiet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
