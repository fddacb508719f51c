"""Text that is kept compressed, and goes into a gzip file as it is."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from isal import isal_zlib

_LEVEL = 1
_WITHOUT_HEADER = -15
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


class Deflated:
    """A text as deflate blocks that end at a byte and are not the last: they fit anywhere in a deflate stream."""

    def __init__(self, text: bytes | memoryview) -> None:
        """Compress the text."""
        packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _WITHOUT_HEADER)
        self.blocks = packer.compress(text) + packer.flush(isal_zlib.Z_FULL_FLUSH)
        self.crc = isal_zlib.crc32(text)
        self.size = len(text)

    @property
    def text(self) -> bytes:
        """The text again."""
        return isal_zlib.decompressobj(_WITHOUT_HEADER).decompress(self.blocks)


def gzip_around(before: bytes, middle: Deflated, after: bytes) -> Iterator[bytes]:
    """A gzip file of the three texts in blocks; the middle one is not compressed again."""
    packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _WITHOUT_HEADER)
    yield _GZIP_HEADER + packer.compress(before) + packer.flush(isal_zlib.Z_FULL_FLUSH)
    yield middle.blocks
    packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _WITHOUT_HEADER)
    yield packer.compress(after) + packer.flush()
    crc = isal_zlib.crc32_combine(isal_zlib.crc32(before), middle.crc, middle.size)
    crc = isal_zlib.crc32_combine(crc, isal_zlib.crc32(after), len(after))
    yield struct.pack("<II", crc, (len(before) + middle.size + len(after)) & 0xFFFFFFFF)
