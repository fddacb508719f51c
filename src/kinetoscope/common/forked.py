"""Processes that were forked off: what of their parent they cannot use, and a fresh interpreter to use it in.

Polars answers from a pool of threads, and threads do not survive a fork: in a child of a process that had used it, a query
waits for ever. So what needs Polars is refused there by name, or done by another interpreter.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_pool_died = False
_pool_in_parent = False


class ForkedProcessError(RuntimeError):
    """Something cannot work in a process that was forked off; the message names the way out."""


def polars_is_dead() -> bool:
    """Whether this process was forked off after its parent had used Polars, so that a query would never end."""
    return _pool_died


def require_polars(what: str) -> None:
    """Check that Polars can be used.

    Args:
        what: the thing that needs it, to begin the message with.

    Raises:
        ForkedProcessError: the process was forked off from one that had used Polars.
    """
    if _pool_died:
        raise ForkedProcessError(
            f"{what} needs Polars, whose threads do not survive a fork, and this process was forked off from one that had used "
            "it. Recording, events(), key_averages().table() and the exports work here: export_chrome_trace() now and "
            "kinetoscope.read() elsewhere, or start the process with the method 'spawn' or 'forkserver'"
        )


def in_fresh_interpreter(function: str, *arguments: Any) -> Any:
    """Call a function in a new Python, which knows nothing of this process, and return what it returns.

    Args:
        function: ``module:name``.
        arguments: its arguments; they and the answer are pickled, between two processes of our own.

    Raises:
        OSError: no Python can be started.
        Exception: whatever the function raises.
    """
    program = "import sys; sys.path[:] = sys.argv[1:]; from kinetoscope.common.forked import _serve; _serve()"
    paths = [str(Path(__file__).resolve().parents[2]), *map(str, sys.path)]
    done = subprocess.run(  # noqa: S603 - this very interpreter
        [sys.executable, "-c", program, *paths],
        input=pickle.dumps((function, arguments), protocol=pickle.HIGHEST_PROTOCOL),
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode or not done.stdout:
        raise ChildProcessError(f"the Python that was to do it ended with status {done.returncode}: {sys.executable}")
    succeeded, answer = pickle.loads(done.stdout)  # noqa: S301 - written by `_serve`, in a process that we started
    if not succeeded:
        raise answer
    return answer


def _serve() -> None:
    """Be the fresh interpreter: one call from standard input, one answer to standard output."""
    # What the function prints must not stand in the answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    function, arguments = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - written by `in_fresh_interpreter`
    module, _, name = function.partition(":")
    try:
        call: Callable[..., Any] = getattr(import_module(module), name)
        answer: tuple[bool, Any] = (True, call(*arguments))
    except Exception as error:
        answer = (False, error)
    with answers:
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)


def _has_pool() -> bool:
    """Whether Polars has started its threads in this process. It does so at the first query, not when it is imported."""
    if "polars" not in sys.modules:
        return False
    threads = Path("/proc/self/task")
    if not threads.is_dir():
        return True  # elsewhere nobody tells: it has been imported, so it has been used
    try:
        return any((task / "comm").read_text().startswith("polars-0") for task in threads.iterdir())
    except OSError:
        return True


def _before_fork() -> None:
    global _pool_in_parent
    _pool_in_parent = _has_pool()


def _in_child() -> None:
    global _pool_died
    # A child of a child has no pool either, nor can it get one.
    _pool_died = _pool_died or _pool_in_parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)
