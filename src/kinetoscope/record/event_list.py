"""torch's event lists, answered from arrays where they are whole, and by torch's own code where a program changed them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kinetoscope.analyze.averages import Groups, average, frame_of, group_operators
from kinetoscope.formats.collapsed import write_collapsed
from kinetoscope.record import torch_private
from kinetoscope.record.event_source import EventSource
from kinetoscope.record.function_event import FunctionEvent, FunctionEventAvg
from kinetoscope.show.text_table import TableColumns, build_table, columns_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

# torch's newest lists leave Python calls out of averages unless asked; the installed release decides.
LISTS_PYTHON_FUNCTIONS = torch_private.TORCH_VERSION < (2, 14)

STACK_METRICS = (
    "self_cpu_time_total",
    "self_device_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
)


def _rebuild_list(
    kind: type[EventList], events: list[FunctionEvent], families: list[tuple[list[int], int | None]], state: dict[str, Any]
) -> EventList:
    for event, (children, parent) in zip(events, families, strict=False):
        event.cpu_children = [events[child] for child in children]
        event.cpu_parent = None if parent is None else events[parent]
    made = kind(events)
    made.__dict__.update(state)
    return made


class EventList(torch_private.EventList):  # type: ignore[misc]
    """A list of events or averages with torch's methods, answered from arrays.

    A list that the program changed is answered by torch's own code, from its elements.
    """

    def __init__(
        self,
        *args: Any,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        source: EventSource | None = None,
    ) -> None:
        """Make a list of the given events, or of all events of a source."""
        if source is not None:
            args = ([source.event(place) for place in range(len(source.listed))],)
        super().__init__(*args, use_device=use_device, profile_memory=profile_memory, with_flops=with_flops)
        self._source = source
        self._tree_built = source is not None

    def __copy__(self) -> EventList:
        copied = type(self)(self, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops)
        copied.__dict__.update(self.__dict__)
        return copied

    def __reduce__(self) -> Any:
        # The events take their values along; who is whose child is told by positions in the list.
        place = {id(event): number for number, event in enumerate(self)}
        families = []
        if self._source is not None:
            families = [([place[id(child)] for child in event.cpu_children if id(child) in place],
                         place.get(id(event.cpu_parent))) for event in self]  # fmt: skip
        state = {**self.__dict__, "_source": None}
        return _rebuild_list, (type(self), list(self), families, state)

    @property
    def _unchanged(self) -> bool:
        """Whether the list still holds just the events of its source, in order."""
        source = self._source
        return (
            source is not None
            and len(self) == len(source.listed)
            and all(event is source.events.get(place) for place, event in enumerate(self))
        )

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of the host's self times, microseconds."""
        if self._unchanged:
            assert self._source is not None
            return float(sum(self._source.listed.self_cpu_time_total.tolist()))
        return float(sum(event.self_cpu_time_total for event in self))

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Lay out the events as text; see :func:`kinetoscope.show.text_table.build_table`.

        Raises:
            UnknownSortKey: ``sort_by`` names no column; the message lists the columns.
        """
        columns = table_columns(self._source) if self._unchanged and self._source is not None else columns_of(self)
        return build_table(
            columns,
            use_device=self[0].use_device if len(self) else None,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool | None = None,
    ) -> EventList:
        """Group the events by name (and shapes, stack, overload) and add up their values.

        ``include_python_functions`` None does as the installed torch: included before 2.14, left out since.
        """
        if include_python_functions is None:
            include_python_functions = LISTS_PYTHON_FUNCTIONS
        if self._source is None or not self._unchanged:
            events = self if include_python_functions else [event for event in self if not event.is_python_function]
            stock = torch_private.built_event_list(
                events, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
            )
            options = {} if torch_private.TORCH_VERSION < (2, 14) else {"include_python_functions": True}
            averages = stock.key_averages(group_by_input_shapes, group_by_stack_n, group_by_overload_name, **options)
            return EventList(
                averages, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
            )
        return averages_of(
            self._source,
            group_by_input_shapes,
            group_by_stack_n,
            group_by_overload_name,
            include_python_functions,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )

    def total_average(self) -> FunctionEventAvg:
        """Add up everything into one row of the key "Total"."""
        if self._source is None or not self._unchanged or not len(self):
            return cast("FunctionEventAvg", super().total_average())
        listed, last = self._source.listed, len(self) - 1
        everything = Groups(np.arange(len(listed)), np.zeros(len(listed), dtype=np.int64), np.array([last]))
        event = self._source.event(last)
        row = FunctionEventAvg.of(average(listed, everything, False, 0, False)[0], event, listed.use_device)
        row.key = "Total"
        row.input_shapes, row.stack, row.overload_name = event.input_shapes, event.stack, event.overload_name
        return row

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events of this list as Chrome JSON; ``profile.export_chrome_trace`` writes the whole trace."""
        events = []
        flow = 0
        device = self._use_device or "cuda"
        for event in self:
            if event.trace_name is None:
                continue
            place = {"name": event.trace_name, "ts": event.time_range.start, "pid": "CPU functions"}
            thread = event.thread
            if event.is_remote:
                thread = f" node_id:{event.node_id}, thread_id:{event.thread} "
            events.append({**place, "ph": "X", "dur": event.time_range.elapsed_us(), "tid": thread, "args": {}})
            for _ in event.kernels:
                events.append({**place, "ph": "s", "tid": event.thread, "id": flow, "cat": f"cpu_to_{device}", "args": {}})
                flow += 1
        with open(path, "w", encoding="utf-8") as file:
            json.dump(events, file)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What :meth:`export_stacks` can count."""
        return list(STACK_METRICS)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write one line a stack with its metric, as flamegraph.pl and speedscope read it.

        Raises:
            ValueError: the metric is none of :meth:`supported_export_stacks_metrics`.
        """
        if metric not in STACK_METRICS:
            raise ValueError(f"metric should be one of: {list(STACK_METRICS)}, not {metric!r}")
        for alias in ("cuda", "xpu", "privateuse1"):
            metric = metric.replace(alias, "device")
        if self._source is not None and self._unchanged:
            listed = self._source.listed
            values = getattr(listed, metric).astype(np.int64).tolist()
            lines: Iterator[tuple[list[str], int]] = (
                (listed.stack(key), value) for key, value in zip(listed.stack_key.tolist(), values, strict=True)
            )
        else:
            lines = ((event.stack or [], int(getattr(event, metric))) for event in self)
        write_collapsed(path, ((stack, value) for stack, value in lines if stack and value > 0))

    def to_polars(self) -> pl.DataFrame:
        """Averages as a Polars frame, one row a key: times in microseconds, memory in bytes.

        Raises:
            TypeError: the list holds events; ``prof.trace.events`` is their table.
        """
        if any(not isinstance(row, torch_private.FunctionEventAvg) for row in self):
            raise TypeError("only averages have a frame: key_averages().to_polars(); events are in prof.trace.events")
        return frame_of(self)

    def to_pandas(self) -> pd.DataFrame:
        """Same as :meth:`to_polars`, as a pandas frame (needs ``kinetoscope[pandas]``)."""
        return self.to_polars().to_pandas()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.table(sort_by=None))}</pre>"


def averages_of(
    source: EventSource,
    shapes: bool,
    stack_n: int,
    overloads: bool,
    python_functions: bool,
    profile_memory: bool,
    with_flops: bool,
) -> EventList:
    """Averages of all events of a source, from its arrays alone."""
    listed = source.listed
    groups = group_operators(listed, shapes, stack_n, overloads, python_functions)
    rows = [
        FunctionEventAvg.of(row, source.event(place), listed.use_device)
        for row, place in zip(average(listed, groups, shapes, stack_n, overloads), groups.first.tolist(), strict=True)
    ]
    for row in rows:
        row.input_shapes = json.loads(row.input_shapes) if shapes else ""
    return EventList(rows, use_device=listed.use_device, profile_memory=profile_memory, with_flops=with_flops)


def table_columns(source: EventSource) -> TableColumns:
    """Table columns of all events of a source, without making the events."""
    listed, raw = source.listed, source.listed.raw
    memory = listed.is_memory
    shapes = ["[]"] * len(listed)
    if source.flat_shapes is not None:
        codes = np.where(memory, -1, source.flat_shapes.codes[listed.row]).tolist()
        shapes = ["[]" if code < 0 else source.flat_shapes.values[code] for code in codes]
    is_annotation = raw.is_annotation[listed.row] & ~memory
    in_total = [int(torch_private.DeviceType.__members__[name].value) for name in ("CUDA", "PrivateUse1", "MTIA", "XPU")]
    on_device = np.isin(listed.device_type, in_total) & ~is_annotation
    return TableColumns(
        keys=[listed.names[code] for code in listed.name.tolist()],
        counts=[1] * len(listed),
        self_cpu_times=listed.self_cpu_time_total.tolist(),
        cpu_times=listed.cpu_time_total.tolist(),
        self_device_times=listed.self_device_time_total.tolist(),
        device_times=listed.device_time_total.tolist(),
        cpu_memory=listed.cpu_memory_usage.tolist(),
        self_cpu_memory=listed.self_cpu_memory_usage.tolist(),
        device_memory=listed.device_memory_usage.tolist(),
        self_device_memory=listed.self_device_memory_usage.tolist(),
        flops=listed.flops.tolist(),
        shapes=shapes,
        has_shapes=[text != "[]" for text in shapes],
        overloads=[source.overload_name(place) for place in range(len(listed))]
        if raw.overloads is not None
        else [""] * len(listed),
        stacks=[listed.stack(key) for key in listed.stack_key.tolist()],
        is_async=listed.is_async.tolist(),
        counts_as_device=(on_device | listed.is_fallback).tolist(),
        is_nested=(listed.parent >= 0).tolist(),
        node_ids=[-1] * len(listed),
    )
