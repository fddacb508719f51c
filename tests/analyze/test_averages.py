"""Grouped averages, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.analyze.averages import key_averages
from kinetoscope.show.averages import key_averages as with_table
from kinetoscope.show.text_table import UnknownSortKey
from kinetoscope.trace.nesting import nested
from kinetoscope.trace.trace import Trace

HOST = {"phase": "X", "category": "cpu_op", "process": 1, "thread": 1, "device_type": "cpu"}


def trace_of(rows: list[dict[str, Any]]) -> Trace:
    return Trace(nested(Trace(pl.DataFrame([{**HOST, **row} for row in rows], infer_schema_length=None)).events))


def two_shapes() -> Trace:
    return trace_of(
        [
            {"name": "aten::mm", "start_ns": 0, "duration_ns": 1000, "input_shapes": "[[2, 2]]", "overload_name": ""},
            {"name": "aten::mm", "start_ns": 2000, "duration_ns": 3000, "input_shapes": "[[4, 4]]", "overload_name": "out"},
            {"name": "aten::mm", "start_ns": 6000, "duration_ns": 2000, "input_shapes": "[[4, 4]]", "overload_name": ""},
            {"name": "aten::add", "start_ns": 6500, "duration_ns": 500, "input_shapes": "[[2, 2]]", "overload_name": "Tensor"},
        ]
    )


def test_sums_and_percentiles() -> None:
    rows = {row.key: row for row in key_averages(two_shapes())}
    mm = rows["aten::mm"]
    assert (mm.count, mm.cpu_time_total, mm.self_cpu_time_total, mm.cpu_time) == (3, 6.0, 5.5, 2.0)
    assert (mm.min, mm.p50, mm.max) == (1.0, 2.0, 3.0)
    assert mm.p95 == pytest.approx(np.percentile([1, 2, 3], 95))
    assert rows["aten::add"].cpu_time_total == 0.5
    assert key_averages(two_shapes()).self_cpu_time_total == 6.0


def test_grouping() -> None:
    by_shape = [(row.key, row.input_shapes, row.count) for row in key_averages(two_shapes(), group_by_input_shape=True)]
    assert by_shape == [("aten::mm", "[[2, 2]]", 1), ("aten::mm", "[[4, 4]]", 2), ("aten::add", "[[2, 2]]", 1)]
    by_overload = [(row.key, row.overload_name, row.count) for row in key_averages(two_shapes(), group_by_overload_name=True)]
    assert by_overload == [("aten::mm", "", 2), ("aten::mm", "out", 1), ("aten::add", "Tensor", 1)]


def test_host_and_device_rows_of_one_name_are_two_rows() -> None:
    mark = {"name": "train", "category": "user_annotation", "start_ns": 0, "duration_ns": 1000}
    device = {"category": "gpu_user_annotation", "device_type": "cuda", "device": 0, "stream": 7, "process": 0, "thread": 7}
    rows = [(row.key, row.device_type, row.is_user_annotation) for row in key_averages(trace_of([mark, {**mark, **device}]))]
    assert rows == [("train", "cpu", True), ("train", "cuda", True)]


def test_an_empty_trace_has_no_averages() -> None:
    empty = key_averages(Trace(pl.DataFrame()))
    assert list(empty) == [] and empty.self_cpu_time_total == 0
    assert empty.to_polars().height == 0
    assert with_table(Trace(pl.DataFrame())).table() == ""


def test_the_table_sorts_and_says_by_what() -> None:
    table = with_table(two_shapes()).table(sort_by="count", row_limit=1)
    assert "aten::mm" in table and "aten::add" not in table
    with pytest.raises(UnknownSortKey, match="self_cpu_time_total"):
        with_table(two_shapes()).table(sort_by="speed")


def test_the_frame_has_the_numbers() -> None:
    frame = key_averages(two_shapes()).to_polars()
    assert frame.select("key", "count", "cpu_time_total").rows() == [("aten::mm", 3, 6.0), ("aten::add", 1, 0.5)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=15))
def test_no_call_and_no_nanosecond_is_lost_in_groups(events: list[tuple[str, int, int]]) -> None:
    rows = [{"name": name, "start_ns": start, "duration_ns": length} for name, start, length in events]
    # Each on a thread of its own, so that none is merged into the one around it.
    rows = [{**row, "thread": number} for number, row in enumerate(rows)]
    averages = key_averages(trace_of(rows))
    expected = pl.DataFrame(rows).group_by("name").agg(pl.len(), pl.col("duration_ns").sum() / 1000)
    got = {row.key: (row.count, row.cpu_time_total) for row in averages}
    assert got == {name: (count, pytest.approx(total)) for name, count, total in expected.iter_rows()}
