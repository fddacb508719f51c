"""From a Kineto result to columns.

Each attribute is read over all events in one ``map`` of the binding's own method: 0.1 to 0.3 microseconds a value, and
no Python object an event is kept. Only the attributes that the recording's options can have filled are read. The native
core will give the same :class:`~kinetoscope.analyze.raw_events.RawEvents` from C++.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from kinetoscope.analyze.raw_events import CPU, LATER_INTS, Ints, RawEvents, TextColumn
from kinetoscope.common.collector import collector_paused
from kinetoscope.record.options import RecordOptions
from kinetoscope.trace.vocabulary import MEMORY_EVENTS

UNREADABLE_NAME = "<name is not UTF-8>"

# Rows are read in runs of this many: few enough to stay in the processor's cache while one attribute after the other is
# read. Between runs the time limit is checked.
_RUN = 2_000


@dataclass(frozen=True)
class Contents:
    """What a recording can hold besides names and times, by its options."""

    device: bool = False
    """Events of a device, or of its runtime."""
    shapes: bool = False
    python: bool = False
    flops: bool = False
    fallback: str | None = None
    """cuda or privateuse1 where torch measures device time itself."""

    @classmethod
    def of(cls, options: RecordOptions) -> Contents:
        """What a recording with these options can hold."""
        return cls(
            device=bool(options.use_device) or any(name != "CPU" for name in options.activities),
            shapes=options.record_shapes or options.with_flops,
            python=options.with_stack,
            flops=options.with_flops,
            fallback=options.fallback,
        )


def extract(result: Any, contents: Contents, timeout_s: float | None = None) -> tuple[RawEvents, int]:
    """Read the events of a Kineto result into columns.

    Read at once is what every answer needs. The rest (:data:`kinetoscope.analyze.raw_events.LATER`) is read from the
    result when it is asked for.

    Args:
        result: torch's ``_ProfilerResult``, or anything whose ``events()`` and ``trace_start_ns()`` answer likewise.
        contents: which columns can hold something.
        timeout_s: stop after this many seconds and give what was read; None for no limit.

    Returns:
        The rows, and how many events the time limit left out.
    """
    deadline = None if timeout_s is None else perf_counter() + timeout_s
    with collector_paused():
        events = list(result.events())
        reader = _Reader(type(events[0]) if events else object, contents, result.trace_start_ns())
        runs = []
        for start in range(0, len(events), _RUN):
            if deadline is not None and perf_counter() >= deadline:
                break
            runs.append(reader.read(_taken(events, start)))
        read = min(len(runs) * _RUN, len(events))
        raw = _join(runs)
        raw.load = partial(_load, result, reader, raw, read)
        return raw, len(events) - read


def _taken(events: list[Any], start: int) -> list[Any]:
    """One run of events, which the list lets go of: while they are in the cache they are freed at half the price."""
    run = events[start : start + _RUN]
    events[start : start + _RUN] = [None] * len(run)
    return run


def _load(result: Any, reader: _Reader, raw: RawEvents, count: int, columns: Sequence[str]) -> dict[str, Any]:
    """More columns of rows that were read before."""
    parts: dict[str, list[Any]] = {column: [] for column in columns}
    with collector_paused():
        events = list(result.events()[:count])
        for start in range(0, max(count, 1), _RUN):
            run = _taken(events, start)
            for column in columns:
                integers = column in LATER_INTS
                parts[column].append(reader.ints(run, *_LATER_METHODS[column]) if integers else reader.texts(run, column))
    loaded: dict[str, Any] = {}
    for column, values in parts.items():
        if column in LATER_INTS:
            loaded[column] = np.concatenate(values)
        elif values[0] is None:
            loaded[column] = None
        else:
            loaded[column] = TextColumn.encode([text for part in values for text in part])
    if "script_stacks" in loaded:
        loaded["script_stacks"] = _script_stacks(loaded["script_stacks"], raw)
    return loaded


_LATER_METHODS = {
    "own_id": ("correlation_id", 0),
    "scope": ("scope", 0),
    "sequence_number": ("sequence_nr", -1),
    "forward_thread": ("fwd_thread_id", 0),
}


class _Reader:
    def __init__(self, kind: Any, contents: Contents, trace_start_ns: int) -> None:
        self.kind = kind
        self.contents = contents
        self.trace_start_ns = trace_start_ns

    def ints(self, run: Sequence[Any], method: str, missing: int = 0) -> Ints:
        """Values of a method that gives integers; those of 64 bits without a sign wrap around."""
        read = getattr(self.kind, method, None)
        if read is None:
            return np.full(len(run), missing, dtype=np.int64)
        try:
            return np.fromiter(map(read, run), dtype=np.int64, count=len(run))
        except OverflowError:
            # Kineto's thread that it does not know is 2**64 - 1.
            wrapped = (((int(value) + 2**63) % 2**64) - 2**63 for value in map(read, run))
            return np.fromiter(wrapped, dtype=np.int64, count=len(run))

    def texts(self, run: Sequence[Any], column: str) -> list[str] | None:
        """Values of a text column; None where the recording has none."""
        if column == "shapes" and self.contents.shapes:
            read = getattr(self.kind, "structured_input_shapes", None) or self.kind.shapes
            return list(map(str, map(read, run)))
        if column == "overloads" and hasattr(self.kind, "overload_name"):
            return list(map(self.kind.overload_name, run))
        if column == "script_stacks" and self.contents.python:
            return ["\n".join(stack) for stack in map(self.kind.stack, run)]
        return None

    def read(self, run: Sequence[Any]) -> dict[str, Any]:
        """Columns of one run of events, as arrays and lists."""
        contents = self.contents
        nothing = np.zeros(len(run), dtype=np.int64)
        names = _names(self.kind.name, run)
        memory = np.fromiter((name in MEMORY_EVENTS for name in names), dtype=bool, count=len(run))
        start = self.ints(run, "start_ns") - self.trace_start_ns
        thread = self.ints(run, "start_thread_id")
        columns: dict[str, Any] = {
            "names": names,
            "start_ns": start,
            "end_ns": start + self.ints(run, "duration_ns"),
            "thread": thread,
            "device_type": self._device_types(run, memory),
            "device": self.ints(run, "device_index") if contents.device else nothing,
            "linked_id": self.ints(run, "linked_correlation_id") if contents.device else nothing,
            "is_async": self.ints(run, "is_async").astype(bool) | (thread != self.ints(run, "end_thread_id")),
            "is_annotation": self.ints(run, "is_user_annotation").astype(bool),
            "is_hidden": self.ints(run, "is_hidden_event").astype(bool),
            "is_overhead": self._overhead(run),
            "bytes": self._bytes(run, memory),
        }
        columns["is_python"] = self._python(run, columns, memory)
        if contents.flops:
            columns["flops"] = self.ints(run, "flops")
            columns["formula_flops"] = self._formula_flops(run, names, self.texts(run, "shapes"))
        if contents.fallback is not None:
            read = getattr(self.kind, f"{contents.fallback}_elapsed_us")
            columns["fallback_device_us"] = np.fromiter(map(read, run), dtype=np.float64, count=len(run))
        return columns

    def _device_types(self, run: Sequence[Any], memory: np.ndarray[Any, Any]) -> Ints:
        # The binding makes a Python enum for each answer, five times dearer than an integer: asked only where the
        # answer may be another than the host.
        device_type = np.full(len(run), CPU, dtype=np.int64)
        rows = range(len(run)) if self.contents.device else np.flatnonzero(memory).tolist()
        for row in rows:
            device_type[row] = int(self.kind.device_type(run[row]).value)
        return device_type

    def _bytes(self, run: Sequence[Any], memory: np.ndarray[Any, Any]) -> Ints:
        size = np.zeros(len(run), dtype=np.int64)
        rows = np.flatnonzero(memory)
        size[rows] = [self.kind.nbytes(run[row]) for row in rows.tolist()]
        return size

    def _overhead(self, run: Sequence[Any]) -> np.ndarray[Any, Any]:
        if not self.contents.device or not hasattr(self.kind, "activity_type"):
            return np.zeros(len(run), dtype=bool)
        kinds = map(self.kind.activity_type, run)
        return np.fromiter((kind == "overhead" for kind in kinds), dtype=bool, count=len(run))

    def _python(self, run: Sequence[Any], columns: dict[str, Any], memory: np.ndarray[Any, Any]) -> Any:
        if not self.contents.python:
            return np.zeros(len(run), dtype=bool)
        read = getattr(self.kind, "is_python_function", None)
        if read is not None:
            return np.fromiter(map(read, run), dtype=bool, count=len(run))
        # Older torch does not say; a Python call is a host event without any number of its own.
        return (self.ints(run, "correlation_id") == 0) & (columns["linked_id"] == 0) & (columns["device_type"] == CPU) & ~memory

    def _formula_flops(self, run: Sequence[Any], names: list[str], shapes: list[str] | None) -> Ints:
        """FLOPs by formula, -1 where no formula applies."""
        from kinetoscope.record.flops import counting as flops

        counted = np.full(len(run), -1, dtype=np.int64)
        if shapes is None:
            return counted
        with_formula = {name for name in set(names) if flops.has_formula(name)}
        rows = [row for row, name in enumerate(names) if name in with_formula]
        keys = [(names[row], shapes[row], _concrete_text(self.kind.concrete_inputs(run[row]))) for row in rows]
        distinct = list(dict.fromkeys(keys))
        values = flops.flops_of([k[0] for k in distinct], [k[1] for k in distinct], [k[2] for k in distinct])
        answer = {key: -1 if value is None else value for key, value in zip(distinct, values, strict=True)}
        counted[rows] = [answer[key] for key in keys]
        return counted


def _join(runs: list[dict[str, Any]]) -> RawEvents:
    """The runs put together."""
    runs = runs or [_no_columns()]
    columns: dict[str, Any] = {}
    for name in list(runs[0]):
        parts = [run.pop(name) for run in runs]
        if name == "names":
            columns[name] = TextColumn.encode([text for part in parts for text in part])
        else:
            columns[name] = np.concatenate(parts)
    names = columns.pop("names")
    return RawEvents(names=names.values, name=names.codes, **columns)


def _script_stacks(stacks: TextColumn | None, raw: RawEvents) -> TextColumn | None:
    """The stacks that do not merely repeat the Python rows, which torch does with the private option ``verbose``."""
    if stacks is None or stacks.values in ([], [""]):
        return None
    known = {raw.names[code] for code in np.unique(raw.name[raw.is_python]).tolist()}
    values = ["" if text.split("\n", 1)[0] in known else text for text in stacks.values]
    merged = TextColumn.encode(values)
    return None if merged.values == [""] else TextColumn(merged.values, merged.codes[stacks.codes])


def _no_columns() -> dict[str, Any]:
    whole = ("start_ns", "end_ns", "thread", "device_type", "device", "linked_id", "bytes")
    flags = ("is_async", "is_annotation", "is_hidden", "is_overhead", "is_python")
    columns: dict[str, Any] = {name: np.zeros(0, dtype=np.int64) for name in whole}
    columns.update({name: np.zeros(0, dtype=bool) for name in flags})
    return {"names": [], **columns}


def _names(read: Callable[[Any], str], run: Sequence[Any]) -> list[str]:
    try:
        return list(map(read, run))
    except UnicodeDecodeError:
        return [_name(read, event) for event in run]


def _name(read: Callable[[Any], str], event: Any) -> str:
    try:
        return read(event)
    except UnicodeDecodeError:
        return UNREADABLE_NAME


def _concrete_text(values: Sequence[Any]) -> str:
    """Concrete inputs as Kineto writes them into its JSON: every value as text, nothing as the empty text."""
    import msgspec

    return msgspec.json.encode(["" if value is None else str(value) for value in values]).decode()
