"""The list of operators, worked by hand on tiny recordings."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.analyze.operator_list import concatenate, operators
from kinetoscope.analyze.operators import Operators
from kinetoscope.analyze.raw_events import CPU, RawEvents, TextColumn
from kinetoscope.trace.devices import DEVICE_NUMBERS

CUDA = DEVICE_NUMBERS["cuda"]


def raw_events(rows: list[dict[str, Any]]) -> RawEvents:
    """Rows of name, start and end (nanoseconds), with what else is said."""
    names = TextColumn.encode([row["name"] for row in rows])

    def ints(key: str, missing: int = 0) -> Any:
        return np.array([row.get(key, missing) for row in rows], dtype=np.int64)

    def flags(key: str) -> Any:
        return np.array([bool(row.get(key)) for row in rows], dtype=bool)

    return RawEvents(
        names=names.values,
        name=names.codes,
        start_ns=ints("start"),
        end_ns=ints("end"),
        thread=ints("thread", 1),
        device_type=ints("device_type", CPU),
        device=ints("device"),
        linked_id=ints("linked"),
        is_async=flags("is_async"),
        is_annotation=flags("is_annotation"),
        is_python=flags("is_python"),
        is_hidden=flags("is_hidden"),
        is_overhead=flags("is_overhead"),
        bytes=ints("bytes"),
        columns={
            "own_id": ints("own"),
            "scope": ints("scope"),
            "sequence_number": ints("sequence", -1),
            "forward_thread": ints("forward_thread"),
            "shapes": None,
            "overloads": None,
            "stacks": None,
            "script_stacks": None,
        },
    )


def listed(rows: list[dict[str, Any]], use_device: str | None = None, **options: Any) -> Operators:
    return operators(raw_events(rows), use_device, **options)


def names(found: Operators) -> list[str]:
    return [found.names[code] for code in found.name.tolist()]


def op(name: str, start: int, end: int, **others: Any) -> dict[str, Any]:
    return {"name": name, "start": start, "end": end, **others}


def test_nesting_and_self_times() -> None:
    found = listed(
        [op("inner", 2000, 5000), op("outer", 0, 10_000), op("later", 6000, 7000), op("other", 1000, 3000, thread=2)]
    )
    assert names(found) == ["outer", "other", "inner", "later"]
    assert found.parent.tolist() == [-1, -1, 0, 0]
    assert found.cpu_time_total.tolist() == [10.0, 2.0, 3.0, 1.0]
    assert found.self_cpu_time_total.tolist() == [6.0, 2.0, 3.0, 1.0]
    offsets, members = found.children
    inside = [members[low:high].tolist() for low, high in zip(offsets[:-1], offsets[1:], strict=True)]  # noqa: RUF007
    assert inside == [[2, 3], [], [], []]


def test_async_events_neither_nest_nor_have_self_time() -> None:
    found = listed([op("outer", 0, 10_000), op("async", 1000, 3000, is_async=True), op("inner", 1500, 2000)])
    assert dict(zip(names(found), found.parent.tolist(), strict=True)) == {"outer": -1, "async": -1, "inner": 0}
    assert dict(zip(names(found), found.self_cpu_time_total.tolist(), strict=True)) == {
        "outer": 9.5,
        "async": 0.0,
        "inner": 0.5,
    }


def test_kernels_belong_to_who_launched_them_and_count_upwards() -> None:
    rows = [
        op("outer", 0, 10_000, own=1),
        op("aten::mm", 1000, 3000, own=2),
        op("cudaLaunchKernel", 1500, 1600, own=7, linked=2, thread=99),
        op("gemm", 5000, 9000, own=7, linked=2, device_type=CUDA),
    ]
    found = listed(rows, "cuda")
    by_name = dict(zip(names(found), range(4), strict=True))
    mm = by_name["aten::mm"]
    assert found.kernels.rows[found.kernels.offsets[mm] : found.kernels.offsets[mm + 1]].tolist() == [3]
    # The runtime call counts as a child of its operator, on whatever thread the system saw it.
    assert found.parent[by_name["cudaLaunchKernel"]] == mm
    assert {name: found.device_time_total[i] for name, i in by_name.items()} == {
        "outer": 4.0, "aten::mm": 4.0, "cudaLaunchKernel": 0.0, "gemm": 4.0,
    }  # fmt: skip
    assert found.self_device_time_total[by_name["outer"]] == 0.0
    assert found.self_device_time_total[mm] == 4.0
    assert listed(rows).device_time_total.tolist() == [0.0] * 4, "no device was profiled"


def test_memory_within_an_operator_and_outside() -> None:
    rows = [
        op("aten::empty", 1000, 2000, own=3),
        op("[memory]", 1500, 1500, bytes=100),
        op("[memory]", 1600, 1600, bytes=-30),
        op("[memory]", 5000, 5000, bytes=8),
        op("[memory]", 1700, 1700, bytes=64, device_type=CUDA),
    ]
    found = listed(rows, "cuda")
    assert names(found) == ["aten::empty", "[memory]"]
    assert found.cpu_memory_usage.tolist() == [70, 8]
    assert found.device_memory_usage.tolist() == [64, 0]
    assert found.is_memory.tolist() == [False, True]
    assert found.id.tolist() == [3, 4]


def test_an_event_that_only_wraps_its_namesake_counts_once() -> None:
    rows = [
        op("aten::mm", 0, 10_000, own=1),
        op("aten::mm", 1000, 9000, own=2),
        op("gemm", 20_000, 21_000, linked=2, device_type=CUDA),
        op("inside", 2000, 3000),
        op("inside", 4000, 5000),
    ]
    found = listed(rows, "cuda")
    assert names(found) == ["aten::mm", "inside", "inside", "gemm"]
    assert found.parent.tolist() == [-1, 0, 0, -1]
    assert found.device_time_total[0] == 1.0
    assert found.cpu_time_total[0] == 10.0


def test_names_left_out_renamed_and_of_steps() -> None:
    rows = [op("aten::is_leaf", 0, 1), op("ProfilerStep#7", 0, 9), op("_ZN1aE", 1, 2), op("hidden", 1, 2, is_hidden=True)]
    assert names(listed(rows, rename=lambda name: "a" if name == "_ZN1aE" else name)) == ["ProfilerStep*", "a"]


def test_stacks_from_the_python_calls_around() -> None:
    rows = [
        op("main.py(1): main", 0, 10_000, is_python=True),
        op("lib.py(5): call", 1000, 5000, is_python=True),
        op("aten::mm", 2000, 3000, sequence=4),
        op("MmBackward", 7000, 8000, sequence=4, scope=1, thread=2, forward_thread=1),
    ]
    found = listed(rows)
    stacks = {name: found.stack(key) for name, key in zip(names(found), found.stack_key.tolist(), strict=True)}
    assert stacks["aten::mm"] == ["lib.py(5): call", "main.py(1): main"]
    assert stacks["MmBackward"] == stacks["aten::mm"], "the backward operator has the stack of its forward"
    kept = listed(rows, stack_filter=lambda frame: "lib" not in frame)
    assert kept.stack(int(kept.stack_key[2])) == ["main.py(1): main"]


def test_lists_do_not_change() -> None:
    found = listed([op("a", 0, 1)])
    with pytest.raises(FrozenInstanceError):
        found.parent = np.array([0])  # type: ignore[misc]


EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 10), st.integers(1, 2)), min_size=1, max_size=12
)


@given(EVENTS)
def test_self_times_add_up_to_those_at_the_top(events: list[tuple[str, int, int, int]]) -> None:
    found = listed([op(name, start, start + length, thread=thread) for name, start, length, thread in events])
    top = found.cpu_time_total[found.parent < 0].sum()
    assert found.self_cpu_time_total.sum() == pytest.approx(top)
    # Parents come before their children, and enclose them.
    for position, parent in enumerate(found.parent.tolist()):
        assert parent < position
        if parent >= 0:
            assert found.start_us[parent] <= found.start_us[position] and found.end_us[position] <= found.end_us[parent]


@given(st.lists(EVENTS, min_size=2, max_size=3))
def test_joined_lists_say_what_each_says_alone(windows: list[list[tuple[str, int, int, int]]]) -> None:
    parts = [listed([op(n, s, s + length, thread=t) for n, s, length, t in events]) for events in windows]
    joined = concatenate(parts)
    assert names(joined) == [name for part in parts for name in names(part)]
    for column in ("self_cpu_time_total", "cpu_time_total", "id", "start_us", "thread"):
        assert getattr(joined, column).tolist() == [value for part in parts for value in getattr(part, column).tolist()]
    place = 0
    for part in parts:
        own = joined.parent[place : place + len(part)]
        assert np.where(own >= 0, own - place, -1).tolist() == part.parent.tolist()
        place += len(part)
