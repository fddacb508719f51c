"""Kineto's JSON made whole: what it leaves out or garbles (names, scopes, threads, overloads) filled in from the events.

Nothing here needs torch, and all that goes in can be sent to another process.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import polars as pl

from kinetoscope.analyze.raw_events import Ints, RawEvents, TextColumn
from kinetoscope.formats.chrome.reader import parse_chrome
from kinetoscope.formats.chrome.writer import write_chrome
from kinetoscope.record.kineto.matching import match
from kinetoscope.trace.devices import DEVICE_NAMES
from kinetoscope.trace.links import step_numbers
from kinetoscope.trace.metadata import Metadata
from kinetoscope.trace.trace import Trace

NEEDS = ("own_id", "scope", "overloads", "script_stacks")
"""Columns of :data:`kinetoscope.analyze.raw_events.LATER` that the repair reads."""

_NEVER = -(2**62)


@dataclass(frozen=True)
class Bindings:
    """What the bindings of the events say, as plain data."""

    columns: RawEvents
    """The events, with the columns of :data:`NEEDS` read."""
    flops: Ints | None
    """FLOPs of each row, 0 for none; None: not counted."""
    trace_start_ns: int
    """Start of the window, nanoseconds since the epoch."""
    process: int

    @classmethod
    def of(cls, columns: RawEvents, flops: Ints | None, trace_start_ns: int) -> Bindings:
        """Take the columns of this process, without their way back to the engine."""
        columns.read(*NEEDS)
        return cls(replace(columns, load=None), flops, trace_start_ns, os.getpid())


def whole_trace(document: bytes | None, bindings: Bindings) -> Trace:
    """The complete table of a window.

    Args:
        document: Kineto's JSON; None where it could not be had: then the events stand without their arguments.
        bindings: what the events themselves say.
    """
    if document is None:
        return _from_bindings(bindings)
    kineto = parsed(document)
    events = _filled(kineto.events, bindings, bindings.trace_start_ns - kineto.metadata.base_time_ns)
    metadata = msgspec.structs.replace(kineto.metadata, steps=step_numbers(events["name"]))
    return Trace(events, metadata, kineto.issues)


def write_whole_trace(document: bytes | None, bindings: Bindings, described: dict[str, Any], path: str) -> None:
    """Write the complete table as Chrome JSON.

    Args:
        document: as for :func:`whole_trace`.
        bindings: as for :func:`whole_trace`.
        described: fields of the metadata that stand instead of Kineto's.
        path: the file.

    Raises:
        OSError: the file cannot be written.
    """
    trace = whole_trace(document, bindings)
    metadata = msgspec.structs.replace(trace.metadata, **described)
    write_chrome(Trace(trace.events, metadata, trace.issues), path)


def parsed(text: bytes) -> Trace:
    """Kineto's JSON as a trace, without a warning: what Kineto garbles is repaired right after."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parse_chrome(text, "Kineto's result")


def _from_bindings(bindings: Bindings) -> Trace:
    """The table from the events alone, without their arguments."""
    raw = bindings.columns
    told = _told(bindings)
    memory = raw.is_memory_event
    category = np.select(
        [memory, raw.is_python, raw.is_annotation, raw.linked_id > 0],
        ["cpu_instant_event", "python_function", "user_annotation", "cuda_runtime"],
        default="cpu_op",
    )
    is_memory = pl.Series(memory)
    frame = told.with_columns(
        id=pl.int_range(pl.len()),
        phase=pl.when(is_memory).then(pl.lit("i")).otherwise(pl.lit("X")),
        category=pl.Series(category.tolist(), dtype=pl.String),
        start_ns=pl.Series(raw.start_ns),
        duration_ns=pl.when(is_memory).then(None).otherwise(pl.Series(raw.end_ns - raw.start_ns)),
        process=pl.lit(bindings.process),
        thread=pl.col("record_thread"),
        external_id=pl.Series(np.where(raw.linked_id > 0, raw.linked_id, raw.own_id)),
        bytes=pl.when(is_memory).then(pl.Series(raw.bytes)).otherwise(None),
    )
    return Trace(frame, Metadata(base_time_ns=bindings.trace_start_ns), {"events without arguments": len(raw)})


def _told(bindings: Bindings) -> pl.DataFrame:
    """What only the events themselves say, one row a raw event, in the columns of the schema."""
    raw = bindings.columns
    columns: dict[str, Any] = {
        "name": _texts(TextColumn(raw.names, raw.name)),
        "record_thread": raw.thread,
        "scope": raw.scope.astype(np.int8),
        "is_async": raw.is_async,
        "device_type": _texts(TextColumn([DEVICE_NAMES.get(n, str(n)) for n in range(64)], raw.device_type)),
    }
    if raw.overloads is not None:
        columns["overload_name"] = _texts(raw.overloads)
    if raw.script_stacks is not None:
        columns["stack"] = _texts(raw.script_stacks)
    frame = pl.DataFrame(columns)
    if bindings.flops is not None:
        counted = pl.Series(bindings.flops)
        frame = frame.with_columns(flops=pl.when(counted > 0).then(counted).otherwise(None))
    return frame


def _texts(column: TextColumn) -> pl.Series:
    """A column of texts; the empty text is null."""
    values = pl.Series([value or None for value in column.values], dtype=pl.String)
    return values.gather(column.codes) if len(column.codes) else pl.Series([], dtype=pl.String)


def _filled(events: pl.DataFrame, bindings: Bindings, base: int) -> pl.DataFrame:
    """Kineto's rows with what the events say.

    The two are matched by time, length and number of the operator, or bytes of memory. ``base`` is the window's start in the
    table's time.
    """
    raw = bindings.columns
    if not len(raw):
        return events
    memory = raw.is_memory_event
    number = np.where(raw.linked_id > 0, raw.linked_id, raw.own_id)
    offered = (
        raw.start_ns + base,
        np.where(memory, -1, raw.end_ns - raw.start_ns),
        np.where(memory, raw.bytes, number),
    )
    theirs = events.select(
        pl.when(pl.col("phase").is_in(["X", "i"])).then("start_ns").fill_null(_NEVER),
        pl.col("duration_ns").fill_null(-1),
        number=pl.coalesce(pl.when(pl.col("duration_ns").is_null()).then("bytes"), "external_id", pl.lit(0)),
    )
    partner = match([column.to_numpy() for column in theirs], offered)
    told = _told(bindings)
    position = pl.Series(partner)
    found = told[position.set(position < 0, None)] if (partner < 0).any() else told[partner]
    return events.with_columns(pl.coalesce(found[name], pl.col(name)).alias(name) for name in found.columns)
