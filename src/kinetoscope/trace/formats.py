"""Which file format is meant: by content when reading, by suffix when writing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kinetoscope.trace import chrome_reader, chrome_writer, parquet

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace

PARQUET_MAGIC = b"PAR1"


def read(path: str | os.PathLike[str]) -> Trace:
    """Read a trace, its format recognised by the first bytes of the file."""
    from kinetoscope.trace.trace import Trace

    with open(path, "rb") as handle:
        magic = handle.read(4)
    if magic == PARQUET_MAGIC:
        return Trace(*parquet.read_parquet(path))
    return chrome_reader.read_chrome(path)


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace in the format that the suffix names."""
    name = Path(path).name.lower()
    if name.endswith(".parquet"):
        parquet.write_parquet(trace.events, trace.metadata, path)
    elif name.endswith((".json", ".json.gz")):
        chrome_writer.write_chrome(trace, path)
    else:
        raise ValueError(f"{os.fspath(path)}: unknown suffix; write to .parquet, .json or .json.gz")
