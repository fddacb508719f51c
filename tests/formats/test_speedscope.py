"""speedscope's file: every slice is there, opened and closed in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.formats.chrome.reader import read_chrome
from kinetoscope.formats.speedscope import speedscope
from kinetoscope.trace.trace import Trace
from tests.shared_traces import TRACES, parse, slice_


def replay(data: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Name, start and end of every slice, read as speedscope reads: a stack whose top alone may close."""
    found = []
    frames = [frame["name"] for frame in data["shared"]["frames"]]
    for profile in data["profiles"]:
        stack: list[tuple[int, int]] = []
        before = profile["startValue"]
        for event in profile["events"]:
            assert event["at"] >= before
            before = event["at"]
            if event["type"] == "O":
                stack.append((event["frame"], event["at"]))
            else:
                frame, start = stack.pop()
                assert frame == event["frame"]
                found.append((frames[frame], start, event["at"]))
        assert not stack
        assert before <= profile["endValue"]
    return sorted(found)


def expected(trace: Trace) -> list[tuple[str, int, int]]:
    slices = trace.events.filter(pl.col("duration_ns").is_not_null())
    first = slices["start_ns"].min()
    start = pl.col("start_ns") - first
    return sorted(slices.select("name", start.alias("start"), (start + pl.col("duration_ns")).alias("end")).rows())


@pytest.mark.parametrize("name", ["b200_eager_rank0of8.json.gz", "sglang_decode.json.gz", "nvidia_alexnet_cuda_sync.json.gz"])
def test_every_slice_is_there(name: str, tmp_path: Path) -> None:
    trace = read_chrome(TRACES / name)
    trace.write(tmp_path / "t.speedscope.json")
    assert replay(json.loads((tmp_path / "t.speedscope.json").read_text())) == expected(trace)


def test_by_hand() -> None:
    trace = parse([slice_("a", 1, 10), slice_("b", 2, 3), slice_("crosses", 4, 10), slice_("empty", 5, 0)])
    data = speedscope(trace)
    assert [frame["name"] for frame in data["shared"]["frames"]] == ["a", "b", "crosses", "empty"]
    assert [(p["name"], p["unit"], p["startValue"], p["endValue"]) for p in data["profiles"]] == [
        ("1 / 2", "nanoseconds", 0, 10_000),
        ("1 / 2 (overlapping)", "nanoseconds", 3_000, 13_000),
    ]
    assert data["profiles"][0]["events"] == [
        {"type": "O", "frame": 0, "at": 0},
        {"type": "O", "frame": 1, "at": 1_000},
        {"type": "C", "frame": 1, "at": 4_000},
        {"type": "O", "frame": 3, "at": 4_000},
        {"type": "C", "frame": 3, "at": 4_000},
        {"type": "C", "frame": 0, "at": 10_000},
    ]


def test_no_slices() -> None:
    assert speedscope(Trace(pl.DataFrame({"id": []})))["profiles"] == []


small = st.integers(0, 15)


@given(st.lists(st.tuples(st.sampled_from("abc"), small, small, st.integers(0, 1)), min_size=1, max_size=25))
def test_any_slices(slices: list[tuple[str, int, int, int]]) -> None:
    trace = parse([slice_(name, start, duration, tid=lane) for name, start, duration, lane in slices])
    assert replay(speedscope(trace)) == expected(trace)
