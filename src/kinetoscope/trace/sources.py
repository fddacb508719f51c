"""Where the text of a trace comes from: files, compressed or not, recognised by their content."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from isal import isal_zlib

from kinetoscope.trace.errors import TraceError

BLOCK_BYTES = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"

# Traces shrink to a tenth or a thirtieth; a file that grows beyond this, after this many bytes, is made to fill memory.
LARGEST_RATIO = 400
_RATIO_COUNTS_FROM = 256 << 20


def text_blocks(path: str | os.PathLike[str], issues: Counter[str]) -> Iterator[bytes]:
    """Yield the decompressed content of a file in blocks.

    Args:
        path: a local file.
        issues: counts what is wrong with the compression.

    Raises:
        FileNotFoundError, PermissionError: as from ``open``.
        TraceError: a folder, or a file that inflates beyond measure.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        raise TraceError(f"{name} is a folder, not a trace file")
    with open(name, "rb") as handle:
        magic = handle.read(2)
        handle.seek(0)
        if magic == GZIP_MAGIC:
            yield from _inflated(handle, name, issues)
        else:
            while block := handle.read(BLOCK_BYTES):
                yield block


def _inflated(handle: BinaryIO, name: str, issues: Counter[str]) -> Iterator[bytes]:
    read = written = 0
    whole = True
    stream = isal_zlib.decompressobj(wbits=31)
    while True:
        compressed = handle.read(BLOCK_BYTES // 4)
        if not compressed:
            break
        read += len(compressed)
        while compressed:
            whole = False
            try:
                block = stream.decompress(compressed, BLOCK_BYTES)
            except isal_zlib.error:
                issues["damaged gzip"] += 1
                return
            written += len(block)
            if written > _RATIO_COUNTS_FROM and written > LARGEST_RATIO * read:
                raise TraceError(f"{name} inflates more than {LARGEST_RATIO}-fold; no trace does, so it is not read further")
            if block:
                yield block
            if stream.eof:
                whole = True
                compressed = stream.unused_data.lstrip(b"\x00")
                stream = isal_zlib.decompressobj(wbits=31)
                if compressed and not compressed.startswith(GZIP_MAGIC[: len(compressed)]):
                    issues["bytes after the gzip"] += len(compressed)
                    return
            else:
                compressed = stream.unconsumed_tail
                if not compressed and not block:
                    break
    if not whole:
        issues["truncated gzip"] += 1


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
