"""Keeping notices of Kineto and torch off the program's stderr.

Kineto (in torch 2.13) writes two lines that begin with ``USDT:`` at each start and stop, past Python and past its own
log level, unless errors are silenced as well. While it starts or stops, what is written to stderr goes through ``sed``, which
leaves them out. A process of its own does that, so that the last words of a process that aborts meanwhile still arrive.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

FORGOTTEN_BLOCK = "Memory block of unknown size was allocated before the profiling started"
"""What torch's allocator says of the first block, and then of every thousandth, that is freed and was there before."""

_NOTICES = ("^USDT:.*profiler_(start|stop)$", FORGOTTEN_BLOCK)
_STDERR = 2
_PATIENCE_S = 1.0

_lock = threading.Lock()


@contextmanager
def without_kineto_notices() -> Iterator[bool]:
    """Drop the notices from what the block writes to stderr; everything else passes.

    Yields whether they are dropped. They are not where it could do harm: with other Python threads about, which might start a
    process that would inherit the way through ``sed``; without a POSIX stderr or ``sed``; or with KINETOSCOPE_QUIET=0.
    """
    sed = shutil.which("sed") if os.name == "posix" else None
    if sed is None or os.environ.get("KINETOSCOPE_QUIET") == "0" or _other_threads():
        yield False
        return
    with _lock:
        try:
            _flush()
            original, filtering = _filter(sed)
        except OSError:
            yield False
            return
        try:
            yield True
        finally:
            os.dup2(original, _STDERR)
            os.close(original)
            _wait(filtering)


def _filter(sed: str) -> tuple[int, int]:
    """Put sed between stderr and where it leads; return where it leads and the process of sed."""
    reading, writing = os.pipe()
    original = os.dup(_STDERR)
    program = [word for notice in _NOTICES for word in ("-e", f"/{notice}/d")]
    try:
        filtering = os.posix_spawn(
            sed,
            ["sed", "-E", *program],
            # Of the program's environment nothing that could change what sed does or loads.
            {"LC_ALL": "C"},
            file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, _STDERR, 1)],
        )
        os.dup2(writing, _STDERR)
    except OSError:
        os.close(original)
        raise
    finally:
        os.close(reading)
        os.close(writing)
    return original, filtering


def _wait(process: int) -> None:
    """Wait until all has passed; not for ever, should a process that was started meanwhile still write to the pipe."""
    deadline = time.monotonic() + _PATIENCE_S
    with suppress(ChildProcessError):  # the program lets the system reap its children
        while os.waitpid(process, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.0002)


def _other_threads() -> bool:
    # Those of a data loader only move data between its processes; loaders, and multiprocessing's queues, start them.
    harmless = ("QueueFeederThread", "_pin_memory_loop")
    others = (thread.name for thread in threading.enumerate() if thread is not threading.current_thread())
    return any(not any(name in other for name in harmless) for other in others)


def _flush() -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
