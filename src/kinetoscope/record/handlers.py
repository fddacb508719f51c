"""Handlers for ``on_trace_ready``: what to do with a window when it is complete."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str],
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[Any], None]:
    """Return a handler that writes each window into a folder that TensorBoard takes as its logdir.

    Each call writes ``<worker>.<nanoseconds>.pt.trace.json`` (``.gz`` with ``use_gzip``). The folder is made when it
    is needed. What can never become a folder to write into is an error already here, before anything was recorded.

    Args:
        dir_name: the folder.
        worker_name: must differ between the workers that write into one folder; ``<hostname>_<pid>`` of the process that
            writes if it is not given.
        use_gzip: compress the files.
        use_python_export: accepted because ``torch.profiler`` has it; every export here is the same.

    Raises:
        RuntimeError: the folder cannot be made or written; here, or when the handler is called.
    """
    folder = Path(dir_name)
    _check_possible(folder)

    def write(prof: Any) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {folder} ({error})") from error
        # Asked for at each call: a handler made before a fork serves each process under its own id.
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(str(folder / name))

    return write


def _check_possible(folder: Path) -> None:
    """Raise RuntimeError if the nearest existing path above the folder is a file or closed to us; create nothing."""
    nearest = folder.absolute()
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise RuntimeError(f"Can't create directory: {folder} ({nearest} is not a directory)")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise RuntimeError(f"Can't create directory: {folder} ({nearest} cannot be written)")
