"""The file of a trace: one Parquet file with the metadata inside."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec
import polars as pl

from kinetoscope.trace import schema
from kinetoscope.trace.errors import SchemaVersionError, TraceError
from kinetoscope.trace.metadata import Metadata

METADATA_KEY = "kinetoscope"
"""Key of the Parquet footer under which the metadata stands as JSON."""

# Two thirds of a microsecond an event more than the default level, and a tenth smaller.
_ZSTD_LEVEL = 9


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and rename it into place if the block succeeds.

    A writer that is killed or fails leaves the old file or none, never half a file under the name.

    Raises:
        OSError: the folder is missing or cannot be written; the message names it.
    """
    # Said of the path that was asked for, not of the temporary one.
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder to write to", str(path.parent))
    # The suffix stays last: writers choose compression by it.
    suffix = ".part" + "".join(path.suffixes)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=suffix, delete=False) as handle:
        partial = Path(handle.name)
    try:
        yield partial
        # A temporary file is private to its owner; the result gets what an ordinary new file would get.
        umask = os.umask(0)
        os.umask(umask)
        partial.chmod(0o666 & ~umask)
        with open(partial, "rb+") as handle_:
            os.fsync(handle_.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_parquet(events: pl.DataFrame, metadata: Metadata, path: str | os.PathLike[str]) -> None:
    """Write one Parquet file, zstd-compressed, atomically.

    Columns that are null throughout cost a few bytes each, so every file carries the whole schema.
    """
    text = msgspec.json.encode(metadata).decode()
    with atomic_path(Path(path)) as partial:
        events.write_parquet(partial, compression="zstd", compression_level=_ZSTD_LEVEL, metadata={METADATA_KEY: text})


def read_parquet(path: str | os.PathLike[str]) -> tuple[pl.DataFrame, Metadata]:
    """Read what :func:`write_parquet` wrote, whatever version of the schema up to ours wrote it.

    Raises:
        FileNotFoundError: there is no such file.
        SchemaVersionError: the file is newer than this Kinetoscope.
        TraceError: the file is no Parquet file or no trace.
    """
    metadata = read_metadata(path)
    frame = pl.read_parquet(os.fspath(path))
    if "name" not in frame.columns or "start_ns" not in frame.columns:
        raise TraceError(f"{os.fspath(path)} is a Parquet file but no trace: it has no columns name and start_ns")
    return schema.conform(frame), metadata


def read_metadata(path: str | os.PathLike[str]) -> Metadata:
    """Read only the metadata of a trace file, without its events.

    Raises:
        FileNotFoundError: there is no such file.
        SchemaVersionError: the file is newer than this Kinetoscope.
        TraceError: the file is no Parquet file or carries no trace metadata.
    """
    name = os.fspath(path)
    try:
        footer = pl.read_parquet_metadata(os.fspath(path))
    except FileNotFoundError:
        raise
    except Exception as error:
        raise TraceError(f"{name} is no readable Parquet file ({error})") from error
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
