"""Perfetto's own format: a track for each thread and stream, slices with their arguments, flows and counters.

The fields are those of perfetto's ``trace_packet.proto`` and ``track_event.proto``. All packets are of one sequence, in the
order of their times, which are written as differences (an incremental clock): small numbers, that compress well.
"""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl

from kinetoscope.common.atomic_path import atomic_path
from kinetoscope.common.user_warning import warn_user
from kinetoscope.formats import flows as chrome_flows
from kinetoscope.formats import protobuf
from kinetoscope.formats.perfetto.annotations import Annotations, interned, names_and_categories
from kinetoscope.formats.perfetto.tracks import Tracks
from kinetoscope.formats.protobuf import Ints, Part
from kinetoscope.trace.nesting import innermost, layers, nest

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace

PACKETS_AT_A_TIME = 1 << 16
# The level above which the file hardly shrinks any more.
_LEVEL = 6
_MOST_WAITING = 8

_BEGIN, _END, _INSTANT, _COUNT = 1, 2, 3, 4
# Fields of a packet.
_PACKET = 1
_CLOCK_SNAPSHOT, _TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _COMPRESSED, _DEFAULTS = 6, 8, 10, 11, 12, 13, 50, 59
_DEFAULT_CLOCK = 58
# Fields of a track event.
_CATEGORY_IID, _TYPE, _NAME_IID, _TRACK, _COUNTER_VALUE, _FLOW, _LAST_OF_FLOW = 3, 9, 10, 11, 44, 47, 48
_BOOT_CLOCK, _OWN_CLOCK = 6, 64
_STATE_CLEARED, _NEEDS_STATE = 1, 2

_OF_SEQUENCE = protobuf.field(_SEQUENCE, 1) + protobuf.field(_FLAGS, _NEEDS_STATE)
_MEMORY_COUNTERS = {"total_allocated": "allocated", "total_reserved": "reserved"}


def write_perfetto(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as Perfetto's protobuf, for https://ui.perfetto.dev and trace_processor.

    Slices that overlap without nesting stand on further tracks of their thread, named "(overlapping)", so that none is
    lost or cut. What has no time, or one before the epoch, cannot be placed; a warning counts it.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_path(path) as partial, open(partial, "wb") as out:
        out.writelines(perfetto_blocks(trace))


def perfetto_blocks(trace: Trace) -> Iterator[bytes]:
    """Yield the bytes of the file in blocks."""
    events = trace.events
    flows = chrome_flows.derive(events) if not events["phase"].is_in(["s", "t", "f"]).any() else None
    if flows is not None and flows.height:
        events = pl.concat([events, flows])
    base = trace.metadata.base_time_ns
    placed = (events["start_ns"] >= -base).fill_null(False)
    if not placed.all():
        warn_user(f"{events.height - int(placed.sum()):,} events have no time, or one before the epoch, and are left out")
        events = events.filter(placed)
    yield from _Writer(events, trace).blocks()


@dataclass
class _Items:
    """What happens on tracks: beginnings, ends, instants, counts."""

    time: Ints
    group: Ints
    """Of what happens at one time: 0 for the ends of slices that began before, 1 for the rest."""
    order: Ints
    """Within its group."""
    kind: Ints
    track: Ints
    row: Ints
    value: Any = None


class _Writer:
    def __init__(self, events: pl.DataFrame, trace: Trace) -> None:
        self.events = events
        self.base = trace.metadata.base_time_ns
        self.tracks = Tracks(trace.metadata)
        self.annotations = Annotations(events)
        names, categories = names_and_categories()
        self.name = names.codes(events["name"])
        self.category = categories.codes(events["category"])
        self.interned = (names, categories, self.annotations.names, self.annotations.texts)
        self.start = events["start_ns"].to_numpy()
        self.duration = events["duration_ns"].fill_null(0).to_numpy()
        self.phase = events["phase"].fill_null("i").to_numpy()
        self._find_lanes()
        self.slices = np.flatnonzero((self.phase == "X") & events["duration_ns"].is_not_null().to_numpy())
        self.parent = self._parents()
        self.flow_blobs = protobuf.Pieces([b""])
        self.flow = np.zeros(events.height, dtype=np.int64)

    def _find_lanes(self) -> None:
        keys = ["rank", "process", "thread"]
        lanes = (
            self.events.with_row_index("row")
            .group_by(keys, maintain_order=True)
            .agg(pl.col("stream").is_not_null().any().alias("on_device"), pl.len())
        )
        numbered = lanes.select(*keys, lane=pl.int_range(pl.len(), dtype=pl.Int64))
        found = self.events.select(keys).join(numbered, on=keys, how="left", nulls_equal=True, maintain_order="left")
        self.lane = found["lane"].to_numpy()
        self.lane_track = self.tracks.of_lanes(lanes)

    def _parents(self) -> Ints:
        """The index of each slice's parent among the slices, -1 at the top."""
        rows, ids = self.slices, self.events["id"].fill_null(-1).to_numpy()
        start, end = self.start[rows], self.start[rows] + self.duration[rows]
        if not self.events["depth"].gather(rows).null_count() and np.array_equal(ids[rows], rows):
            place = np.full(self.events.height + 1, -1, dtype=np.int64)
            place[rows] = np.arange(len(rows))
            above_id = self.events["parent"].gather(rows).fill_null(-1).clip(-1, self.events.height - 1)
            parent: Ints = place[above_id.to_numpy()]
            has = np.flatnonzero(parent >= 0)
            above = parent[has]
            # The table's own parents, unless rows were changed, left out or put together since it was nested.
            later = (start[above] < start[has]) | (end[above] > end[has]) | (above < has)
            if np.all(
                (start[above] <= start[has])
                & (end[above] >= end[has])
                & later
                & (self.lane[rows][above] == self.lane[rows][has])
            ):
                return parent
        return nest(self.lane[rows], start, end - start)[0]

    def blocks(self) -> Iterator[bytes]:
        is_flow = np.isin(self.phase, ["s", "t", "f"])
        is_half = np.isin(self.phase, ["B", "E"])
        is_async = np.isin(self.phase, ["b", "e"])
        is_count = self.phase == "C"
        is_instant = ~(is_flow | is_half | is_async | is_count)
        is_instant[self.slices] = False
        alone = self._bind_flows(np.flatnonzero(is_flow))
        items = [
            *self._slices(),
            self._instants(np.concatenate([np.flatnonzero(is_instant), alone])),
            self._spans(np.flatnonzero(is_async), self._span_track),
            self._spans(np.flatnonzero(is_half), self._half_track),
            *self._counters(np.flatnonzero(is_count)),
            *self._memory(),
        ]
        merged = _merged(items)
        first = self.base + (int(merged.time[0]) if len(merged.time) else 0)
        yield from _compressed(self._raw_blocks(merged, first))

    def _raw_blocks(self, merged: _Items, first: int) -> Iterator[bytes]:
        yield self._start(first)
        before = first - self.base
        for low in range(0, len(merged.time), PACKETS_AT_A_TIME):
            block = _part(merged, slice(low, low + PACKETS_AT_A_TIME))
            yield self._packets(block, before)
            before = int(block.time[-1])

    # what happens

    def _slices(self) -> list[_Items]:
        rows = self.slices
        lane, start, duration = self.lane[rows], self.start[rows], self.duration[rows]
        layer = layers(lane, start, duration, self.parent)
        track = self.lane_track[lane]
        for place in np.flatnonzero(layer).tolist():
            above = int(track[place])
            name = "(overlapping)" if layer[place] == 1 else f"(overlapping {layer[place]})"
            track[place] = self.tracks.below(("layer", above, int(layer[place])), above, name)
        end = start + duration
        position = np.empty(len(rows), dtype=np.int64)
        position[np.lexsort((-end, start))] = np.arange(len(rows))
        # Of two slices of a layer that end together the inner one is the one that comes later in this order.
        empty = duration == 0
        ones = np.ones(len(rows), dtype=np.int64)
        return [
            _Items(start, ones, 2 * position, ones * _BEGIN, track, rows),
            _Items(end, empty.astype(np.int64), np.where(empty, 2 * position + 1, -position), ones * _END, track, rows),
        ]

    def _instants(self, rows: Ints) -> _Items:
        ones = np.ones(len(rows), dtype=np.int64)
        return _Items(self.start[rows], ones, _LAST + rows, ones * _INSTANT, self.lane_track[self.lane[rows]], rows)

    def _spans(self, rows: Ints, track_of: Any) -> _Items:
        """Beginnings and ends that stand as rows of their own, each kind on tracks of its own."""
        begins = np.isin(self.phase[rows], ["b", "B"])
        track = np.array([track_of(row) for row in rows.tolist()], dtype=np.int64)
        ones = np.ones(len(rows), dtype=np.int64)
        return _Items(self.start[rows], ones, _LAST + rows, np.where(begins, _BEGIN, _END), track, rows)

    def _span_track(self, row: int) -> int:
        category, flow_id, name, args, process = self.events.select("category", "flow_id", "name", "args", "process").row(row)
        key = flow_id if flow_id is not None else args
        parent = int(self.lane_track[self.lane[row]])
        return self.tracks.below(("span", process, category, key), parent, f"{name or category or 'span'}")

    def _half_track(self, row: int) -> int:
        parent = int(self.lane_track[self.lane[row]])
        return self.tracks.below(("half", parent), parent, "(without an end)")

    def _counters(self, rows: Ints) -> list[_Items]:
        found: list[tuple[int, int, float]] = []
        for row, name, args in zip(rows.tolist(), *(self.events[column].gather(rows).to_list() for column in ("name", "args")),
                                   strict=True):  # fmt: skip
            parent = int(self.lane_track[self.lane[row]])
            for key, value in _numbers(args):
                shown = f"{name or 'counter'} {key}".removesuffix(" value")
                found.append((row, self.tracks.below(("counter", parent, name, key), parent, shown, is_counter=True), value))
        if not found:
            return []
        row_, track, values = (np.array(one) for one in zip(*found, strict=True))
        return [self._counts(row_.astype(np.int64), track.astype(np.int64), values.astype(np.float64))]

    def _memory(self) -> list[_Items]:
        """What the allocator had handed out and reserved, as curves."""
        items = []
        for column, name in _MEMORY_COUNTERS.items():
            rows = np.flatnonzero(self.events[column].is_not_null().to_numpy())
            if not len(rows):
                continue
            places = self.events[rows].select("process", "device_type", "device")
            track = np.empty(len(rows), dtype=np.int64)
            for place, (process, device_type, device) in enumerate(places.iter_rows()):
                where = device_type or "memory" if device is None else f"{device_type or 'device'}:{device}"
                key = ("memory", column, process, device_type, device)
                lane = int(self.lane_track[self.lane[rows[place]]])
                track[place] = self.tracks.below(key, lane, f"{where} bytes {name}", is_counter=True)
            items.append(self._counts(rows, track, self.events[column].gather(rows).to_numpy().astype(np.float64)))
        return items

    def _counts(self, rows: Ints, track: Ints, values: Any) -> _Items:
        ones = np.ones(len(rows), dtype=np.int64)
        return _Items(self.start[rows], ones, _LAST + rows, ones * _COUNT, track, rows, values)

    def _bind_flows(self, points: Ints) -> Ints:
        """Give flows to the innermost slices that their ends lie in; return the ends that lie in none."""
        if not len(points):
            return points
        slices = self.slices
        lane, start = self.lane[slices], self.start[slices]
        end = start + self.duration[slices]
        owner = innermost(lane, start, end, self.parent, self.lane[points], self.start[points])
        row = np.where(owner >= 0, slices[owner], points) if len(slices) else points
        keys = self.events[points].select("rank", "category", "name", "flow_id")
        flow = keys.with_columns(
            number=pl.struct(keys.columns).rank("dense").cast(pl.Int64)
        )["number"].to_numpy()  # fmt: skip
        fields: dict[int, bytes] = {}
        is_last = self.phase[points] == "f"
        for target, number, last in zip(row.tolist(), flow.tolist(), is_last.tolist(), strict=True):
            lead = protobuf.tag(_LAST_OF_FLOW if last else _FLOW, protobuf.FIXED64)
            fields[target] = fields.get(target, b"") + lead + int(number).to_bytes(8, "little")
        self.flow[list(fields)] = np.arange(1, len(fields) + 1)
        self.flow_blobs = protobuf.Pieces([b"", *fields.values()])
        return points[owner < 0]

    # bytes

    def _start(self, first: int) -> bytes:
        """The clock, what all packets have in common, the texts and the tracks."""
        clocks = protobuf.field(1, protobuf.field(1, _BOOT_CLOCK) + protobuf.field(2, first)) + protobuf.field(
            1, protobuf.field(1, _OWN_CLOCK) + protobuf.field(2, first) + protobuf.field(3, 1) + protobuf.field(4, 1)
        )
        cleared = protobuf.field(_SEQUENCE, 1) + protobuf.field(_FLAGS, _STATE_CLEARED)
        packets = [
            protobuf.field(_CLOCK_SNAPSHOT, clocks) + protobuf.field(_SEQUENCE, 1),
            protobuf.field(_DEFAULTS, protobuf.field(_DEFAULT_CLOCK, _OWN_CLOCK)) + cleared,
            protobuf.field(_INTERNED, interned(self.interned)) + _OF_SEQUENCE,
            *(descriptor + protobuf.field(_SEQUENCE, 1) for descriptor in self.tracks.descriptors),
        ]
        return b"".join(protobuf.field(_PACKET, packet) for packet in packets)

    def _packets(self, items: _Items, before: int) -> bytes:
        count = len(items.time)
        parts = [protobuf.integers(_TYPE, items.kind), protobuf.integers(_TRACK, items.track)]
        says = np.flatnonzero((items.kind == _BEGIN) | (items.kind == _INSTANT))
        row = items.row[says]
        for number, codes in ((_NAME_IID, self.name), (_CATEGORY_IID, self.category)):
            has = codes[row] > 0
            parts.append(protobuf.integers(number, codes[row][has], says[has]))
        has = self.flow[row] > 0
        if has.any():
            parts.append(self.flow_blobs.chosen(self.flow[row][has], says[has]))
        parts += self.annotations.parts(row, says)
        counts = np.flatnonzero(items.kind == _COUNT)
        if len(counts):
            parts.append(_doubles(_COUNTER_VALUE, items.value[counts], counts))
        event_sizes = protobuf.sizes_of(count, parts)
        lead = [
            protobuf.integers(_TIMESTAMP, np.diff(items.time, prepend=before)),
            protobuf.constant(_OF_SEQUENCE, count),
            protobuf.length(_TRACK_EVENT, event_sizes),
        ]
        packet_sizes = protobuf.sizes_of(count, lead) + event_sizes
        return protobuf.joined(count, [protobuf.length(_PACKET, packet_sizes), *lead, *parts])


_LAST = 1 << 48
"""Added to the position of what comes after the slices that begin at the same time."""


def _merged(items: list[_Items]) -> _Items:
    """Everything in the order of time."""
    columns = {
        name: np.concatenate([getattr(one, name) for one in items])
        for name in ("time", "group", "order", "kind", "track", "row")
    }
    values = np.concatenate([np.zeros(len(one.time)) if one.value is None else one.value for one in items])
    order = np.lexsort((columns["order"], columns["group"], columns["time"]))
    return _Items(**{name: column[order] for name, column in columns.items()}, value=values[order])


def _part(items: _Items, place: slice) -> _Items:
    return _Items(*(getattr(items, name)[place] for name in ("time", "group", "order", "kind", "track", "row", "value")))


def _doubles(number: int, values: Any, rows: Ints) -> Part:
    lead = np.frombuffer(protobuf.tag(number, protobuf.FIXED64), dtype=np.uint8)
    data = np.hstack([np.tile(lead, (len(rows), 1)), values.astype("<f8").view(np.uint8).reshape(len(rows), 8)])
    return Part(rows, np.full(len(rows), data.shape[1], dtype=np.int64), data.reshape(-1))


def _numbers(args: str | None) -> list[tuple[str, float]]:
    """The values of a counter."""
    try:
        members = msgspec.json.decode(args or "{}")
    except msgspec.DecodeError:
        return []
    if not isinstance(members, dict):
        return []
    found = []
    for key, value in members.items():
        with suppress(TypeError, ValueError, OverflowError):  # not a number, nor one as text
            found.append((key, float(value)))
    return found


def _compressed(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Each block as a packet of compressed packets, compressed beside the making of the next."""
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        waiting: deque[Future[bytes]] = deque()
        for block in blocks:
            waiting.append(pool.submit(zlib.compress, block, _LEVEL))
            if len(waiting) > _MOST_WAITING:
                yield protobuf.field(_PACKET, protobuf.field(_COMPRESSED, waiting.popleft().result()))
        for one in waiting:
            yield protobuf.field(_PACKET, protobuf.field(_COMPRESSED, one.result()))
