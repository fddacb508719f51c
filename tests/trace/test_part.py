"""Parts of traces: the right rows, and a sound trace again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import kinetoscope
from kinetoscope.trace.nesting import nested
from kinetoscope.trace.part import keep, step_ranges
from kinetoscope.trace.trace import Trace

TRACES = Path(__file__).parent.parent / "data" / "traces"


def trace_of(rows: list[dict[str, Any]]) -> Trace:
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))
    return Trace(nested(Trace(frame).events))


def slice_(name: str, start: int, duration: int, category: str = "cpu_op", **others: Any) -> dict[str, Any]:
    return {"name": name, "phase": "X", "category": category, "start_ns": start, "duration_ns": duration, "process": 1,
            "thread": 1, **others}  # fmt: skip


def two_steps() -> Trace:
    device = {"process": 0, "thread": 7, "stream": 7, "device": 0}
    return trace_of(
        [
            slice_("ProfilerStep#4", 0, 100, "user_annotation"),
            slice_("aten::add", 10, 20),
            slice_("cudaLaunchKernel", 15, 5, "cuda_runtime", correlation=1),
            slice_("cudaLaunchKernel", 98, 2, "cuda_runtime", correlation=2),
            slice_("ProfilerStep#5", 100, 100, "user_annotation"),
            slice_("aten::mul", 110, 20),
            slice_("between", 250, 5),
            slice_("early kernel", 30, 10, "kernel", correlation=1, **device),
            slice_("late kernel", 150, 10, "kernel", correlation=2, **device),
            slice_("kernel of nobody", 160, 10, "kernel", correlation=9, **device),
            {"name": "ac2g", "phase": "s", "category": "ac2g", "start_ns": 98, "process": 1, "thread": 1, "flow_id": 2},
            {"name": "ac2g", "phase": "f", "category": "ac2g", "start_ns": 150, "process": 0, "thread": 7, "flow_id": 2},
        ]
    )


def test_device_work_belongs_to_the_step_that_launched_it() -> None:
    trace = two_steps()
    first = trace.part(steps=[(4, 4)])
    assert first.events["name"].to_list() == ["ProfilerStep#4", "aten::add", "cudaLaunchKernel", "cudaLaunchKernel",
                                              "early kernel", "late kernel", "ac2g", "ac2g"]  # fmt: skip
    assert first.metadata.steps == [4]
    second = trace.part(steps=[(5, 9)])
    assert second.events["name"].to_list() == ["ProfilerStep#5", "aten::mul", "kernel of nobody"]
    both = trace.part(steps=[(0, 4), (5, 5)])
    assert "between" not in both.events["name"].to_list() and len(both) == len(trace) - 1
    assert trace.metadata.steps == []


def test_no_such_step_says_which_there_are() -> None:
    with pytest.raises(ValueError, match="it has 4-5$"):
        two_steps().part(steps=[(7, 8)])
    with pytest.raises(ValueError, match="it has none$"):
        trace_of([slice_("a", 0, 1)]).part(steps=[(7, 8)])


def test_each_rank_has_its_own_steps() -> None:
    rows = [
        slice_("ProfilerStep#1", 0, 10, "user_annotation", rank=0),
        slice_("ProfilerStep#2", 10, 10, "user_annotation", rank=0),
        slice_("ProfilerStep#1", 10, 10, "user_annotation", rank=1, process=2),
        slice_("a", 12, 1, rank=0),
        slice_("b", 12, 1, rank=1, process=2),
    ]
    trace = trace_of(rows)
    assert trace.part(steps=[(1, 1)]).events["name"].to_list() == ["ProfilerStep#1", "ProfilerStep#1", "b"]
    assert trace.part(rank=1).events["name"].to_list() == ["ProfilerStep#1", "b"]
    assert trace.part(rank=1).events["parent"].to_list() == [None, 0]


@pytest.mark.parametrize(
    ("text", "ranges"), [("3", [(3, 3)]), ("3-5", [(3, 5)]), (" 1, 4 - 6", [(1, 1), (4, 6)]), ("007", [(7, 7)])]
)
def test_steps_are_written_as_ranges(text: str, ranges: list[tuple[int, int]]) -> None:
    assert step_ranges(text) == ranges


@pytest.mark.parametrize("text", ["", "a", "3-", "-3", "5-3", "1,,2", "1.5", "9" * 16])
def test_what_is_no_steps_says_how_to_write_them(text: str) -> None:
    with pytest.raises(ValueError, match="names no steps"):
        step_ranges(text)


def test_a_condition_chooses_rows() -> None:
    part = two_steps().part("category = 'kernel' and duration_ns >= 10 and correlation < 5")
    assert part.events["name"].to_list() == ["early kernel", "late kernel"]
    assert part.events["id"].to_list() == [0, 1]
    assert len(two_steps().part(categories=["ac2g", "kernel"])) == 5
    with pytest.raises(pl.exceptions.PolarsError):
        two_steps().part("no_such_column = 3")
    with pytest.raises(pl.exceptions.PolarsError):
        two_steps().part("select")


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.booleans()), max_size=20))
def test_a_part_is_nested_as_if_it_had_been_recorded_alone(rows: list[tuple[int, int, bool]]) -> None:
    if not rows:
        return
    trace = trace_of([slice_(str(number), start, length) for number, (start, length, _) in enumerate(rows)])
    mask = pl.Series([kept for *_, kept in rows])
    part = keep(trace.events, mask)
    alone = [slice_(str(number), start, length) for number, (start, length, kept) in enumerate(rows) if kept]
    if alone:
        assert_frame_equal(part, trace_of(alone).events)
    else:
        assert len(part) == 0


def test_a_real_trace_by_steps(tmp_path: Path) -> None:
    trace = kinetoscope.read(TRACES / "nvidia_ns_resolution_train.json.gz")
    numbers = trace.metadata.steps
    parts = [trace.part(steps=[(number, number)]) for number in numbers]
    whole = trace.part(steps=[(numbers[0], numbers[-1])])
    assert sum(map(len, parts)) == len(whole) > 0
    kernels = [part.events.filter(pl.col("category") == "kernel").height for part in parts]
    assert sum(kernels) == whole.events.filter(pl.col("category") == "kernel").height > 0
    whole.write(tmp_path / "part.json")
    assert_frame_equal(kinetoscope.read(tmp_path / "part.json").events, whole.events)
