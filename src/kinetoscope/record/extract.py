"""From a Kineto result to columns.

Each attribute is read over all events in one ``map`` of the binding's own method: 0.1 to 0.3 microseconds a value, and
no Python object an event is kept. Only the attributes that the recording's options can have filled are read. The native
core will give the same :class:`~kinetoscope.analyze.operators.RawEvents` from C++.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from kinetoscope.analyze.operators import CPU, MEMORY_EVENT, OUT_OF_MEMORY_EVENT, Bools, Ints, RawEvents, TextColumn

UNREADABLE_NAME = "<name is not UTF-8>"

# Rows are read in runs of this many, between which the time limit is checked.
_RUN = 50_000


@dataclass(frozen=True)
class Contents:
    """What a recording can hold besides names and times, by its options."""

    device: bool = False
    """Events of a device, or of its runtime."""
    shapes: bool = False
    python: bool = False
    flops: bool = False
    overloads: bool = True
    fallback: str | None = None
    """cuda or privateuse1 where torch measures device time itself."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking through the many short-lived objects made inside the block."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def extract(result: Any, contents: Contents, timeout_s: float | None = None) -> tuple[RawEvents, int]:
    """Read the events of a Kineto result into columns.

    Args:
        result: torch's ``_ProfilerResult``, or anything whose ``events()`` and ``trace_start_ns()`` answer likewise.
        contents: which columns can hold something.
        timeout_s: stop after this many seconds and give what was read; None for no limit.

    Returns:
        The rows, and how many events the time limit left out.
    """
    deadline = None if timeout_s is None else perf_counter() + timeout_s
    with collector_paused():
        events = result.events()
        reader = _Reader(events, contents, result.trace_start_ns())
        runs = []
        for start in range(0, len(events), _RUN):
            if deadline is not None and perf_counter() >= deadline:
                break
            runs.append(reader.read(start, min(start + _RUN, len(events))))
        read = min(len(runs) * _RUN, len(events))
        return reader.join(runs), len(events) - read


class _Reader:
    def __init__(self, events: Sequence[Any], contents: Contents, trace_start_ns: int) -> None:
        self.events = events
        self.contents = contents
        self.trace_start_ns = trace_start_ns
        self.kind: Any = type(events[0]) if len(events) else object

    def read(self, low: int, high: int) -> dict[str, Any]:
        """Columns of one run of events, as arrays and lists."""
        run = self.events[low:high]
        contents = self.contents

        def ints(method: str, missing: int = 0) -> Ints:
            read = getattr(self.kind, method, None)
            if read is None:
                return np.full(len(run), missing, dtype=np.int64)
            return np.fromiter(map(read, run), dtype=np.int64, count=len(run))

        names = _names(self.kind.name, run)
        memory = np.fromiter((name in (MEMORY_EVENT, OUT_OF_MEMORY_EVENT) for name in names), dtype=bool, count=len(run))
        start = ints("start_ns") - self.trace_start_ns
        thread, end_thread = ints("start_thread_id"), ints("end_thread_id")
        linked = ints("linked_correlation_id") if contents.device else np.zeros(len(run), dtype=np.int64)
        own = ints("correlation_id")
        device_type = self._device_types(run, memory)
        columns: dict[str, Any] = {
            "names": names,
            "start_ns": start,
            "end_ns": start + ints("duration_ns"),
            "thread": thread,
            "device_type": device_type,
            "device": ints("device_index") if contents.device else np.zeros(len(run), dtype=np.int64),
            "own_id": own,
            "linked_id": linked,
            "is_async": ints("is_async").astype(bool) | (thread != end_thread),
            "is_annotation": ints("is_user_annotation").astype(bool),
            "is_hidden": ints("is_hidden_event").astype(bool),
            "is_overhead": self._overhead(run),
            "bytes": self._bytes(run, memory),
            "scope": ints("scope"),
            "sequence_number": ints("sequence_nr", -1),
            "forward_thread": ints("fwd_thread_id"),
        }
        columns["is_python"] = self._python(run, columns, memory)
        if contents.python:
            columns["script_stacks"] = ["\n".join(stack) for stack in map(self.kind.stack, run)]
        if contents.shapes:
            read = getattr(self.kind, "structured_input_shapes", None) or self.kind.shapes
            columns["shapes"] = list(map(str, map(read, run)))
        if contents.overloads and hasattr(self.kind, "overload_name"):
            columns["overloads"] = list(map(self.kind.overload_name, run))
        if contents.flops:
            columns["flops"] = ints("flops")
            columns["formula_flops"] = self._formula_flops(run, names, columns.get("shapes"))
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
        return (columns["own_id"] == 0) & (columns["linked_id"] == 0) & (columns["device_type"] == CPU) & ~memory

    def _formula_flops(self, run: Sequence[Any], names: list[str], shapes: list[str] | None) -> Ints:
        """FLOPs by formula, -1 where no formula applies."""
        from kinetoscope.record import flops

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

    def join(self, runs: list[dict[str, Any]]) -> RawEvents:
        """The runs put together."""
        if not runs:
            runs = [self.read(0, 0)] if len(self.events) else [_no_columns()]
        columns: dict[str, Any] = {}
        for name in list(runs[0]):
            parts = [run.pop(name) for run in runs]
            if isinstance(parts[0], list):
                columns[name] = TextColumn.encode([text for part in parts for text in part])
            else:
                columns[name] = np.concatenate(parts)
        names = columns.pop("names")
        columns["script_stacks"] = _script_stacks(columns.get("script_stacks"), names, columns["is_python"])
        return RawEvents(names=names.values, name=names.codes, **columns)


def _script_stacks(stacks: TextColumn | None, names: TextColumn, is_python: Bools) -> TextColumn | None:
    """The stacks that do not merely repeat the Python rows, which torch does with the private option ``verbose``."""
    if stacks is None or stacks.values in ([], [""]):
        return None
    known = {names.values[code] for code in np.unique(names.codes[is_python]).tolist()}
    values = ["" if text.split("\n", 1)[0] in known else text for text in stacks.values]
    merged = TextColumn.encode(values)
    return None if merged.values == [""] else TextColumn(merged.values, merged.codes[stacks.codes])


def _no_columns() -> dict[str, Any]:
    whole = ("start_ns", "end_ns", "thread", "device_type", "device", "own_id", "linked_id", "bytes", "scope",
             "sequence_number", "forward_thread")  # fmt: skip
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
