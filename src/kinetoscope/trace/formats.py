"""Which file format is meant: by content when reading, by suffix when writing."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from kinetoscope.trace import chrome_reader, chrome_writer, parquet, perfetto_writer, sources, speedscope_writer, table_writers
from kinetoscope.trace.issues import Issues

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace

PARQUET_MAGIC = b"PAR1"


def read(path: str | os.PathLike[str]) -> Trace:
    """Read a trace: Kinetoscope's Parquet or Kineto JSON, packed or not, its format recognised by its first bytes.

    Args:
        path: a local path, a URL that fsspec knows, ``-`` for standard input, or ``archive.zip::member``.
    """
    from kinetoscope.trace.trace import Trace

    name = os.fspath(path)
    if name == "-" or sources.is_url(name):
        issues = Issues()
        blocks = sources.text_blocks(name, issues)
        first = next(blocks, b"")
        if not first.startswith(PARQUET_MAGIC):
            return chrome_reader.read_blocks(chain([first], blocks), name, issues)
        with NamedTemporaryFile(suffix=".parquet") as copy:
            copy.writelines(chain([first], blocks))
            copy.flush()
            return Trace(*parquet.read_parquet(copy.name))
    if is_parquet(name):
        return Trace(*parquet.read_parquet(path))
    return chrome_reader.read_chrome(path)


def is_parquet(name: str) -> bool:
    """Tell whether a path is a local Parquet file."""
    if not os.path.isfile(name):
        return False
    with open(name, "rb") as handle:
        return handle.read(4) == PARQUET_MAGIC


Writer = Callable[["Trace", "str | os.PathLike[str]"], None]

# The longer suffix first where one ends in another.
_WRITERS: dict[str, Writer] = {
    ".parquet": lambda trace, path: parquet.write_parquet(trace.events, trace.metadata, path),
    ".speedscope.json": speedscope_writer.write_speedscope,
    ".json": chrome_writer.write_chrome,
    ".json.gz": chrome_writer.write_chrome,
    ".pftrace": perfetto_writer.write_perfetto,
    ".perfetto-trace": perfetto_writer.write_perfetto,
    ".folded": lambda trace, path: trace.call_tree().write_collapsed(path),
    ".collapsed": lambda trace, path: trace.call_tree().write_collapsed(path),
    ".pb.gz": lambda trace, path: trace.call_tree().write_pprof(path),
    ".pprof": lambda trace, path: trace.call_tree().write_pprof(path),
    ".csv": lambda trace, path: table_writers.write_csv(trace.events, path),
    ".ndjson": lambda trace, path: table_writers.write_ndjson(trace.events, path),
    ".jsonl": lambda trace, path: table_writers.write_ndjson(trace.events, path),
    ".arrow": lambda trace, path: table_writers.write_arrow(trace.events, path),
    ".feather": lambda trace, path: table_writers.write_arrow(trace.events, path),
}


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace in the format that the suffix names.

    Raises:
        ValueError: the suffix names no format; the message lists those there are.
        OSError: the file cannot be written.
    """
    writer_of(path)(trace, path)


def writer_of(path: str | os.PathLike[str]) -> Writer:
    """What writes the format that a suffix names.

    Raises:
        ValueError: the suffix names no format; the message lists those there are.
    """
    name = Path(path).name.lower()
    for suffix, writer in _WRITERS.items():
        if name.endswith(suffix):
            return writer
    raise ValueError(f"{os.fspath(path)}: unknown suffix; write to {', '.join(_WRITERS)}")
