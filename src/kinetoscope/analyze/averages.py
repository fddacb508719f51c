"""Grouped averages: what ``key_averages()`` answers, from arrays instead of event objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from kinetoscope.analyze.operators import Operators
from kinetoscope.analyze.raw_events import Floats, Ints
from kinetoscope.analyze.raw_rows import flat_shapes, operators_of
from kinetoscope.common.forked import require_polars
from kinetoscope.trace.devices import DEVICE_NAMES
from kinetoscope.trace.vocabulary import MEMORY_EVENT

if TYPE_CHECKING:
    import pandas as pd

    from kinetoscope.trace.trace import Trace

PERCENTILES = (50, 95, 99)


@dataclass
class Average:
    """The sums over all events of one key. Times are microseconds, memory is bytes.

    ``count`` events have the key. Total times include children, self times do not. ``p50``, ``p95``, ``p99``, ``min``
    and ``max`` are of the events' own durations.
    """

    key: str
    count: int
    device_type: str
    is_async: bool
    is_user_annotation: bool
    is_legacy: bool
    scope: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    device_memory_usage: int
    self_device_memory_usage: int
    flops: int
    input_shapes: str
    overload_name: str
    stack: list[str] = field(default_factory=list)
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    min: float = 0.0
    max: float = 0.0

    @property
    def cpu_time(self) -> float:
        """Host time of one call on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Device time of one call on average."""
        return self.device_time_total / self.count if self.count else 0.0


@dataclass
class Groups:
    """Which group each listed event belongs to; groups are numbered by first appearance."""

    members: Ints
    """Positions in the operator list that were counted."""
    group: Ints
    """Group of each member."""
    first: Ints
    """Position of the first event of each group."""

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.first)


def group_operators(
    listed: Operators,
    group_by_input_shape: bool = False,
    group_by_stack_n: int = 0,
    group_by_overload_name: bool = False,
    include_python_functions: bool = False,
) -> Groups:
    """Group events by name, kind of device and whether they are annotations, and by what the arguments add."""
    raw = listed.raw
    is_python = raw.is_python[listed.row] & ~listed.is_memory
    members = np.flatnonzero(~is_python) if not include_python_functions else np.arange(len(listed))
    row = listed.row[members]
    is_memory = listed.is_memory[members]
    keys: list[Ints] = [
        listed.name[members],
        listed.device_type[members],
        (listed.is_fallback[members]).astype(np.int64),
        (raw.is_annotation[row] & ~is_memory).astype(np.int64),
    ]
    if group_by_overload_name and raw.overloads is not None:
        keys.append(np.where(is_memory, -1, raw.overloads.codes[row]))
        if "" in raw.overloads.values:
            keys[-1][is_memory] = raw.overloads.values.index("")
    if group_by_input_shape and raw.shapes is not None:
        flat = flat_shapes(raw.shapes)
        empty = flat.values.index("[]") if "[]" in flat.values else -1
        keys.append(np.where(is_memory, empty, flat.codes[row]))
    if group_by_stack_n > 0:
        keys.append(_stack_groups(listed, group_by_stack_n)[members])
    code, span = np.zeros(len(members), dtype=np.int64), 1
    for key in keys:
        size = int(key.max(initial=0)) + 2
        if span * size > 2**62:
            _, code = np.unique(code, return_inverse=True)
            span = int(code.max(initial=0)) + 1
        code, span = code * size + key + 1, span * size
    _, first, code = np.unique(code, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first, kind="stable")
    number = np.empty(len(first), dtype=np.int64)
    number[by_appearance] = np.arange(len(first))
    return Groups(members, number[code.reshape(-1)], members[first[by_appearance]])


def _stack_groups(listed: Operators, frames: int) -> Ints:
    """Number of each event's innermost ``frames`` frames."""
    keys, inverse = np.unique(listed.stack_key, return_inverse=True)
    numbers: dict[tuple[str, ...], int] = {}
    number = [numbers.setdefault(tuple(listed.stack(key)[:frames]), len(numbers)) for key in keys.tolist()]
    return np.array(number, dtype=np.int64)[inverse.reshape(-1)]


@dataclass
class Sums:
    """Arrays with one value for each group: the numbers of :class:`Average`."""

    listed: Operators
    groups: Groups

    def total(self, values: Floats) -> Floats:
        """Sum of one value over each group, added in the order of events as torch adds."""
        weights = np.asarray(values[self.groups.members], dtype=np.float64)
        return np.asarray(np.bincount(self.groups.group, weights=weights, minlength=self.groups.count), dtype=np.float64)

    def whole(self, values: Ints) -> Ints:
        """Exact sum of integers over each group."""
        result = np.zeros(self.groups.count, dtype=np.int64)
        np.add.at(result, self.groups.group, values[self.groups.members])
        return result

    @cached_property
    def calls(self) -> Ints:
        """Number of events of each group."""
        return np.bincount(self.groups.group, minlength=self.groups.count)

    @cached_property
    def flops(self) -> Ints:
        """Sum of the floating point operations of each group."""
        return self.whole(self.listed.flops)

    @cached_property
    def percentiles(self) -> dict[str, Floats]:
        """p50, p95, p99, min and max of the durations of each group, microseconds.

        Percentiles interpolate linearly between neighbours, as ``numpy.percentile`` does.
        """
        duration = self.listed.elapsed_us[self.groups.members]
        ordered = duration[np.lexsort((duration, self.groups.group))]
        last = np.cumsum(self.calls) - 1
        first = last - self.calls + 1
        result = {}
        for percent in PERCENTILES:
            place = first + (self.calls - 1) * (percent / 100)
            low = np.floor(place).astype(np.int64)
            high = np.minimum(low + 1, last)
            result[f"p{percent}"] = ordered[low] + (ordered[high] - ordered[low]) * (place - low)
        result["min"], result["max"] = ordered[first], ordered[last]
        return result


class Averages(Sequence[Average]):
    """Averages in order of first appearance, with a frame."""

    def __init__(self, rows: list[Average], use_device: str | None, profile_memory: bool, with_flops: bool) -> None:
        """Hold the rows; the flags choose the columns of a table of them."""
        self._rows = rows
        self.use_device = use_device
        self.profile_memory = profile_memory
        self.with_flops = with_flops

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[Average]:
        return iter(self._rows)

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of the self times on the host, microseconds."""
        return sum(row.self_cpu_time_total for row in self._rows)

    def to_polars(self) -> pl.DataFrame:
        """One row for each key: times in microseconds, memory in bytes."""
        return frame_of(self._rows)

    def to_pandas(self) -> pd.DataFrame:
        """Same as :meth:`to_polars`, as a pandas frame (needs ``kinetoscope[pandas]``)."""
        return self.to_polars().to_pandas()

    def _repr_html_(self) -> str:
        return str(self.to_polars()._repr_html_())


FRAME_SCHEMA: dict[str, Any] = {
    "key": pl.String,
    "count": pl.Int64,
    "device_type": pl.String,
    "self_cpu_time_total": pl.Float64,
    "cpu_time_total": pl.Float64,
    "cpu_time": pl.Float64,
    "self_device_time_total": pl.Float64,
    "device_time_total": pl.Float64,
    "device_time": pl.Float64,
    "p50": pl.Float64,
    "p95": pl.Float64,
    "p99": pl.Float64,
    "min": pl.Float64,
    "max": pl.Float64,
    "cpu_memory_usage": pl.Int64,
    "self_cpu_memory_usage": pl.Int64,
    "device_memory_usage": pl.Int64,
    "self_device_memory_usage": pl.Int64,
    "flops": pl.Int64,
    "input_shapes": pl.String,
    "overload_name": pl.String,
    "stack": pl.List(pl.String),
    "is_async": pl.Boolean,
    "is_user_annotation": pl.Boolean,
}
"""Columns of :meth:`Averages.to_polars`: times in microseconds, memory in bytes."""


def frame_of(rows: Sequence[Any]) -> pl.DataFrame:
    """A frame with one row for each average; ``rows`` may be any objects with the attributes of :class:`Average`."""
    require_polars("A frame of averages")
    columns = {name: [_plain(getattr(row, name), dtype) for row in rows] for name, dtype in FRAME_SCHEMA.items()}
    return pl.DataFrame(columns, schema=FRAME_SCHEMA)


def _plain(value: Any, dtype: Any) -> Any:
    if dtype == pl.String:
        return value if isinstance(value, str) else str(getattr(value, "name", value)).lower() if value is not None else ""
    if dtype == pl.Int64:
        return int(value or 0)
    if dtype == pl.Float64:
        return float(value)
    return value


def average(listed: Operators, groups: Groups, shapes: bool, stack_n: int, overloads: bool) -> list[Average]:
    """Add up each group. The arguments say which columns the groups were made by; the others come out empty."""
    sums = Sums(listed, groups)
    raw = listed.raw
    first = groups.first
    row = listed.row[first]
    is_memory = listed.is_memory[first]
    flat = flat_shapes(raw.shapes) if shapes and raw.shapes is not None else None
    keys = listed.stack_key[first].tolist() if stack_n > 0 else [-1] * len(first)
    columns: dict[str, list[Any]] = {
        "key": [listed.names[code] for code in listed.name[first].tolist()],
        "count": sums.calls.tolist(),
        "device_type": [DEVICE_NAMES.get(code, str(code)) for code in listed.device_type[first].tolist()],
        "is_async": listed.is_async[first].tolist(),
        "is_user_annotation": (raw.is_annotation[row] & ~is_memory).tolist(),
        "is_legacy": listed.is_fallback[first].tolist(),
        # Where it would have to be read first it is left to whoever wants it.
        "scope": np.where(is_memory, 0, raw.scope[row] if "scope" in raw.columns else 0).tolist(),
        "cpu_time_total": sums.total(listed.cpu_time_total).tolist(),
        "self_cpu_time_total": sums.total(listed.self_cpu_time_total).tolist(),
        "device_time_total": sums.total(listed.device_time_total).tolist(),
        "self_device_time_total": sums.total(listed.self_device_time_total).tolist(),
        "cpu_memory_usage": sums.whole(listed.cpu_memory_usage).tolist(),
        "self_cpu_memory_usage": sums.whole(listed.self_cpu_memory_usage).tolist(),
        "device_memory_usage": sums.whole(listed.device_memory_usage).tolist(),
        "self_device_memory_usage": sums.whole(listed.self_device_memory_usage).tolist(),
        "flops": sums.flops.tolist(),
        "input_shapes": [
            "" if not shapes else "[]" if alone or flat is None else flat[place]
            for place, alone in zip(row.tolist(), is_memory.tolist(), strict=True)
        ],
        "overload_name": [
            "" if not overloads or alone or raw.overloads is None else raw.overloads[place]
            for place, alone in zip(row.tolist(), is_memory.tolist(), strict=True)
        ],
        "stack": [listed.stack(key)[:stack_n] for key in keys],
        **{name: values.tolist() for name, values in sums.percentiles.items()},
    }
    names = list(columns)
    return [Average(**dict(zip(names, values, strict=True))) for values in zip(*columns.values(), strict=True)]


def key_averages(
    trace: Trace,
    group_by_input_shape: bool = False,
    group_by_stack_n: int = 0,
    group_by_overload_name: bool = False,
    include_python_functions: bool = False,
) -> Averages:
    """Group the events of a trace by name and add up times, memory and FLOPs, as torch.profiler's key_averages does.

    Counted are host and device slices and memory that no operator covers; not the profiler's own calls. An event is a
    child of the innermost event of its thread that encloses it wholly; self time is duration less the children's, device
    time that of the kernels that the operator and its children launched. Events that only wrap one event of the same
    name count once. Async events have no self time. ``ProfilerStep#1``, ``#2``... count as ``ProfilerStep*``.

    Args:
        trace: a recorded or read trace.
        group_by_input_shape: also by the input shapes.
        group_by_stack_n: also by the innermost n Python frames.
        group_by_overload_name: also by the operator's overload.
        include_python_functions: count Python calls as well.
    """
    listed = operators_of(trace)
    groups = group_operators(listed, group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions)
    rows = average(listed, groups, group_by_input_shape, group_by_stack_n, group_by_overload_name)
    has_memory = bool((trace.events["name"] == MEMORY_EVENT).any())
    return Averages(rows, listed.use_device, profile_memory=has_memory, with_flops=any(row.flops for row in rows))
