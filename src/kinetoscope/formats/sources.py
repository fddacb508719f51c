"""Where the text of a trace comes from: files, archives, URLs and standard input, recognised by their content."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import zipfile
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, BinaryIO

from isal import isal_zlib

from kinetoscope.trace.errors import TraceError
from kinetoscope.trace.issues import Issues

BLOCK_BYTES = 1 << 20

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZIP_MAGIC = b"PK\x03\x04"

LARGEST_RATIO = 400
"""Traces shrink to a tenth or a thirtieth. What inflates beyond this ratio was made to fill memory."""
RATIO_COUNTS_FROM = 256 << 20
"""Bytes below which no ratio is refused."""

# What is inflated at a time, and lost where the compressed data is damaged.
_INFLATED_BYTES = 1 << 16

MEMBER_SEPARATOR = "::"
"""Between an archive's path and the name of a member in it."""

_TRACE_SUFFIXES = (".json", ".json.gz", ".json.zst", ".trace", ".trace.gz")


class Source:
    """What is read: its name, its first bytes, and its decompressed content in blocks, once."""

    def __init__(self, name: str, issues: Issues | None = None) -> None:
        """Open a source; see :func:`text_blocks`, which says what ``name`` may be and what is raised."""
        self.name = name
        self.issues = Issues() if issues is None else issues
        self._rest = text_blocks(name, self.issues)
        self.start = next(self._rest, b"")
        """The first block of the content."""

    @property
    def path(self) -> str | None:
        """The local file whose bytes the content is; None for what is compressed or comes from elsewhere."""
        if not os.path.isfile(self.name):
            return None
        with open(self.name, "rb") as handle:
            return self.name if self.start.startswith(handle.read(8)) else None

    def blocks(self) -> Iterator[bytes]:
        """The content, from its first block on."""
        yield self.start
        yield from self._rest

    def close(self) -> None:
        """Let go of the file, where its blocks are not read to their end."""
        self._rest.close()


def text_blocks(path: str | os.PathLike[str], issues: Issues) -> Generator[bytes, None, None]:
    """Yield the decompressed content of a file in blocks.

    Args:
        path: a local path, a URL that fsspec knows, or ``-`` for standard input. ``archive.zip::name`` names a member.
        issues: counts what is wrong with the compression.

    Raises:
        FileNotFoundError, PermissionError: as from ``open``.
        TraceError: a folder, an archive without exactly one trace, compression that cannot be read here, or content that
            inflates beyond measure.
    """
    name = os.fspath(path)
    place, member = name, None
    if MEMBER_SEPARATOR in name and not os.path.exists(name):
        place, _, member = name.rpartition(MEMBER_SEPARATOR)
    with closing(open_source(place)) as handle:
        yield from _content(_Counted(handle), name, member, issues)


def is_url(name: str) -> bool:
    """Tell whether a name is a URL."""
    return "://" in name


def open_source(name: str) -> BinaryIO:
    """Open a local path, a URL or standard input (``-``) for reading bytes.

    Raises:
        FileNotFoundError, PermissionError: as from ``open``.
        TraceError: a folder, or a URL that cannot be opened here.
    """
    if name == "-":
        # Closed by nobody: it belongs to the process.
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    if is_url(name):
        return _opened_url(name)
    if os.path.isdir(name):
        raise TraceError(f"{name} is a folder, not a trace file")
    return open(name, "rb")


def _opened_url(name: str) -> BinaryIO:
    try:
        import fsspec
    except ImportError as error:
        raise TraceError(f"{name}: reading from URLs needs fsspec (pip install fsspec)") from error
    try:
        handle: BinaryIO = fsspec.open(name, "rb").open()
    except (ImportError, ValueError) as error:
        raise TraceError(f"{name}: {error}") from error
    return handle


class _Counted:
    """A source that counts the bytes read from it, to tell how far they inflate."""

    def __init__(self, handle: BinaryIO) -> None:
        self.handle = handle
        self.start = b""
        self.bytes = 0

    def peek(self, count: int) -> bytes:
        while len(self.start) < count:
            block = self.handle.read(count - len(self.start))
            if not block:
                break
            self.start += block
            self.bytes += len(block)
        return self.start[:count]

    def read(self, count: int = -1) -> bytes:
        if self.start:
            block = self.start if count < 0 else self.start[:count]
            self.start = self.start[len(block) :]
            return block
        block = self.handle.read(count)
        self.bytes += len(block)
        return block


class _Blocks(io.RawIOBase):
    """Blocks as a file that can be read from once."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.blocks = blocks
        self.rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.rest:
            block = next(self.blocks, None)
            if block is None:
                return 0
            self.rest = block
        count = min(len(buffer), len(self.rest))
        buffer[:count] = self.rest[:count]
        self.rest = self.rest[count:]
        return count


def _content(source: _Counted, name: str, member: str | None, issues: Issues, depth: int = 0) -> Iterator[bytes]:
    """The text in a source: unpacked as often as it is packed, three times at most."""
    start = source.peek(512)
    if depth > 3:
        raise TraceError(f"{name} is packed more than three times over")
    packed: Iterator[bytes] | None = None
    if start.startswith(GZIP_MAGIC):
        packed = _inflated(source, issues)
    elif start.startswith(ZSTD_MAGIC):
        packed = _unpacked_zstd(source, name, issues)
    elif start.startswith(ZIP_MAGIC):
        packed = _zip_member(source, name, member, issues)
        member = None
    elif start[257:262] == b"ustar":
        packed = _tar_member(source, name, member)
        member = None
    if packed is None:
        if member is not None:
            raise TraceError(f"{name}: what stands before {MEMBER_SEPARATOR} is no archive")
        while block := source.read(BLOCK_BYTES):
            yield block
        return
    bounded = _bounded(packed, source, name)
    inner = _Counted(io.BufferedReader(_Blocks(bounded), BLOCK_BYTES))
    yield from _content(inner, name, member, issues, depth + 1)


def _bounded(blocks: Iterator[bytes], source: _Counted, name: str) -> Iterator[bytes]:
    written = 0
    for block in blocks:
        written += len(block)
        if written > RATIO_COUNTS_FROM and written > LARGEST_RATIO * source.bytes:
            raise TraceError(f"{name} inflates more than {LARGEST_RATIO}-fold; no trace does, so it is not read further")
        yield block


def _inflated(source: _Counted, issues: Issues) -> Iterator[bytes]:
    is_whole = True
    stream = isal_zlib.decompressobj(wbits=31)
    while compressed := source.read(_INFLATED_BYTES):
        while compressed:
            is_whole = False
            try:
                block = stream.decompress(compressed, _INFLATED_BYTES)
            except isal_zlib.error:  # type: ignore[misc]
                issues.found("damaged gzip")
                return
            if block:
                yield block
            if not stream.eof:
                compressed = stream.unconsumed_tail
                if not compressed and not block:
                    break
                continue
            is_whole = True
            compressed = stream.unused_data
            stream = isal_zlib.decompressobj(wbits=31)
            if compressed and not compressed.startswith(GZIP_MAGIC[: len(compressed)]):
                if compressed.strip(b"\x00"):
                    issues.found("bytes after the gzip")
                return
    if not is_whole:
        issues.found("truncated gzip")


def _unpacked_zstd(source: _Counted, name: str, issues: Issues) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise TraceError(f"{name} is compressed with zstd; reading it needs zstandard (pip install zstandard)") from error
    compressed: Any = source
    with zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(compressed, read_across_frames=True) as reader:
        while True:
            try:
                block = reader.read(BLOCK_BYTES)
            except zstandard.ZstdError:
                issues.found("damaged zstd")
                return
            if not block:
                return
            yield block


def _zip_member(source: _Counted, name: str, member: str | None, issues: Issues) -> Iterator[bytes]:
    # The list of members stands at the end: what cannot be searched is read whole.
    seekable: BinaryIO
    if source.bytes <= 512 and getattr(source.handle, "seekable", bool)():
        seekable = source.handle
    else:
        seekable = io.BytesIO(source.read())
    try:
        with zipfile.ZipFile(seekable) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            chosen = archive.getinfo(_chosen(names, name, member))
            with archive.open(chosen) as handle:
                source.bytes = max(source.bytes, chosen.compress_size)
                while block := handle.read(BLOCK_BYTES):
                    yield block
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        if isinstance(error, zipfile.BadZipFile) and "CRC" in str(error):
            issues.found("damaged zip")
            return
        raise TraceError(f"{name} is a zip archive that cannot be read: {error}") from error


def _tar_member(source: _Counted, name: str, member: str | None) -> Iterator[bytes]:
    names: list[str] = []
    read = None
    try:
        with tarfile.open(fileobj=source, mode="r|") as archive:  # type: ignore[call-overload]
            for info in archive:
                if not info.isfile():
                    continue
                names.append(info.name)
                wanted = info.name == member if member is not None else read is None and _is_trace_name(info.name)
                handle = archive.extractfile(info) if wanted else None
                if handle is not None:
                    read = info.name
                    while block := handle.read(BLOCK_BYTES):
                        yield block
                    if member is not None:
                        return
    except tarfile.TarError as error:
        if read is None:
            raise TraceError(f"{name} is a tar archive that cannot be read: {error}") from error
    if _chosen(names, name, member) != read:
        raise TraceError(f"{name} is a tar archive of one file that is no JSON by its name; name it: {name}::{names[0]}")


def _is_trace_name(name: str) -> bool:
    base = name.rsplit("/", 1)[-1]
    return base.lower().endswith(_TRACE_SUFFIXES) and not base.startswith(".") and not name.startswith("__MACOSX/")


def _chosen(names: list[str], archive: str, member: str | None) -> str:
    """The member that is meant.

    Raises:
        TraceError: there is none, or more than one.
    """
    if member is not None:
        if member in names:
            return member
        raise TraceError(f"{archive}: the archive has no such member; it has {_listed(names)}")
    traces = [name for name in names if _is_trace_name(name)] or (names if len(names) == 1 else [])
    if len(traces) == 1:
        return traces[0]
    if traces:
        raise TraceError(f"{archive} holds {len(traces)} traces; name one, as in {archive}::{traces[0]} ({_listed(traces)})")
    raise TraceError(f"{archive} is an archive without a trace: it has {_listed(names)}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return (", ".join(names[:6]) or "no files") + more


def describe(start: bytes) -> str:
    """Say what a file that is no JSON looks like, from its first bytes."""
    if not start:
        return "it is empty"
    if not start.strip():
        return "it holds only white space"
    for magic, what in (
        (b"PAR1", "it is a Parquet file"),
        (b"\x89PNG", "it is a picture (PNG)"),
        (b"\x7fELF", "it is a program (ELF)"),
        (b"SQLite format 3", "it is a SQLite database, as Nsight Systems exports"),
        (b"<", "it looks like HTML or XML"),
        (b"\xff\xfe", "it looks like UTF-16 text"),
        (b"\xfe\xff", "it looks like UTF-16 text"),
    ):
        if start.startswith(magic):
            return what
    if b"\x00" in start[:1024]:
        return "it is a binary file"
    return f"it begins with {start[:40].decode('utf-8', 'replace')!r}"
