"""Process and thread ids as numbers, whatever the file has for them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl


class Ids:
    """Process and thread ids as 64-bit numbers.

    Text that is a decimal number is that number; other text gets a negative number made from its checksum, far below any
    real id, so that the same text has the same number in every trace.
    """

    def __init__(self) -> None:
        """Begin with no texts."""
        self.text_ids: dict[str, str] = {}
        self._known: dict[Any, int | None] = {None: None}
        self._taken: dict[int, str] = {}

    def number(self, value: Any) -> int | None:
        """The number of one id."""
        try:
            return self._known[value]
        except KeyError:
            number = self._known[value] = self._new(value)
            return number

    def column(self, values: Sequence[Any]) -> pl.Series:
        """Numbers of many ids."""
        distinct = set(values)
        for value in distinct:
            self.number(value)
        numbers = map(self._known.__getitem__, values)
        if None in distinct:
            return pl.Series(list(numbers), dtype=pl.Int64)
        return pl.Series(np.fromiter(numbers, dtype=np.int64, count=len(values)))

    def take(self, text_ids: Mapping[str, str]) -> bool:
        """Add the texts of ids that were numbered elsewhere; False, and nothing added, where a number means another text."""
        if any(self._taken.get(int(number), text) != text for number, text in text_ids.items()):
            return False
        self._taken.update({int(number): text for number, text in text_ids.items()})
        self.text_ids.update(text_ids)
        return True

    def _new(self, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        text = value if isinstance(value, str) else str(value)
        if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20:
            number = int(text)
            if str(number) == text and -(2**63) <= number < 2**63:
                return number
        number = -(2**32) - zlib.crc32(text.encode("utf-8", "surrogatepass"))
        while self._taken.setdefault(number, text) != text:
            number -= 1
        self.text_ids[str(number)] = text
        return number
