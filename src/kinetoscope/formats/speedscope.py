"""speedscope's JSON: one profile a thread or stream, each slice opened and closed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from kinetoscope.common.atomic_path import atomic_path
from kinetoscope.trace.links import LANE

if TYPE_CHECKING:
    from kinetoscope.trace.metadata import Metadata
    from kinetoscope.trace.trace import Trace

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

# (frame, start, end) of one slice.
Slice = tuple[int, int, int]


def write_speedscope(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write the slices of a trace for https://speedscope.app, in nanoseconds after the first of them.

    speedscope takes only slices that nest. Those that overlap without nesting stand in further profiles of their
    thread, named "(overlapping)", so that none is lost or cut.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_path(path) as partial:
        partial.write_bytes(msgspec.json.encode(speedscope(trace)))


def speedscope(trace: Trace) -> dict[str, Any]:
    """The content of the file."""
    slices = trace.events.filter(pl.col("duration_ns").is_not_null() & pl.col("start_ns").is_not_null())
    names = slices["name"].fill_null("(no name)")
    frames = names.unique(maintain_order=True)
    first = slices["start_ns"].min() if slices.height else 0
    ordered = slices.select(
        "rank",
        "process",
        "thread",
        frame=names.replace_strict(frames, pl.int_range(frames.len(), eager=True), return_dtype=pl.Int64),
        start=pl.col("start_ns") - first,
        end=pl.col("start_ns") - first + pl.col("duration_ns"),
    ).sort(*LANE, "start", "end", descending=[False, False, False, False, True], maintain_order=True)
    profiles: list[dict[str, Any]] = []
    several = ordered["rank"].n_unique() > 1
    for (rank, process, thread), rows in ordered.group_by(LANE, maintain_order=True):
        name = _name(trace.metadata, process, thread)
        if several:
            name = f"{'unknown rank' if rank is None else f'rank {rank}'}: {name}"
        remaining: list[Slice] = list(zip(rows["frame"], rows["start"], rows["end"], strict=True))
        while remaining:
            nested, remaining = _nested(remaining)
            profiles.append(_profile(name, nested))
            name = name.removesuffix(" (overlapping)") + " (overlapping)"
    return {
        "$schema": SCHEMA,
        "exporter": "kinetoscope",
        "name": trace.metadata.trace_name or "trace",
        "activeProfileIndex": max(range(len(profiles)), key=lambda place: len(profiles[place]["events"]), default=0),
        "shared": {"frames": [{"name": name} for name in frames.to_list()]},
        "profiles": profiles,
    }


def _name(metadata: Metadata, process: Any, thread: Any) -> str:
    for info in metadata.threads:
        if (info.process, info.thread) == (process, thread) and info.name:
            return f"{info.name} ({metadata.text_ids.get(str(process), process)})"
    shown = [str(metadata.text_ids.get(str(number), number)) for number in (process, thread)]
    return f"{shown[0]} / {shown[1]}"


def _nested(slices: list[Slice]) -> tuple[list[Slice], list[Slice]]:
    """The slices that nest with those before them, and the others; both ordered by start, the longer first."""
    nested: list[Slice] = []
    others: list[Slice] = []
    ends: list[int] = []
    for one in slices:
        _, start, end = one
        while ends and ends[-1] <= start:
            ends.pop()
        if ends and end > ends[-1]:
            others.append(one)
        else:
            nested.append(one)
            ends.append(end)
    return nested, others


def _profile(name: str, slices: list[Slice]) -> dict[str, Any]:
    events = list(_events(slices))
    return {
        "type": "evented",
        "name": name,
        "unit": "nanoseconds",
        "startValue": slices[0][1],
        "endValue": max(end for _, _, end in slices),
        "events": events,
    }


def _events(slices: list[Slice]) -> Iterator[dict[str, Any]]:
    still_open: list[tuple[int, int]] = []
    for frame, start, end in slices:
        while still_open and still_open[-1][1] <= start:
            closed, at = still_open.pop()
            yield {"type": "C", "frame": closed, "at": at}
        yield {"type": "O", "frame": frame, "at": start}
        still_open.append((frame, end))
    while still_open:
        closed, at = still_open.pop()
        yield {"type": "C", "frame": closed, "at": at}
