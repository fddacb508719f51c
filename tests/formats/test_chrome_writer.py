"""The JSON that is written is valid and complete, whatever the table holds."""

from __future__ import annotations

import gzip
import json
import math
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from kinetoscope.formats.chrome.deflated import Deflated
from kinetoscope.formats.chrome.reader import parse_chrome, read_chrome
from kinetoscope.formats.chrome.writer import chrome_blocks, write_chrome, write_chrome_text
from kinetoscope.trace.metadata import Metadata, ProcessInfo, ThreadInfo
from kinetoscope.trace.trace import Trace
from tests.shared_traces import parse, slice_


def strictly(text: bytes) -> Any:
    """Decode JSON, refusing what only Python's module accepts."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(text.decode(), parse_constant=refuse)


def written(trace: Trace) -> Any:
    return strictly(b"".join(chrome_blocks(trace)))


def again(trace: Trace) -> Trace:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return parse_chrome(b"".join(chrome_blocks(trace)), "written")


def table(*rows: dict[str, Any], **metadata: Any) -> Trace:
    defaults = {"phase": "X", "category": "cpu_op", "process": 1, "thread": 2, "start_ns": 0, "duration_ns": 1}
    return Trace(pl.DataFrame([{**defaults, **row} for row in rows], infer_schema_length=None), Metadata(**metadata))


NASTY = [
    'say "hi"',
    "C:\\dir\\",
    "tab\tline\nreturn\r",
    "\x00\x01\x1f\x7f",
    "ünï 名前 \U0001f600",
    "\u2028\u2029",
    "</script>",
    "",
    " ",
    "\x1e",
]


def test_names_of_any_text() -> None:
    trace = table(*({"name": name, "start_ns": number, "category": name} for number, name in enumerate(NASTY)))
    events = written(trace)["traceEvents"]
    assert [event["name"] for event in events] == NASTY
    assert again(trace).events["name"].to_list() == NASTY
    assert again(trace).events["category"].to_list() == NASTY


def test_an_event_as_kineto_writes_it() -> None:
    event = slice_(
        "aten::add",
        5269136370060.966,
        16.5,
        args={
            "External id": 9,
            "Sequence number": 1,
            "Fwd thread id": 0,
            "Record function id": 0,
            "Concrete Inputs": ["", "nan", "1"],
            "Input type": ["float", "Scalar"],
            "Input Strides": [[1], []],
            "Input Dims": [[8], [4, 8]],
            "Ev Idx": 8,
        },
    )
    (got,) = written(parse([event]))["traceEvents"]
    assert got == event
    text = b"".join(chrome_blocks(parse([event])))
    assert b'"ts":5269136370060.966,"dur":16.500,' in text


def test_times_keep_their_nanoseconds() -> None:
    starts = [0, 1, 999, 1000, -1, -1500, 1712195495406752797, 2**53 + 1, -(2**53) - 1]
    trace = table(*({"name": "a", "start_ns": start, "duration_ns": abs(start) % 10**15} for start in starts))
    assert again(trace).events.select("start_ns", "duration_ns").rows() == [(start, abs(start) % 10**15) for start in starts]


def test_memory_and_device_rows() -> None:
    trace = table(
        {
            "phase": "i",
            "category": "cpu_instant_event",
            "name": "[memory]",
            "duration_ns": None,
            "address": 140,
            "bytes": -512,
            "total_allocated": 1,
            "total_reserved": 2,
            "device_type": "cpu",
        },
        {
            "phase": "i",
            "category": "cpu_instant_event",
            "name": "[memory]",
            "duration_ns": None,
            "address": 7,
            "bytes": 8,
            "total_allocated": 3,
            "total_reserved": 4,
            "device_type": "cuda",
            "device": 1,
        },
        {
            "category": "gpu_memcpy",
            "name": "Memcpy HtoD",
            "process": 1,
            "thread": 7,
            "device": 1,
            "stream": 7,
            "bytes": 64,
            "correlation": 5,
            "device_type": "cuda",
        },
    )
    first, second, copy = (event for event in written(trace)["traceEvents"] if event["ph"] in "Xi")
    assert first["args"] == {
        "Total Reserved": 2,
        "Total Allocated": 1,
        "Bytes": -512,
        "Device Id": -1,
        "Device Type": 0,
        "Addr": 140,
    }
    assert second["args"]["Device Id"] == 1
    assert second["args"]["Device Type"] == 1
    assert first["s"] == "t"
    assert copy["args"] == {"correlation": 5, "device": 1, "stream": 7, "bytes": 64}
    columns = ["address", "bytes", "total_allocated", "total_reserved", "device_type", "device", "stream", "correlation"]
    assert_frame_equal(again(trace).events.select(columns), trace.events.select(columns))


def test_columns_that_kineto_does_not_write() -> None:
    trace = table(
        {
            "name": "a",
            "scope": 7,
            "is_async": True,
            "record_thread": 3,
            "overload_name": 'Te"nsor',
            "flops": 12,
            "module": "net.0",
            "stack": "f.py(1): f\ng.py(2): g",
        },
        {"name": "b", "is_async": False, "stack": "one;two", "rank": 4},
        {"name": "c", "stack": "one;two\nthree"},
    )
    columns = ["scope", "is_async", "record_thread", "overload_name", "flops", "module", "stack", "rank"]
    assert again(trace).events.select(columns).rows() == trace.events.select(columns).rows()
    assert written(trace)["traceEvents"][0]["args"]["Call stack"] == "f.py(1): f;g.py(2): g"


def test_text_that_is_no_json_in_json_columns() -> None:
    trace = table(
        {"name": "a", "input_shapes": "[[1, ", "args": "{not json"},
        {"name": "b", "input_types": "['float']", "args": " {} "},
        {"name": "c", "args": "[1]"},
        {"name": "d", "args": '{"x": [1, 2]}'},
    )
    a, b, c, d = written(trace)["traceEvents"]
    assert a["args"] == {"Input Dims": "[[1, ", "args text": "{not json"}
    assert b["args"] == {"Input type": "['float']"}
    assert c["args"] == {"args text": "[1]"}
    assert d["args"] == {"x": [1, 2]}


def test_rows_without_anything() -> None:
    trace = Trace(pl.DataFrame({"id": [0, 1]}))
    assert written(trace)["traceEvents"] == [{"ph": "X", "ts": 0.0}, {"ph": "X", "ts": 0.0}]
    assert written(Trace(pl.DataFrame({"id": []})))["traceEvents"] == []


def test_metadata_of_any_kind() -> None:
    user = {
        "quote": 'a "b" \\ c',
        "nan": math.nan,
        "deep": {"a": [1, {"b": None}]},
        "half": "\ud83d",
        "traceEvents": "mine",
        "schemaVersion": 99,
        "big": 2**70,
        "with_stack": "yes",
        "tuple": (1, 2),
        5: "number",
    }
    trace = table(
        {"name": "a"},
        user=user,
        options={"with_stack": True, "schedule": {"wait": 1}},
        trace_id="id",
        base_time_ns=17,
        distributed={"rank": 2, "backend": "gloo"},
        device_properties=[{"id": 0}],
        steps=[3],
        versions={"torch": "2.13"},
    )
    data = written(trace)
    assert data["with_stack"] == 1
    assert data["baseTimeNanoseconds"] == 17
    assert data["distributedInfo"] == {"rank": 2, "backend": "gloo"}
    assert data["quote"] == 'a "b" \\ c'
    assert len(data["traceEvents"]) == 1
    got = again(trace).metadata
    expected = {**user, "nan": None, "half": "?", "tuple": [1, 2], "5": "number"}
    del expected[5]
    assert got.user == expected
    assert got.options == {"with_stack": True, "schedule": {"wait": 1}}
    assert (got.trace_id, got.base_time_ns, got.rank, got.steps, got.versions) == ("id", 17, 2, [3], {"torch": "2.13"})
    assert got.device_properties == [{"id": 0}]


def test_names_of_processes_and_threads() -> None:
    trace = table(
        {"name": "a", "process": -(2**32) - 5, "thread": 7},
        processes=[ProcessInfo(1, "python", "CPU", 3), ProcessInfo(-(2**32) - 5, sort_index=0)],
        threads=[ThreadInfo(1, 2, 'thread "2"', 9), ThreadInfo(-(2**32) - 5, 7, "t")],
        text_ids={str(-(2**32) - 5): 'Spa"ns'},
        source={"metadataEvents": [{"name": "odd", "pid": 1, "tid": 2, "args": {"x": 1}}]},
    )
    events = written(trace)["traceEvents"]
    told = [(event["name"], event["pid"], event["tid"], event["args"]) for event in events if event["ph"] == "M"]
    assert told == [
        ("process_name", 1, 0, {"name": "python"}),
        ("process_labels", 1, 0, {"labels": "CPU"}),
        ("process_sort_index", 1, 0, {"sort_index": 3}),
        ("process_sort_index", 'Spa"ns', 0, {"sort_index": 0}),
        ("thread_name", 1, 2, {"name": 'thread "2"'}),
        ("thread_sort_index", 1, 2, {"sort_index": 9}),
        ("thread_name", 'Spa"ns', 7, {"name": "t"}),
        ("odd", 1, 2, {"x": 1}),
    ]
    assert events[-1]["pid"] == 'Spa"ns'


def test_arrows_are_written_as_they_were_read() -> None:
    arrows = [
        {"ph": "s", "id": 5, "pid": 1, "tid": 2, "ts": 1.5, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 5, "pid": 0, "tid": 7, "ts": 2.5, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    ]
    assert written(parse(arrows))["traceEvents"] == arrows


def test_arrows_that_follow_from_the_table() -> None:
    trace = table(
        {"name": "forward", "start_ns": 0, "duration_ns": 50, "sequence_number": 4, "record_thread": 1, "scope": 0},
        {"name": "inner", "start_ns": 10, "duration_ns": 20, "sequence_number": 4, "record_thread": 1, "scope": 0},
        {"name": "cudaLaunchKernel", "category": "cuda_runtime", "start_ns": 12, "duration_ns": 3, "correlation": 77},
        {
            "name": "kernel",
            "category": "kernel",
            "process": 0,
            "thread": 7,
            "start_ns": 40,
            "duration_ns": 9,
            "correlation": 77,
        },
        {
            "name": "backward",
            "start_ns": 90,
            "duration_ns": 9,
            "sequence_number": 4,
            "record_thread": 2,
            "forward_thread": 1,
            "scope": 1,
            "thread": 3,
        },
        {
            "name": "other thread",
            "start_ns": 20,
            "duration_ns": 9,
            "sequence_number": 4,
            "record_thread": 5,
            "scope": 0,
            "thread": 9,
        },
    )
    arrows = [event for event in written(trace)["traceEvents"] if event["ph"] in "sf"]
    ends: dict[tuple[str, int], dict[str, Any]] = {}
    for event in arrows:
        ends.setdefault((event["cat"], event["id"]), {})[event["ph"]] = (event["pid"], event["tid"], event["ts"])
    found = {category: pair for (category, _), pair in ends.items()}
    assert found == {"ac2g": {"s": (1, 2, 0.012), "f": (0, 7, 0.04)}, "fwdbwd": {"s": (1, 2, 0.01), "f": (1, 3, 0.09)}}
    assert all(event["bp"] == "e" for event in arrows if event["ph"] == "f")
    # They are no rows of the table: reading leaves them out again.
    assert again(trace).events["name"].to_list() == trace.events["name"].to_list()


def test_gzip_and_plain_hold_the_same(tmp_path: Path) -> None:
    trace = table(*({"name": f"n{number}", "start_ns": number} for number in range(100_000)))
    write_chrome(trace, tmp_path / "t.json")
    write_chrome(trace, tmp_path / "t.json.gz")
    plain = (tmp_path / "t.json").read_bytes()
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()) == plain
    assert read_chrome(tmp_path / "t.json.gz").events["name"].to_list() == trace.events["name"].to_list()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.json", "t.json.gz"]


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_events_that_are_text_already(suffix: str, tmp_path: Path) -> None:
    events = ",\n".join(json.dumps(slice_(f"n{number}", number, 1)) for number in range(300_000))
    write_chrome_text(Metadata(user={"k": "v"}), Deflated(events.encode()), tmp_path / f"t{suffix}")
    trace = read_chrome(tmp_path / f"t{suffix}")
    assert trace.events["name"].to_list() == [f"n{number}" for number in range(300_000)]
    assert trace.metadata.user == {"k": "v"}


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")

    def fail(_: Trace) -> Any:
        yield b"half"
        raise RuntimeError("disk on fire")

    monkeypatch.setattr("kinetoscope.formats.chrome.writer.chrome_blocks", fail)
    with pytest.raises(RuntimeError, match="disk on fire"):
        write_chrome(table({"name": "a"}), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ids = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(
    texts
    | st.sampled_from(["External id", "correlation", "device", "bytes", "Input Dims", "Call stack", "Is async", "chrome"]),
    json_values,
    max_size=5,
)
time = st.integers(0, 2**61).map(lambda ns: float(f"{ns // 1000}.{ns % 1000:03}")) | st.integers(0, 10**9)


@st.composite
def chrome_events(draw: st.DrawFn) -> dict[str, Any]:
    phase = draw(st.sampled_from("XXXiCsfbe"))
    event: dict[str, Any] = {"ph": phase, "ts": draw(time), "pid": draw(ids | texts), "tid": draw(st.integers(0, 3) | texts)}
    if draw(st.booleans()):
        event["cat"] = draw(st.sampled_from(["cpu_op", "kernel", "cpu_instant_event", "Kernel", "gpu_memcpy", "ac2g"]) | texts)
    if draw(st.booleans()):
        event["name"] = draw(texts)
    if phase == "X":
        event["dur"] = draw(st.integers(0, 10**9) | time.filter(lambda value: value < 10**14))
    if draw(st.booleans()):
        event["args"] = draw(arguments)
    if phase in "sfbe":
        event["id"] = draw(ids | texts)
    for key in draw(st.sets(st.sampled_from(["bp", "s", "cname", "tts", "dur", "custom"]))):
        event.setdefault(key, draw(json_values))
    return event


@settings(max_examples=150, deadline=None)
@given(st.lists(chrome_events(), max_size=12))
def test_reading_what_was_written_gives_the_same(events: list[dict[str, Any]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = parse_chrome(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode(), "made")
        text = b"".join(chrome_blocks(trace))
        strictly(text)
        assert len(trace) == len(events)
        assert_frame_equal(parse_chrome(text, "written").events, trace.events)
