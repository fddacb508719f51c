"""The file of a trace: one Parquet file with the metadata and the side tables inside."""

from __future__ import annotations

import io
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping

import msgspec
import polars as pl

from kinetoscope.common.atomic_path import atomic_path
from kinetoscope.trace import schema
from kinetoscope.trace.errors import SchemaVersionError, TraceError
from kinetoscope.trace.metadata import Metadata

METADATA_KEY = "kinetoscope"
"""Key of the Parquet footer under which the metadata stands as JSON."""

TABLE_PREFIX = "kinetoscope.table."
"""What the keys of side tables begin with; the table's name follows, its value is a Parquet file in base64."""

# Two thirds of a microsecond an event more than the default level, and a tenth smaller.
ZSTD_LEVEL = 9


def write_parquet(
    events: pl.DataFrame,
    metadata: Metadata,
    path: str | os.PathLike[str],
    tables: Mapping[str, pl.DataFrame] | None = None,
) -> None:
    """Write one Parquet file, zstd-compressed, atomically.

    Columns that are null throughout cost a few bytes each, so every file carries the whole schema.

    Args:
        events: the rows.
        metadata: stands in the footer.
        path: the file.
        tables: side tables by name; they stand in the footer too, so that any Parquet reader opens the events alone.

    Raises:
        OSError: the file cannot be written.
    """
    footer = footer_of(metadata, tables)
    with atomic_path(path) as partial:
        events.write_parquet(partial, compression="zstd", compression_level=ZSTD_LEVEL, metadata=footer)


def footer_of(metadata: Metadata, tables: Mapping[str, pl.DataFrame] | None = None) -> dict[str, str]:
    """What the footer of a trace's file holds besides what Parquet puts there."""
    # The version is that of the file which is written, whatever file the metadata came from.
    text = msgspec.json.encode(msgspec.structs.replace(metadata, schema_version=schema.SCHEMA_VERSION)).decode()
    footer = {METADATA_KEY: text}
    for name, table in (tables or {}).items():
        content = io.BytesIO()
        table.write_parquet(content, compression="zstd", compression_level=ZSTD_LEVEL)
        footer[TABLE_PREFIX + name] = b64encode(content.getvalue()).decode()
    return footer


def read_parquet(path: str | os.PathLike[str]) -> tuple[pl.DataFrame, Metadata, dict[str, pl.DataFrame]]:
    """Read what :func:`write_parquet` wrote, whatever version of the schema up to ours wrote it.

    Returns:
        The events, the metadata and the side tables by name.

    Raises:
        FileNotFoundError: there is no such file.
        SchemaVersionError: the file is newer than this Kinetoscope.
        TraceError: the file is no Parquet file or no trace, or is damaged.
    """
    name = os.fspath(path)
    footer = _footer(name)
    metadata = _metadata(footer, name)
    try:
        frame = pl.read_parquet(name)
        tables = {
            key.removeprefix(TABLE_PREFIX): pl.read_parquet(io.BytesIO(b64decode(value)))
            for key, value in footer.items()
            if key.startswith(TABLE_PREFIX)
        }
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise TraceError(f"{name} is a damaged Parquet file ({error})") from error
    if "name" not in frame.columns or "start_ns" not in frame.columns:
        raise TraceError(f"{name} is a Parquet file but no trace: it has no columns name and start_ns")
    return schema.conform(frame), metadata, tables


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a local Parquet file."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as handle:
        return handle.read(4) == b"PAR1"


def read_metadata(path: str | os.PathLike[str]) -> Metadata:
    """Read only the metadata of a trace file, without its events.

    Raises:
        FileNotFoundError: there is no such file.
        SchemaVersionError: the file is newer than this Kinetoscope.
        TraceError: the file is no Parquet file or carries no trace metadata.
    """
    name = os.fspath(path)
    return _metadata(_footer(name), name)


def _footer(name: str) -> dict[str, str]:
    try:
        return pl.read_parquet_metadata(name)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise TraceError(f"{name} is no readable Parquet file ({error})") from error


def _metadata(footer: Mapping[str, str], name: str) -> Metadata:
    text = footer.get(METADATA_KEY)
    if text is None:
        raise TraceError(f"{name} is a Parquet file that Kinetoscope did not write: its footer has no {METADATA_KEY!r} entry")
    try:
        version = msgspec.json.decode(text, type=_Version).schema_version
        if version > schema.SCHEMA_VERSION:
            raise SchemaVersionError(
                f"{name} has schema version {version}; this Kinetoscope reads up to {schema.SCHEMA_VERSION}. "
                "Upgrade with: pip install --upgrade kinetoscope"
            )
        return msgspec.json.decode(text, type=Metadata)
    except msgspec.DecodeError as error:
        raise TraceError(f"{name}: the trace metadata in the footer is damaged ({error})") from error


class _Version(msgspec.Struct):
    """The one member that must be readable in every version."""

    schema_version: int = schema.SCHEMA_VERSION
