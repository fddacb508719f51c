"""Perfetto files, read with Perfetto's own definitions, hold what the table holds."""

from __future__ import annotations

import json
import warnings
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinetoscope
from kinetoscope.formats.perfetto.writer import perfetto_blocks
from kinetoscope.trace.metadata import Metadata, ProcessInfo, ThreadInfo
from kinetoscope.trace.nesting import nested
from kinetoscope.trace.trace import Trace
from tests.shared_traces import NAMES, TRACES

protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

BEGIN, END, INSTANT, COUNT = 1, 2, 3, 4


@dataclass
class Read:
    """A file as trace_processor would see it; times are nanoseconds since the epoch."""

    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[dict[str, Any]] = field(default_factory=list)
    instants: list[dict[str, Any]] = field(default_factory=list)
    counts: list[tuple[str, int, float]] = field(default_factory=list)
    flows: dict[int, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    open_at_end: int = 0
    ends_without_begin: int = 0

    def name(self, number: int) -> str:
        track = self.tracks[number]
        return str(track.thread.thread_name or track.process.process_name or track.name)

    def parent_name(self, number: int) -> str:
        return self.name(self.tracks[number].parent_uuid)


def value_of(annotation: Any, texts: dict[int, str], names: dict[int, str]) -> Any:
    kind = annotation.WhichOneof("value")
    if annotation.dict_entries:
        return {names[one.name_iid]: value_of(one, texts, names) for one in annotation.dict_entries}
    if annotation.array_values:
        return [value_of(one, texts, names) for one in annotation.array_values]
    return texts[annotation.string_value_iid] if kind == "string_value_iid" else getattr(annotation, kind)


class Reader:
    """Follows the packets of one sequence."""

    def __init__(self) -> None:
        self.read = Read()
        self.clock = 0
        self.interned: dict[str, dict[int, str]] = {
            kind: {} for kind in ("event_names", "event_categories", "debug_annotation_names")
        }
        self.values: dict[int, str] = {}
        self.stacks: dict[int, list[dict[str, Any]]] = defaultdict(list)

    def take(self, packet: Any) -> None:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("clock_snapshot"):
            boot, own = packet.clock_snapshot.clocks
            assert (boot.clock_id, own.clock_id, own.is_incremental) == (6, 64, True)
            assert boot.timestamp == own.timestamp
            self.clock = own.timestamp
        if packet.HasField("interned_data"):
            for kind, known in self.interned.items():
                known.update({one.iid: one.name for one in getattr(packet.interned_data, kind)})
            self.values.update({one.iid: one.str.decode() for one in packet.interned_data.debug_annotation_string_values})
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in self.read.tracks
            assert not track.parent_uuid or track.parent_uuid in self.read.tracks
            self.read.tracks[track.uuid] = track
        if packet.HasField("track_event"):
            assert packet.sequence_flags == 2
            self.clock += packet.timestamp
            self.event(packet.track_event)

    def event(self, event: Any) -> None:
        stack = self.stacks[event.track_uuid]
        if event.type == END and stack:
            done = stack.pop()
            self.read.slices.append({**done, "dur": self.clock - done["ts"]})
        elif event.type == END:
            self.read.ends_without_begin += 1
        elif event.type == COUNT:
            assert self.read.tracks[event.track_uuid].HasField("counter")
            self.read.counts.append((self.read.name(event.track_uuid), self.clock, event.double_counter_value))
        else:
            found = self.described(event, len(stack))
            for number in [*event.flow_ids, *event.terminating_flow_ids]:
                self.read.flows[number].append(found)
            (stack if event.type == BEGIN else self.read.instants).append(found)

    def described(self, event: Any, depth: int) -> dict[str, Any]:
        keys = self.interned["debug_annotation_names"]
        return {
            "name": self.interned["event_names"][event.name_iid] if event.name_iid else None,
            "category": self.interned["event_categories"][event.category_iids[0]] if event.category_iids else None,
            "ts": self.clock,
            "track": event.track_uuid,
            "args": {keys[one.name_iid]: value_of(one, self.values, keys) for one in event.debug_annotations},
            "depth": depth,
        }


def decode(trace: Trace) -> Read:
    reader = Reader()
    for outer in protos.Trace.FromString(b"".join(perfetto_blocks(trace))).packet:
        assert outer.compressed_packets
        for packet in protos.Trace.FromString(zlib.decompress(outer.compressed_packets)).packet:
            reader.take(packet)
    reader.read.open_at_end = sum(map(len, reader.stacks.values()))
    return reader.read


def table_slices(trace: Trace) -> pl.DataFrame:
    return trace.events.filter(
        (pl.col("phase") == "X") & pl.col("duration_ns").is_not_null() & pl.col("start_ns").is_not_null()
    )


@pytest.mark.parametrize("name", NAMES)
def test_real_traces_are_all_there(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = kinetoscope.read(TRACES / name)
        if len(trace) > 100_000:
            trace = trace.part("id < 100000")
        read = decode(trace)
    base = trace.metadata.base_time_ns
    slices = table_slices(trace)
    wanted = Counter(slices.select("category", "name", pl.col("start_ns") + base, "duration_ns").iter_rows())
    assert Counter((one["category"], one["name"], one["ts"], one["dur"]) for one in read.slices) == wanted
    # Nothing but slices leaves a stack open.
    halves = trace.events["phase"].is_in(["B", "E", "b", "e"])
    assert halves.any() or (read.open_at_end, read.ends_without_begin) == (0, 0)
    # Nesting is the table's, on lanes where no slices overlap.
    overlapping = {read.tracks[number].parent_uuid for number in read.tracks if "(overlapping" in read.name(number)}
    alone = [one for one in read.slices if one["track"] not in overlapping and "(overlapping" not in read.name(one["track"])]
    depths = Counter((one["name"], one["ts"], one["dur"], one["depth"]) for one in alone)
    table = Counter(slices.select("name", pl.col("start_ns") + base, "duration_ns", "depth").iter_rows())
    assert depths <= table
    if not overlapping:
        assert depths == table
    for column, key in (("external_id", "External id"), ("correlation", "correlation"), ("input_shapes", "Input Dims")):
        expected = Counter(slices.filter(pl.col(column).is_not_null()).select("name", column).iter_rows())
        assert Counter((one["name"], one["args"][key]) for one in read.slices if key in one["args"]) == expected, key


def test_arguments_of_a_real_trace_are_whole() -> None:
    trace = kinetoscope.read(TRACES / "nvidia_alexnet_cuda_sync.json.gz")
    kernels = trace.events.filter(pl.col("category") == "kernel")
    wanted = sorted(
        (row["start_ns"] + trace.metadata.base_time_ns, json.loads(row["args"] or "{}")) for row in kernels.to_dicts()
    )
    found = sorted((one["ts"], one["args"]) for one in decode(trace).slices if one["category"] == "kernel")
    assert len(found) == len(wanted) > 0
    for (time, args), (when, shown) in zip(wanted, found, strict=True):
        assert time == when
        assert args.items() <= shown.items()


def test_arrows_join_launch_and_kernel() -> None:
    trace = kinetoscope.read(TRACES / "nvidia_alexnet_cuda_sync.json.gz")
    pairs = 0
    for ends in decode(trace).flows.values():
        categories = [one["category"] for one in ends]
        if len(ends) == 2 and "kernel" in categories:
            first, last = sorted(ends, key=lambda one: one["category"] == "kernel")
            assert first["category"] in ("cuda_runtime", "cuda_driver")
            assert first["args"]["correlation"] == last["args"]["correlation"]
            pairs += 1
    assert pairs == trace.events.filter(pl.col("category") == "kernel").height


def slice_(name: str | None, start: int, duration: int, **others: Any) -> dict[str, Any]:
    return {"name": name, "phase": "X", "category": "cpu_op", "start_ns": start, "duration_ns": duration, "process": 7,
            "thread": 7, **others}  # fmt: skip


def trace_of(rows: list[dict[str, Any]], **metadata: Any) -> Trace:
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))
    return Trace(nested(Trace(frame).events), Metadata(**metadata))


def test_slices_that_overlap_stand_on_further_tracks() -> None:
    read = decode(trace_of([slice_("a", 0, 10), slice_("b", 5, 10), slice_("c", 6, 2), slice_("d", 7, 20), slice_("e", 10, 1)]))
    where = {one["name"]: read.name(one["track"]) for one in read.slices}
    assert where == {"a": "thread 7", "b": "(overlapping)", "c": "thread 7", "d": "(overlapping 2)", "e": "thread 7"}
    assert {one["name"]: one["dur"] for one in read.slices} == {"a": 10, "b": 10, "c": 2, "d": 20, "e": 1}
    assert {read.parent_name(one["track"]) for one in read.slices if one["name"] in "bd"} == {"thread 7"}


def test_tracks_have_names_places_and_ids() -> None:
    rows = [
        slice_("op", 0, 5, process=25, thread=26),
        slice_("kernel", 2, 5, process=0, thread=7, stream=7, device=0, category="kernel"),
        slice_("text", 2, 5, process=-(2**32) - 5, thread=-(2**32) - 9),
        slice_("big", 2, 5, process=25, thread=2**45),
        slice_("none", 2, 5, process=None, thread=None),
    ]
    read = decode(
        trace_of(
            rows,
            processes=[ProcessInfo(25, "python", "CPU", 3), ProcessInfo(0, "python", "GPU 0", 500)],
            threads=[ThreadInfo(25, 26, "main", 1), ThreadInfo(0, 7, "stream 7 ", 2)],
            text_ids={str(-(2**32) - 5): "Spans", str(-(2**32) - 9): "PyTorch Profiler"},
        )
    )
    named = {one["name"]: read.tracks[one["track"]] for one in read.slices}
    thread, process = named["op"].thread, read.tracks[named["op"].parent_uuid]
    assert (thread.pid, thread.tid, thread.thread_name, named["op"].sibling_order_rank) == (25, 26, "main", 1)
    assert (process.process.pid, process.process.process_name, process.sibling_order_rank) == (25, "python", 3)
    assert list(process.process.process_labels) == ["CPU"]
    device = read.tracks[named["kernel"].parent_uuid]
    assert (named["kernel"].name, device.name, device.HasField("process")) == ("stream 7 ", "python (GPU 0)", False)
    text = read.tracks[named["text"].parent_uuid]
    assert (named["text"].name, text.name) == ("thread PyTorch Profiler", "process Spans")
    assert named["big"].thread.tid == 2**45
    assert read.name(named["none"].uuid) == "unknown thread"


def test_ranks_of_one_trace_have_processes_of_their_own() -> None:
    read = decode(trace_of([slice_("a", 0, 5, rank=0), slice_("b", 0, 5, rank=1)]))
    assert {one["name"]: read.parent_name(one["track"]) for one in read.slices} == {
        "a": "rank 0: process 7",
        "b": "rank 1: process 7",
    }


def test_counters_memory_instants_and_spans() -> None:
    place = {"process": 7, "thread": 7}
    memory = {"phase": "i", "name": "[memory]", "category": "cpu_instant_event", "device_type": "cuda", "device": 1, **place}
    rows = [
        {"phase": "C", "name": "power", "start_ns": 5, "args": '{"watts": 250.5, "name": "x", "temperature": 60}', **place},
        {**memory, "start_ns": 6, "bytes": 512, "total_allocated": 1024, "total_reserved": 4096},
        {**memory, "start_ns": 9, "bytes": -512, "total_allocated": 512, "total_reserved": 4096},
        {"phase": "b", "name": "copy", "category": "async", "start_ns": 7, "flow_id": 3, **place},
        {"phase": "b", "name": "other", "category": "async", "start_ns": 8, "flow_id": 4, **place},
        {"phase": "e", "name": "copy", "category": "async", "start_ns": 12, "flow_id": 3, **place},
        {"phase": "X", "name": "no length", "category": "cpu_op", "start_ns": 4, "args": '{"dur":-5}', **place},
        {"phase": "B", "name": "never ends", "category": "x", "start_ns": 1, **place},
    ]
    read = decode(trace_of(rows, base_time_ns=100))
    allocated, reserved = "cuda:1 bytes allocated", "cuda:1 bytes reserved"
    assert read.counts == [("power watts", 105, 250.5), ("power temperature", 105, 60.0), (allocated, 106, 1024.0),
                           (reserved, 106, 4096.0), (allocated, 109, 512.0), (reserved, 109, 4096.0)]  # fmt: skip
    assert [(one["name"], one["ts"], one["args"].get("dur")) for one in read.instants] == [
        ("no length", 104, -5),
        ("[memory]", 106, None),
        ("[memory]", 109, None),
    ]
    assert [(one["name"], one["ts"], one["dur"], read.name(one["track"])) for one in read.slices] == [("copy", 107, 5, "copy")]
    assert read.open_at_end == 2


def test_an_arrow_that_ends_nowhere_is_kept_as_an_instant() -> None:
    arrow = {"category": "ac2g", "name": "ac2g", "flow_id": 1, "process": 7, "thread": 7}
    rows = [slice_("a", 0, 5), {"phase": "s", "start_ns": 2, **arrow}, {"phase": "f", "start_ns": 8, **arrow}]
    read = decode(trace_of(rows))
    (ends,) = read.flows.values()
    assert [(one["name"], one["ts"]) for one in ends] == [("a", 0), ("ac2g", 8)]


def test_what_has_no_place_in_time_is_left_out_with_a_warning() -> None:
    trace = trace_of([slice_("a", 0, 5), slice_("before the epoch", -50, 5)], base_time_ns=10)
    with pytest.warns(UserWarning, match="1 events have no time, or one before the epoch"):
        read = decode(trace)
    assert [one["name"] for one in read.slices] == ["a"]


def test_a_table_whose_parents_are_wrong_is_nested_anew() -> None:
    good = trace_of(
        [slice_("a", 0, 10), slice_("b", 2, 3), {"phase": "s", "start_ns": 3, "flow_id": 1, "process": 7, "thread": 7}]
    )
    for parents in ([1, 0, None], [None, 1, None], [None, 77, None], [2, None, None]):
        bad = Trace(good.events.with_columns(parent=pl.Series(parents, dtype=pl.Int64)), good.metadata)
        read = decode(bad)
        assert {one["name"]: one["depth"] for one in read.slices} == {"a": 0, "b": 1}
        assert [one["name"] for one in read.flows[1]] == ["b"]


times = st.integers(0, 12)
names = st.none() | st.text(max_size=3) | st.sampled_from(["aten::mm", "\x00", "💥", "</script>"])
big = st.integers(-(2**63), 2**63 - 1)
numbers = big | st.integers(2**63, 2**66) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
arguments = st.none() | st.dictionaries(st.text(max_size=3), values, max_size=3).map(json.dumps)
rows_of_slices = st.lists(
    st.tuples(names, times, times, st.integers(1, 2), st.none() | big, arguments), max_size=25
)  # fmt: skip


@settings(deadline=None)
@given(rows_of_slices)
def test_any_slices_come_out_as_they_are(rows: list[tuple[str | None, int, int, int, int | None, str | None]]) -> None:
    if not rows:
        return
    trace = trace_of([slice_(name, start, length, thread=thread, correlation=number, args=args)
                      for name, start, length, thread, number, args in rows], base_time_ns=10**18)  # fmt: skip
    read = decode(trace)
    assert (read.open_at_end, read.ends_without_begin, read.instants) == (0, 0, [])
    wanted = Counter((name, 10**18 + start, length) for name, start, length, *_ in rows)
    assert Counter((one["name"], one["ts"], one["dur"]) for one in read.slices) == wanted
    for one in read.slices:
        # On one track a slice lies wholly inside of those that are open when it begins.
        around = [other for other in read.slices if other["track"] == one["track"] and other["depth"] == one["depth"] - 1
                  and other["ts"] <= one["ts"] and one["ts"] + one["dur"] <= other["ts"] + other["dur"]]  # fmt: skip
        assert one["depth"] == 0 or around


@settings(deadline=None)
@given(st.lists(arguments, min_size=1, max_size=5))
def test_any_arguments_come_out_as_they_are(texts: list[str | None]) -> None:
    read = decode(trace_of([slice_("a", place, 1, args=text) for place, text in enumerate(texts)]))
    found = [one["args"] for one in sorted(read.slices, key=lambda one: one["ts"])]
    assert found == [shown(json.loads(text or "{}")) for text in texts]


def shown(value: Any) -> Any:
    """A value as an annotation holds it: nothing, what is empty and larger numbers than fit are text."""
    if isinstance(value, dict):
        return {key: shown_inside(one) for key, one in value.items()}
    return shown_inside(value)


def shown_inside(value: Any) -> Any:
    if value is None or value in ([], {}) or (isinstance(value, int) and not -(2**63) <= value < 2**64):
        return "null" if value is None else "[]" if value == [] else "{}" if value == {} else str(value)
    if isinstance(value, dict):
        return {key: shown_inside(one) for key, one in value.items()}
    return [shown_inside(one) for one in value] if isinstance(value, list) else value


def test_an_empty_trace_is_a_file_without_events() -> None:
    read = decode(Trace(pl.DataFrame({"name": [], "start_ns": []})))
    assert (read.slices, read.tracks) == ([], {})
