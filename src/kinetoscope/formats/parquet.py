"""Kinetoscope's own Parquet as a format among the others."""

from __future__ import annotations

import os
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from kinetoscope.trace.parquet import read_parquet, write_parquet
from kinetoscope.trace.trace import Trace

if TYPE_CHECKING:
    from kinetoscope.formats.sources import Source


def read(source: Source) -> Trace:
    """Read a trace from a local file, or from a copy of what comes from elsewhere: Parquet is read from its end.

    Raises:
        SchemaVersionError: the file is newer than this Kinetoscope.
        TraceError: the file is no trace, or is damaged.
    """
    if source.path is not None:
        source.close()
        return _trace(source.path)
    with NamedTemporaryFile(suffix=".parquet") as copy:
        copy.writelines(source.blocks())
        copy.flush()
        return _trace(copy.name)


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write the complete table, with metadata and side tables.

    Raises:
        OSError: the file cannot be written.
    """
    write_parquet(trace.events, trace.metadata, path, trace.tables)


def _trace(path: str) -> Trace:
    events, metadata, tables = read_parquet(path)
    return Trace(events, metadata, tables=tables)
