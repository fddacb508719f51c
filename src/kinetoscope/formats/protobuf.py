"""Protobuf messages of many rows at once, as bytes in arrays.

A field of a message is a :class:`Part`: the bytes that each row has of it. What stands before a message inside of a message
follows from the sizes of its parts; all parts are then joined once, row by row. Nothing is done for a row alone, which is what
makes it fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

VARINT, FIXED64, LENGTH = 0, 1, 2


_SHORT = [bytes([value]) for value in range(0x80)]


@dataclass
class Part:
    """Some bytes of some rows."""

    rows: Ints | None
    """Which rows have them, in ascending order; None for all."""
    sizes: Ints
    """Number of bytes of each of those rows."""
    data: Bytes
    """The bytes of one row after the other."""


@cache
def tag(number: int, kind: int) -> bytes:
    """What stands before a field's value."""
    return varint(number << 3 | kind)


def varint(value: int) -> bytes:
    """One number as a varint; numbers below zero as unsigned numbers of 64 bits."""
    if 0 <= value < 0x80:
        return _SHORT[value]
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def field(number: int, value: int | bytes | str) -> bytes:
    """One field: an integer as a varint, text and messages with their length."""
    if isinstance(value, int):
        return tag(number, VARINT) + varint(value)
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return tag(number, LENGTH) + varint(len(data)) + data


def constant(data: bytes, count: int, rows: Ints | None = None) -> Part:
    """The same bytes for ``count`` rows."""
    return Part(rows, np.full(count, len(data), dtype=np.int64), np.tile(np.frombuffer(data, dtype=np.uint8), count))


def varints(values: npt.NDArray[Any], rows: Ints | None = None) -> Part:
    """Numbers as varints; those below zero as unsigned numbers of 64 bits."""
    unsigned = values.astype(np.uint64)
    sizes = np.ones(len(unsigned), dtype=np.int64)
    largest = int(unsigned.max(initial=0))
    for bits in range(7, max(largest.bit_length(), 1), 7):
        sizes += unsigned >= np.uint64(1 << bits)
    if largest < 0x80:
        return Part(rows, sizes, unsigned.astype(np.uint8))
    ends = np.cumsum(sizes)
    starts = ends - sizes
    data = np.empty(int(ends[-1]), dtype=np.uint8)
    has = np.arange(len(sizes))
    for place in range(int(sizes.max())):
        # One byte of each number that is long enough, most of which are short.
        has = has[sizes[has] > place]
        data[starts[has] + place] = (unsigned[has] >> np.uint64(7 * place)).astype(np.uint8) | np.uint8(0x80)
    data[ends - 1] &= np.uint8(0x7F)
    return Part(rows, sizes, data)


def integers(number: int, values: npt.NDArray[Any], rows: Ints | None = None) -> Part:
    """An integer field of each row."""
    return _led(tag(number, VARINT), varints(values, rows))


class Pieces:
    """A few pieces of bytes, one of which each row has."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        """Take the pieces, which are referenced by their index."""
        self._sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._data = np.frombuffer(b"".join(pieces), dtype=np.uint8)

    def chosen(self, codes: Ints, rows: Ints | None = None) -> Part:
        """The piece of each row, by its index."""
        sizes = self._sizes[codes]
        return Part(rows, sizes, self._data[_indices(self._starts[codes], sizes)])


def sizes_of(count: int, parts: Sequence[Part]) -> Ints:
    """How many bytes each of ``count`` rows has of the parts together."""
    sizes = np.zeros(count, dtype=np.int64)
    for part in parts:
        if part.rows is None:
            sizes += part.sizes
        else:
            sizes[part.rows] += part.sizes
    return sizes


def length(number: int, sizes: Ints) -> Part:
    """What stands before messages of some sizes: tag and length."""
    return _led(tag(number, LENGTH), varints(sizes))


def joined(count: int, parts: Sequence[Part]) -> bytes:
    """The parts of ``count`` rows, one after the other in each row, and row after row."""
    sizes = sizes_of(count, parts)
    cursor = np.cumsum(sizes) - sizes
    data = np.empty(int(sizes.sum()), dtype=np.uint8)
    for part in parts:
        starts = cursor if part.rows is None else cursor[part.rows]
        data[_indices(starts, part.sizes)] = part.data
        if part.rows is None:
            cursor += part.sizes
        else:
            cursor[part.rows] += part.sizes
    return data.tobytes()


def labelled(lead: bytes, number: int, values: npt.NDArray[Any], kind: bytes, rows: Ints | None = None) -> Part:
    """A message in each row that holds the same bytes and one integer; shorter than 128 bytes.

    Args:
        lead: the bytes.
        number: the message's field.
        values: the integers.
        kind: the tag of the integer's field.
        rows: which rows have them.
    """
    content = varints(values)
    start = tag(number, LENGTH)
    led = _led(start + b"\0" + lead + kind, content)
    starts = np.cumsum(led.sizes) - led.sizes
    led.data[starts + len(start)] = (len(lead) + len(kind) + content.sizes).astype(np.uint8)
    return Part(rows, led.sizes, led.data)


def _led(lead: bytes, part: Part) -> Part:
    """The same bytes before those of each row."""
    sizes = part.sizes + len(lead)
    starts = np.cumsum(sizes) - sizes
    data = np.empty(int(sizes.sum()), dtype=np.uint8)
    for place, byte in enumerate(lead):
        data[starts + place] = byte
    data[_indices(starts + len(lead), part.sizes)] = part.data
    return Part(part.rows, sizes, data)


def _indices(starts: Ints, sizes: Ints) -> Ints:
    """Places of the bytes of rows that start somewhere: ``starts[0], starts[0] + 1, ...`` of each row in turn."""
    ends = np.cumsum(sizes)
    count = int(ends[-1]) if len(ends) else 0
    # Half the width where it is enough: most of the time here goes by the memory that is touched.
    narrow = np.int32 if count < 2**31 - 1 else np.int64
    indices: Ints = np.repeat((starts - (ends - sizes)).astype(narrow), sizes)
    indices += _counting(count).astype(narrow, copy=False)
    return indices


def _counting(count: int) -> Ints:
    """0, 1, 2, ... up to a count; kept, since blocks are much alike."""
    global _counted
    if len(_counted) < count or count > _LARGEST_KEPT:
        if count > _LARGEST_KEPT:
            return np.arange(count)
        _counted = np.arange(count + count // 4, dtype=np.int32)
    return _counted[:count]


_LARGEST_KEPT = 1 << 24
_counted: Ints = np.arange(0, dtype=np.int32)
