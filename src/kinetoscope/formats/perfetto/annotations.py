"""The arguments of events as Perfetto's debug annotations, names and texts interned."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import polars as pl

from kinetoscope.formats import protobuf
from kinetoscope.formats.chrome.names import EVERYWHERE, ON_DEVICE, ON_MEMORY
from kinetoscope.formats.protobuf import Ints, Part

_ANNOTATION = 4
"""Field of a track event."""
_NAME_IID, _BOOL, _UINT, _INT, _DOUBLE, _DICT, _ARRAY, _TEXT_IID = 1, 2, 3, 4, 5, 11, 12, 17
_DEEPEST = 50
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
# Event names, categories, annotation names and texts in InternedData.
_CATEGORIES, _NAMES, _ANNOTATION_NAMES, _TEXTS = 1, 2, 3, 29


class Interned:
    """Texts that are written once and meant by number afterwards, from 1."""

    def __init__(self, number: int) -> None:
        """``number`` is their field in InternedData."""
        self._field = number
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers) + 1)

    def codes(self, column: pl.Series) -> Ints:
        """The numbers of a column's texts; 0 for null."""
        distinct = column.drop_nulls().unique(maintain_order=True)
        numbers = np.array([0, *map(self, distinct.to_list())], dtype=np.int64)
        places = column.cast(pl.Enum(distinct)).to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1
        codes: Ints = numbers[places]
        return codes

    def encoded(self) -> bytes:
        """The fields of InternedData."""
        return b"".join(
            protobuf.field(self._field, protobuf.field(1, number) + protobuf.field(2, text))
            for text, number in self._numbers.items()
        )


class Annotations:
    """What events say beside their name, category, time and track."""

    def __init__(self, events: pl.DataFrame) -> None:
        """Take the events of a trace."""
        self.names = Interned(_ANNOTATION_NAMES)
        self.texts = Interned(_TEXTS)
        self._known: dict[tuple[str, bytes], bytes] = {}
        self._columns: list[tuple[bytes, bytes, Ints, Any]] = []
        for key, name in _KEYS.items():
            column = events[name]
            if column.null_count() < len(column):
                self._add(key, column)
        distinct = events["args"].drop_nulls().unique(maintain_order=True)
        self._blobs = protobuf.Pieces([b"", *map(self._object, distinct.to_list())])
        codes = events["args"].cast(pl.Enum(distinct)).to_physical().cast(pl.Int64)
        self._args = codes.fill_null(-1).to_numpy() + 1

    def _add(self, key: str, column: pl.Series) -> None:
        lead = protobuf.field(_NAME_IID, self.names(key))
        valid = column.is_not_null().to_numpy()
        if column.dtype == pl.String:
            kind, values = _TEXT_IID, self.texts.codes(column)
        else:
            kind, values = (_BOOL if column.dtype == pl.Boolean else _INT), column.cast(pl.Int64).fill_null(0).to_numpy()
        self._columns.append((lead, protobuf.tag(kind, protobuf.VARINT), valid, values))

    def parts(self, row: Ints, rows: Ints) -> list[Part]:
        """The annotations of some packets.

        Args:
            row: row of the table that each of the packets shows.
            rows: places of these packets among all of a block.
        """
        parts = []
        for lead, kind, valid, values in self._columns:
            has = valid[row]
            if has.any():
                parts.append(protobuf.labelled(lead, _ANNOTATION, values[row[has]], kind, rows[has]))
        codes = self._args[row]
        has = codes > 0
        if has.any():
            parts.append(self._blobs.chosen(codes[has], rows[has]))
        return parts

    def _object(self, text: str) -> bytes:
        """The annotations of a JSON object."""
        try:
            members = _MEMBERS.decode(text)
        except (msgspec.DecodeError, RecursionError):
            members = {"args": msgspec.Raw(msgspec.json.encode(text))}
        parts = []
        for key, raw in members.items():
            # The same values come again and again.
            member = (key, bytes(raw))
            known = self._known.get(member)
            if known is None:
                known = self._known[member] = self._member(*member)
            parts.append(known)
        return b"".join(parts)

    def _member(self, key: str, text: bytes) -> bytes:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            value = text.decode("utf-8", "replace")
        return protobuf.field(_ANNOTATION, protobuf.field(_NAME_IID, self.names(_clean(key))) + self._value(value, 0))

    def _value(self, value: Any, depth: int) -> bytes:
        if isinstance(value, bool):
            return protobuf.field(_BOOL, int(value))
        if isinstance(value, int) and -(2**63) <= value < 2**64:
            return protobuf.field(_INT if value < 2**63 else _UINT, value)
        if isinstance(value, float):
            return protobuf.tag(_DOUBLE, protobuf.FIXED64) + struct.pack("<d", value)
        if isinstance(value, dict) and depth < _DEEPEST and value:
            return b"".join(
                protobuf.field(_DICT, protobuf.field(_NAME_IID, self.names(_clean(key))) + self._value(inner, depth + 1))
                for key, inner in value.items()
            )
        if isinstance(value, list) and depth < _DEEPEST and value:
            return b"".join(protobuf.field(_ARRAY, self._value(inner, depth + 1)) for inner in value)
        if not isinstance(value, str):
            value = msgspec.json.encode(value).decode() if depth < _DEEPEST else "..."
        return protobuf.field(_TEXT_IID, self.texts(_clean(value)))


def interned(parts: Iterable[Interned]) -> bytes:
    """The content of InternedData."""
    return b"".join(part.encoded() for part in parts)


def names_and_categories() -> tuple[Interned, Interned]:
    """The texts of event names and of categories."""
    return Interned(_NAMES), Interned(_CATEGORIES)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


_KEYS = {argument.key: argument.column for argument in (*ON_MEMORY, *ON_DEVICE, *EVERYWHERE) if argument.key != "Bytes"}
"""Name of an annotation -> column."""
