"""Keeping Kineto's notices off the program's stderr.

Kineto (in torch 2.13) writes two lines that begin with ``USDT:`` at each start and stop, past Python and past its own
log level, unless errors are silenced as well. While it starts or stops, stderr goes to a file; what is no such notice
is written on right after.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile

_NOTICE = re.compile(rb"^USDT:.*profiler_(start|stop)\n?$")
_STDERR = 2

_lock = threading.Lock()


@contextmanager
def without_kineto_notices() -> Iterator[None]:
    """Drop Kineto's notices from what the block writes to stderr; everything else passes, a moment later.

    Does nothing where it could do harm: with other Python threads about, which might start a process that would
    inherit the file; without a POSIX stderr; or with KINETOSCOPE_QUIET=0.
    """
    if os.name != "posix" or os.environ.get("KINETOSCOPE_QUIET") == "0" or _other_threads():
        yield
        return
    with _lock:
        try:
            _flush()
            held = TemporaryFile()  # noqa: SIM115 - closed below, after what it holds was passed on
            original = os.dup(_STDERR)
            os.dup2(held.fileno(), _STDERR)
        except OSError:
            yield
            return
        try:
            yield
        finally:
            os.dup2(original, _STDERR)
            os.close(original)
            _pass_on(held)


def _other_threads() -> bool:
    # Those of a data loader only move data between its processes; loaders, and multiprocessing's queues, start them.
    harmless = ("QueueFeederThread", "_pin_memory_loop")
    others = (thread.name for thread in threading.enumerate() if thread is not threading.current_thread())
    return any(not any(name in other for name in harmless) for other in others)


def _flush() -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


def _pass_on(held: object) -> None:
    with held as file:  # type: ignore[attr-defined]
        file.seek(0)
        rest = b"".join(line for line in file if not _NOTICE.match(line))
        while rest:
            try:
                rest = rest[os.write(_STDERR, rest) :]
            except OSError:
                return
