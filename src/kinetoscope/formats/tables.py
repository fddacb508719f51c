"""The table as it is, for other programs: CSV, NDJSON, Arrow IPC."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kinetoscope.common.atomic_path import atomic_path

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace


def write_csv(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write one line a row under a line of column names; null is an empty field, an empty text is ``""``.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_path(path) as partial:
        trace.events.write_csv(partial)


def write_ndjson(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write one JSON object a row, with every column. Columns that hold JSON (``args``, ``input_shapes``) stay text.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_path(path) as partial:
        trace.events.write_ndjson(partial)


def write_arrow(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write an Arrow IPC file (Feather version 2), compressed with zstd.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_path(path) as partial:
        trace.events.write_ipc(partial, compression="zstd")
