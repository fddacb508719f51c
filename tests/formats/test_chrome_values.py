"""Times and ids from their text, exactly."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.formats.chrome import values as chrome_values
from kinetoscope.formats.chrome.columns import frames
from kinetoscope.formats.chrome.ids import Ids
from tests.trace.naive import nanoseconds


def read(*texts: str) -> list[int | None]:
    values, valid = chrome_values.nanoseconds([msgspec.Raw(text.encode()) for text in texts])
    return [int(value) if good else None for value, good in zip(values, valid, strict=True)]


def test_microseconds_of_today_and_of_long_ago() -> None:
    assert read("5269136364637.582", "1695835542481129", "1712195495406752.797", "0", "0.001", "7.5") == [
        5269136364637582, 1695835542481129000, 1712195495406752797, 0, 1, 7500,
    ]  # fmt: skip


def test_halves_go_to_the_even_nanosecond() -> None:
    assert read("0.0005", "0.0015", "0.00250000001", "1.9999", "-0.0015") == [0, 2, 3, 2000, -2]


def test_exponents_signs_and_long_fractions() -> None:
    assert read("1e3", "1.5E-2", "-3.25", "-0.5", "2." + "1" * 60) == [1_000_000, 15, -3250, -500, 2111]


NO_TIMES = [
    "null",
    "",
    '"12a"',
    '"soon"',
    '"1_000"',
    '""',
    '"nan"',
    "true",
    "[]",
    "1e400",
    "1e999999999",
    "9" * 25,
    "-" + "9" * 25,
]


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_is_no_time_of_64_bits(text: str) -> None:
    assert read("1", text, "2") == [1000, None, 2000]


@given(st.decimals(-(10**14), 10**14, places=4, allow_nan=False))
def test_a_time_as_text_is_that_time(time: Decimal) -> None:
    assert read(f'"{time:f}"', f'" {time:f} "') == read(f"{time:f}", f"{time:f}")


def test_nothing() -> None:
    assert read() == []


@given(st.lists(st.decimals(min_value=-(10**15), max_value=10**15, allow_nan=False, allow_infinity=False), max_size=30))
def test_equals_exact_arithmetic(numbers: list[Decimal]) -> None:
    assert read(*map(str, numbers)) == [nanoseconds(number) for number in numbers]


@given(st.lists(st.integers(0, 9 * 10**18), min_size=1, max_size=30))
def test_nanoseconds_survive_as_microseconds(values: list[int]) -> None:
    assert read(*(f"{value // 1000}.{value % 1000:03}" for value in values)) == values


def test_scatter() -> None:
    column = chrome_values.scatter(pl.Series(["a", "b"]), np.array([3, 1]), 4)
    assert column.to_list() == [None, "b", None, "a"]


def test_ids() -> None:
    ids = Ids()
    assert ids.column([1, "2", None, -3, 4.0, "4093687616"]).to_list() == [1, 2, None, -3, 4, 4093687616]
    assert ids.text_ids == {}
    spans, stream = ids.column(["Spans", "stream 7"]).to_list()
    assert ids.text_ids == {str(spans): "Spans", str(stream): "stream 7"}
    assert max(spans, stream) < -(2**32) + 1
    # The same text has the same number in another trace, whatever came before it.
    assert Ids().column(["x", "stream 7"]).to_list()[1] == stream
    for odd in ("007", "+5", "1_000", "", "9" * 30, "-0", "٣"):
        assert ids.text_ids[str(ids.number(odd))] == odd
    assert ids.text_ids[str(ids.number(2**70))] == str(2**70)


def test_frames() -> None:
    assert frames("a.py(1): f;b.py(2): g") == "a.py(1): f\nb.py(2): g"
    assert frames("a;b\n") == "a;b"
    assert frames("a;b\nc") == "a;b\nc"
