"""From JSON values, still text, to columns: many at once, exact, nothing guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A character that valid JSON never holds, so joined values can be taken apart again.
SEPARATOR = "\x1e"

_NUMBER = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"

_INT64 = range(-(2**63), 2**63)


class Numbering(dict[Any, int]):
    """Numbers values by first appearance: looking up a new one gives it the next number."""

    def __missing__(self, value: Any) -> int:
        """Number a value that was not seen before."""
        number = self[value] = len(self)
        return number

    def codes(self, values: Iterable[Any], count: int) -> npt.NDArray[np.int32]:
        """The numbers of ``values``."""
        return np.fromiter(map(self.__getitem__, values), dtype=np.int32, count=count)


def texts(values: Sequence[Any]) -> pl.Series:
    """Raw JSON values as a column of their texts.

    Raises:
        UnicodeDecodeError: a value is not UTF-8.
    """
    if not values:
        return pl.Series(dtype=pl.String)
    return split(b"\x1e".join(values))


def split(blob: bytes) -> pl.Series:
    """A column from the bytes of its values, joined by :data:`SEPARATOR`."""
    return pl.Series([blob.decode()], dtype=pl.String).str.split(SEPARATOR).explode(empty_as_null=False)


def unquoted(column: pl.Series) -> pl.Series:
    """Numbers that some profilers write as JSON text (``"12.5"``), as the numbers; all else as it is."""
    quoted = column.str.starts_with('"')
    if not quoted.any():
        return column
    inner = column.str.strip_chars('"').str.strip_chars(" ")
    is_number = quoted & inner.str.contains(_NUMBER)
    return pl.select(pl.when(is_number).then(inner).otherwise(column)).to_series()


def nanoseconds(values: Sequence[Any]) -> tuple[Ints, Bools]:
    """Microseconds, written as decimal numbers, as whole nanoseconds: exact, halves to the even number.

    Args:
        values: raw JSON values, numbers or numbers as text; what is none (missing, null, other text) is not valid.

    Returns:
        Nanoseconds (0 where not valid), and where a number within 64 bits stood.
    """
    if not values:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    column = unquoted(texts(values))
    # Digits before the point, and the first nine behind it: what is written otherwise goes the slow way below.
    parts = column.str.splitn(".", 2).struct.unnest()
    whole = parts["field_0"]
    fraction = parts["field_1"].fill_null("0")
    size = fraction.str.len_bytes()
    units = whole.cast(pl.Int64, strict=False)
    plain = ~whole.str.starts_with("-") & (units < 2**63 // 1000 - 1) & (size <= 9)
    if (size.max() or 0) <= 3:  # type: ignore[operator]
        below = fraction.str.pad_end(3, "0").cast(pl.Int64, strict=False)
    else:
        millionths = fraction.str.pad_end(9, "0").cast(pl.Int64, strict=False)
        below = _divide_half_even(millionths, 1_000_000)
    result = units * 1000 + below
    plain = plain.fill_null(False) & result.is_not_null()
    values_ns = result.fill_null(0).to_numpy().astype(np.int64)
    valid = plain.to_numpy().copy()
    for row in np.flatnonzero(~valid & ~((column == "") | (column == "null")).to_numpy()).tolist():
        exact = _exact(column[row])
        if exact is not None:
            values_ns[row], valid[row] = exact, True
    values_ns[~valid] = 0
    return values_ns, valid


def _divide_half_even(series: pl.Series, by: int) -> pl.Series:
    whole, rest = series // by, series % by
    up = (rest > by // 2) | ((rest == by // 2) & (whole % 2 == 1))
    rounded: pl.Series = whole + up.cast(pl.Int64)
    return rounded


def _exact(text: str) -> int | None:
    if len(text) > 400:
        return None
    try:
        number = Decimal(text)
        # The exponent first: 1e999999999 must not become a number of a billion digits.
        if not number.is_finite() or number.adjusted() > 20:
            return None
        value = round(number * 1000)
    except (InvalidOperation, OverflowError, ValueError):
        return None
    return value if value in _INT64 else None


def integers(column: pl.Series) -> tuple[pl.Series, Bools]:
    """JSON values as 64-bit integers, and which of them were none; numbers as text are numbers."""
    numbers = unquoted(column).cast(pl.Int64, strict=False)
    return numbers, numbers.is_null().to_numpy()


def lists(column: pl.Series) -> tuple[pl.Series, Bools]:
    """JSON lists as Kineto writes them, each on one line, and which values were none."""
    broken = column.str.contains("\n", literal=True)
    if broken.any():
        # A tool has laid the file out for people. No text inside of a list holds a line break: JSON escapes them.
        one_line = column.str.replace_all(r",\s*\n\s*", ", ").str.replace_all(r"\s*\n\s*", "")
        column = pl.select(pl.when(broken).then(one_line).otherwise(column)).to_series()
    return column, ~column.str.starts_with("[").to_numpy()


def booleans(column: pl.Series) -> tuple[pl.Series, Bools]:
    """JSON booleans, and which values were none."""
    is_true = column == "true"
    return is_true, ~(is_true | (column == "false")).to_numpy()


def strings(column: pl.Series, change: Callable[[str], str] | None = None) -> tuple[pl.Series, Bools]:
    """JSON strings decoded (and changed by ``change``), and which values were none."""

    def decoded(text: str) -> str | None:
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return None
        if not isinstance(value, str):
            return None
        return change(value) if change else value

    return mapped(column, decoded)


def mapped(column: pl.Series, function: Callable[[str], str | None]) -> tuple[pl.Series, Bools]:
    """Apply a function once to each distinct text; None says that the value is none of the kind."""
    numbers = Numbering()
    codes = numbers.codes(column.to_list(), column.len())
    answers = pl.Series([function(text) for text in numbers], dtype=pl.String)
    found = answers.gather(codes)
    return found, found.is_null().to_numpy()


def scatter(values: pl.Series, rows: Ints, height: int) -> pl.Series:
    """A column of ``height`` rows with ``values`` at ``rows``, null elsewhere."""
    place = np.full(height, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    index = pl.Series(place)
    return values.gather(pl.select(pl.when(index >= 0).then(index).cast(pl.UInt32)).to_series())
