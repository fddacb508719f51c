"""torch's own answers and ours, from one Kineto result, side by side."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.autograd.profiler as autograd_profiler
from torch.autograd import DeviceType, profiler_util
from torch.autograd.profiler import profile as torch_profile

from kinetoscope.record import torch_private

GROUPINGS = [
    {"group_by_input_shape": shapes, "group_by_stack_n": stack} for shapes, stack in itertools.product((False, True), (0, 1, 5))
]
if torch_private.TORCH_VERSION >= (2, 7):
    GROUPINGS += [{**grouping, "group_by_overload_name": True} for grouping in GROUPINGS]

SORT_KEYS = (None, "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "count",
             "device_time", "device_time_total", "self_device_time_total", "self_device_memory_usage")  # fmt: skip

AVERAGE_ATTRIBUTES = (
    "key", "count", "node_id", "is_async", "is_remote", "use_device", "cpu_time_total", "device_time_total",
    "self_cpu_time_total", "self_device_time_total", "input_shapes", "overload_name", "stack", "scope", "cpu_memory_usage",
    "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage", "device_type", "is_legacy", "flops",
    "cpu_time", "device_time", "self_cpu_time_total_str", "cpu_time_total_str", "cpu_time_str",
)  # fmt: skip

# Ours derive stacks from the Python calls; torch only repeats them with a private flag. Compared where it is set.
STACK = ("stack",)


def stock(result: Any, **options: Any) -> torch_profile:
    """torch's own profiler object, given a result that was recorded with these options."""
    use_device = options.pop("use_device", None)
    profiler = torch_profile(use_kineto=True, **options)
    profiler.use_device = use_device
    profiler.kineto_results = result
    with exact_memory_intervals(result):
        profiler._ensure_function_events()
    return profiler


@contextmanager
def exact_memory_intervals(result: Any) -> Iterator[None]:
    """Let a torch that looks for memory between two times in microseconds do so to the nanosecond.

    Such a torch multiplies them by 1000 again, and floats of that size are 256 apart: which operator an allocation at its
    edge belongs to is then a matter of chance. It asks once for each host event, in their order.
    """
    finder = autograd_profiler.MemRecordsAcc
    if "start_us" not in inspect.signature(finder.in_interval).parameters:
        yield
        return
    bounds = iter(
        [
            (event.start_ns(), event.end_ns())
            for event in result.events()
            if event.device_type() == DeviceType.CPU and not profiler_util._filter_name(event.name())
        ]
    )

    class Exact:
        def __init__(self, records: list[Any]) -> None:
            self.records = sorted(records, key=lambda record: record[0].start_ns())
            self.starts = [record[0].start_ns() for record in self.records]

        def in_interval(self, start_us: float, end_us: float) -> list[Any]:
            start, end = next(bounds)
            assert (start / 1000, end / 1000) == (start_us, end_us)
            return self.records[bisect_left(self.starts, start) : bisect_right(self.starts, end)]

    autograd_profiler.MemRecordsAcc = Exact
    try:
        yield
    finally:
        autograd_profiler.MemRecordsAcc = finder


def same(ours: Any, theirs: Any) -> bool:
    """Equality in which nan equals nan."""
    if isinstance(ours, float) and isinstance(theirs, float) and math.isnan(ours) and math.isnan(theirs):
        return True
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


def plain(name: str, value: Any) -> Any:
    """A value in a form that can be compared: events by id, kernels and times by their parts."""
    if name == "cpu_children":
        return [child.id for child in value or []]
    if name == "cpu_parent":
        return None if value is None else value.id
    if name == "kernels":
        return [(kernel.name, kernel.device, kernel.duration) for kernel in value]
    if name == "time_range":
        return value.start, value.end
    return value


def differing_events(ours: Iterable[Any], theirs: Iterable[Any], leave_out: Iterable[str] = ()) -> list[str]:
    """What differs between two lists of events, in every attribute that torch's events store or compute."""
    ours, theirs = list(ours), list(theirs)
    found = [] if len(ours) == len(theirs) else [f"{len(ours)} events, torch has {len(theirs)}"]
    computed = ("cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total", "key",
                "self_cpu_memory_usage", "self_device_memory_usage", "cpu_time", "device_time")  # fmt: skip
    for number, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        names = [name for name in vars(their) if name not in leave_out]
        for name in (*names, *computed):
            mine, other = plain(name, getattr(our, name)), plain(name, getattr(their, name))
            if not same(mine, other):
                found.append(f"event {number} {their.name!r} {name}: {mine!r}, torch has {other!r}")
    return found


def differing_averages(ours: Iterable[Any], theirs: Iterable[Any], leave_out: Iterable[str] = ()) -> list[str]:
    """What differs between two lists of averages."""
    ours, theirs = list(ours), list(theirs)
    found = [] if len(ours) == len(theirs) else [f"{len(ours)} rows, torch has {len(theirs)}"]
    for our, their in zip(ours, theirs, strict=False):
        for name in AVERAGE_ATTRIBUTES:
            if name in leave_out or not hasattr(their, name):
                continue
            mine, other = getattr(our, name), getattr(their, name)
            if not same(mine, other):
                found.append(f"row {their.key!r} {name}: {mine!r}, torch has {other!r}")
    return found


def differing_tables(ours: Any, theirs: Any) -> list[str]:
    """Sort keys and options for which the text of two tables differs."""
    found = []
    for event in theirs:
        # Before torch 2.7 its table cannot be made where an event has none.
        event.flops = event.flops or 0
    for sort_by in SORT_KEYS:
        found += [
            f"table(sort_by={sort_by!r}, {options})"
            for options in (
                {},
                {"row_limit": -1, "top_level_events_only": True, "header": "A header", "max_name_column_width": 12},
            )
            if ours.table(sort_by=sort_by, **options) != _with_units(theirs.table(sort_by=sort_by, **options))
        ]
    return found


def _with_units(table: str) -> str:
    """A table with units as torch writes them since 2.7: KB, where it was Kb."""
    return re.sub(r"(?<=\d )([KMG]?)b\b", r"\1B", table)
