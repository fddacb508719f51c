"""Every real trace gives the facts that were counted from its JSON by plain Python."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from kinetoscope.formats.chrome.reader import read_chrome
from kinetoscope.formats.chrome.writer import write_chrome
from kinetoscope.trace.errors import TraceError
from kinetoscope.trace.trace import Trace
from tests.shared_traces import FACTS, NAMES, TRACES

DEVICE_WORK = ["kernel", "gpu_memcpy", "gpu_memset"]


def read(name: str) -> Trace:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_chrome(TRACES / name)


def by(frame: pl.DataFrame, key: str, value: pl.Expr) -> dict[Any, Any]:
    return dict(frame.group_by(key).agg(value).iter_rows())


def busy_ns(work: pl.DataFrame) -> dict[str, int]:
    """Time in which a device ran at least one slice."""
    busy: dict[str, int] = {}
    for (device,), rows in work.sort("start_ns").group_by(["device"]):
        total, reached = 0, -(2**62)
        for start, duration in zip(rows["start_ns"], rows["duration_ns"], strict=True):
            if start + duration > reached:
                total += start + duration - max(start, reached)
                reached = start + duration
        busy[str(device)] = total
    return busy


@pytest.mark.parametrize("name", NAMES)
def test_facts(name: str) -> None:
    facts, trace = FACTS[name], read(name)
    events, metadata = trace.events, trace.metadata
    assert trace.issues == {}
    phases = {phase: count for phase, count in facts["by_phase"].items() if phase != "M"}
    assert by(events, "phase", pl.len()) == phases
    slices = events.filter(pl.col("phase") == "X")
    assert by(slices, "category", pl.len()) == facts["slices_by_category"]
    assert by(slices, "category", pl.col("duration_ns").sum()) == facts["duration_ns_by_category"]
    assert slices["start_ns"].min() == int(Decimal(facts["first_ts_us"]) * 1000)
    assert (slices["start_ns"] + slices["duration_ns"]).max() == int(Decimal(facts["last_end_us"]) * 1000)
    work = slices.filter(pl.col("category").is_in(DEVICE_WORK))
    assert work.height == facts["device_slices"]
    assert sorted({str(stream) for stream in work["stream"]}) == facts["device_streams"]
    assert busy_ns(work) == facts["device_busy_ns"]
    launches = slices.filter(pl.col("category").is_in(["cuda_runtime", "cuda_driver"]))["correlation"]
    assert work["correlation"].is_in(launches.unique().to_list()).sum() == facts["device_slices_with_launch"]
    assert {f"ProfilerStep#{step}" for step in metadata.steps} == set(facts["steps"])
    distributed = metadata.distributed or {}
    assert {key: distributed.get(key) for key in facts["distributed"]} == facts["distributed"]
    assert metadata.source.get("schemaVersion") == facts["schemaVersion"]
    if facts.get("baseTimeNanoseconds"):
        assert metadata.base_time_ns == facts["baseTimeNanoseconds"]
    assert len(metadata.device_properties) == facts.get("deviceProperties", len(metadata.device_properties))
    counts = by(slices.filter(pl.col("category") == "cpu_op"), "name", pl.len())
    for operator, count in facts.get("most_frequent_operators", []):
        assert counts[operator] == count


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("name", NAMES)
def test_reading_what_was_written_gives_the_same_table(name: str, suffix: str, tmp_path: Any) -> None:
    trace = read(name)
    path = tmp_path / f"trace{suffix}"
    write_chrome(trace, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = read_chrome(path)
    assert_frame_equal(again.events, trace.events)
    expected = trace.metadata
    assert again.metadata.processes == expected.processes
    assert again.metadata.threads == expected.threads
    assert again.metadata.user == expected.user
    assert again.metadata.distributed == expected.distributed
    assert again.metadata.device_properties == expected.device_properties
    assert again.metadata.text_ids == expected.text_ids
    assert again.metadata.base_time_ns == expected.base_time_ns
    assert again.metadata.source == {"schemaVersion": 1, "displayTimeUnit": "ms", **expected.source}


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("simple_add_execution_trace.json.gz", "an execution trace"),
        ("linear_execution_trace.json.gz", "an execution trace"),
        ("memory_timeline.raw.json.gz", "a JSON list, but not of events"),
    ],
)
def test_other_files_are_refused_by_what_they_are(name: str, what: str) -> None:
    with pytest.raises(TraceError, match=what):
        read_chrome(TRACES / name)


def test_integers_beyond_64_bits_stay_exact() -> None:
    args = read("large_integers.json.gz").events["args"].to_list()
    assert args == [None, '{"Comms Id":10159970886766084423}']


def test_old_category_names_are_kept() -> None:
    events = read("legacy_bare_list.json.gz").events
    originals = events["args"].str.json_path_match('$["Original category"]')
    pairs = set(zip(events["category"], originals, strict=True))
    assert pairs >= {("cpu_op", "Operator"), ("kernel", "Kernel"), ("gpu_memcpy", "Memcpy"), ("gpu_memset", "Memset"),
                     ("cuda_runtime", "Runtime"), ("ac2g", "async")}  # fmt: skip
    assert all(original is None for category, original in pairs if category == "Trace")


def test_text_and_number_of_one_thread_are_one() -> None:
    # The slices of this file name their thread by text, its arrows by number.
    events = read("legacy_bare_list.json.gz").events
    operators = set(events.filter(pl.col("category") == "cpu_op")["thread"].to_list())
    arrows = set(events.filter(pl.col("phase") == "s")["thread"].to_list())
    assert 4093687616 in operators
    assert 4093687616 in arrows
