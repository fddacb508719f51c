"""torch's event lists, made from columns when somebody asks for them.

The classes extend torch's own, so programs that test types, filter events and build an ``EventList`` of their own go on
to work; but an event holds no values, only its place in the arrays, and a value is looked up when it is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kinetoscope.analyze.averages import Average, Groups, average, frame_of, group_operators
from kinetoscope.analyze.operators import Operators
from kinetoscope.analyze.raw_events import TextColumn
from kinetoscope.analyze.raw_rows import flat_shapes
from kinetoscope.formats.collapsed import write_collapsed
from kinetoscope.record import torch_private
from kinetoscope.show.text_table import TableColumns, build_table, columns_of
from kinetoscope.trace.vocabulary import shown_name

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

DeviceType = torch_private.DeviceType
_NUMBER_TO_DEVICE = {int(kind.value): kind for kind in DeviceType.__members__.values()}
# torch's newest lists leave Python calls out of averages unless asked; the installed release decides.
LISTS_PYTHON_FUNCTIONS = torch_private.TORCH_VERSION < (2, 14)

STACK_METRICS = (
    "self_cpu_time_total",
    "self_device_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
)


class EventSource:
    """What the events of a list look their values up in."""

    def __init__(self, listed: Operators, kineto_event: Callable[[int], Any]) -> None:
        """Take the arrays, and a function from a raw row to torch's own event for what the arrays do not hold."""
        self.listed = listed
        self.kineto_event = kineto_event
        self.events: dict[int, FunctionEvent] = {}
        self._intervals = torch_private.Interval
        self.kernel = torch_private.Kernel

    @cached_property
    def _flat_shapes(self) -> TextColumn | None:
        shapes = self.listed.raw.shapes
        return None if shapes is None else flat_shapes(shapes)

    def event(self, place: int) -> FunctionEvent:
        """The event at a place of the list; the same object each time."""
        event = self.events.get(place)
        if event is None:
            event = self.events[place] = FunctionEvent.at(self, place)
        return event

    # One function an attribute. Each gets the event's place and answers what torch's constructor would have stored.

    def _raw(self, place: int) -> int:
        return int(self.listed.row[place])

    def _kineto(self, place: int, method: str, missing: Any) -> Any:
        if self.listed.is_memory[place]:
            return missing
        event = self.kineto_event(self._raw(place))
        read = getattr(event, method, None)
        return missing if read is None else read()

    def input_shapes(self, place: int) -> Any:
        """Sizes of the inputs; a list of tensors counts as []."""
        if self.listed.is_memory[place] or self._flat_shapes is None:
            return []
        return json.loads(self._flat_shapes[self._raw(place)])

    def structured_input_shapes(self, place: int) -> Any:
        """Sizes of the inputs, lists of tensors spelled out."""
        if self.listed.is_memory[place]:
            return None
        return json.loads(self.listed.raw.shapes[self._raw(place)]) if self.listed.raw.shapes is not None else []

    def overload_name(self, place: int) -> str:
        """Overload of the operator."""
        overloads = self.listed.raw.overloads
        return "" if overloads is None or self.listed.is_memory[place] else overloads[self._raw(place)]

    def trace_name(self, place: int) -> str | None:
        """Name without the wildcard of steps; None for memory, which torch's own JSON leaves out."""
        if self.listed.is_memory[place]:
            return None
        raw = self.listed.raw
        name = raw.names[raw.name[self._raw(place)]]
        return torch_private.demangle(name)

    def time_range(self, place: int) -> Any:
        """Start and end, microseconds after the window's start."""
        return self._intervals(float(self.listed.start_us[place]), float(self.listed.end_us[place]))

    def kernels(self, place: int) -> list[Any]:
        """Kernels that the operator launched: name, device, duration in microseconds."""
        listed, raw = self.listed, self.listed.raw
        rows = listed.kernels.rows[listed.kernels.offsets[place] : listed.kernels.offsets[place + 1]].tolist()
        kernels = [
            self.kernel(
                shown_name(torch_private.demangle(raw.names[raw.name[row]])),
                int(raw.device[row]),
                float(raw.end_ns[row] / 1000 - raw.start_ns[row] / 1000),
            )
            for row in rows
        ]
        if listed.is_fallback[place]:
            assert raw.fallback_device_us is not None
            row = self._raw(place)
            kernels.insert(0, self.kernel(self.trace_name(place), int(raw.device[row]), raw.fallback_device_us[row]))
        return kernels

    def cpu_children(self, place: int) -> list[FunctionEvent]:
        """Events directly inside this one."""
        offsets, children = self.listed.children
        return [self.event(child) for child in children[offsets[place] : offsets[place + 1]].tolist()]

    def cpu_parent(self, place: int) -> FunctionEvent | None:
        """The event around this one."""
        parent = int(self.listed.parent[place])
        return self.event(parent) if parent >= 0 else None

    def flops(self, place: int) -> int | None:
        """Floating point operations; None for memory."""
        return None if self.listed.is_memory[place] else int(self.listed.flops[place])

    def event_metadata(self, place: int) -> Any:
        """Kineto's metadata in torch's structure, where the recording was asked to expose it."""
        extra = self._kineto(place, "extra_meta", None)
        return torch_private.build_event_metadata(extra) if extra else None

    def _raw_int(self, column: str, place: int, of_memory: int | None) -> int | None:
        if self.listed.is_memory[place]:
            return of_memory
        return int(getattr(self.listed.raw, column)[self._raw(place)])


def _of_kineto(method: str, missing: Any, of_memory: Any) -> Callable[[EventSource, int], Any]:
    def look_up(source: EventSource, place: int) -> Any:
        return of_memory if source.listed.is_memory[place] else source._kineto(place, method, missing)

    return look_up


_LOOK_UP: dict[str, Callable[[EventSource, int], Any]] = {
    "id": lambda s, i: int(s.listed.id[i]),
    "node_id": lambda s, i: -1,
    "name": lambda s, i: s.listed.names[s.listed.name[i]],
    "overload_name": EventSource.overload_name,
    "trace_name": EventSource.trace_name,
    "time_range": EventSource.time_range,
    "thread": lambda s, i: int(s.listed.thread[i]) % 2**64,
    "fwd_thread": lambda s, i: s._kineto(i, "fwd_thread_id", int(s.listed.thread[i]) % 2**64),
    "kernels": EventSource.kernels,
    "count": lambda s, i: 1,
    "cpu_children": EventSource.cpu_children,
    "cpu_parent": EventSource.cpu_parent,
    "input_shapes": EventSource.input_shapes,
    "concrete_inputs": _of_kineto("concrete_inputs", [], None),
    "kwinputs": _of_kineto("kwinputs", {}, None),
    "stack": lambda s, i: s.listed.stack(int(s.listed.stack_key[i])),
    "scope": _of_kineto("scope", 0, 0),
    "use_device": lambda s, i: s.listed.use_device,
    "cpu_memory_usage": lambda s, i: int(s.listed.cpu_memory_usage[i]),
    "device_memory_usage": lambda s, i: int(s.listed.device_memory_usage[i]),
    "is_async": lambda s, i: bool(s.listed.is_async[i]),
    "is_remote": lambda s, i: False,
    "sequence_nr": _of_kineto("sequence_nr", -1, -1),
    "device_type": lambda s, i: _NUMBER_TO_DEVICE[int(s.listed.device_type[i])],
    "device_index": _of_kineto("device_index", 0, 0),
    "device_resource_id": lambda s, i: s._kineto(i, "device_resource_id", int(s.listed.thread[i])),
    "is_legacy": lambda s, i: bool(s.listed.is_fallback[i]),
    "flops": EventSource.flops,
    "is_user_annotation": lambda s, i: bool(s._raw_int("is_annotation", i, 0)),
    "is_python_function": lambda s, i: bool(s._raw_int("is_python", i, 0)),
    "activity_type": _of_kineto("activity_type", None, None),
    "_metadata_json": _of_kineto("metadata_json", None, None),
    "metadata": lambda s, i: s._kineto(i, "typed_metadata", None) or None,
    "event_metadata": EventSource.event_metadata,
    "flow_id": _of_kineto("flow_id", None, None),
    "flow_type": _of_kineto("flow_type", None, None),
    "flow_start": _of_kineto("flow_start", None, None),
    "external_id": _of_kineto("external_id", 0, 0),
    "linked_correlation_id": lambda s, i: s._raw_int("linked_id", i, 0),
    "structured_input_shapes": EventSource.structured_input_shapes,
    "structured_input_strides": _of_kineto("structured_input_strides", [], None),
    "input_dtypes": _of_kineto("dtypes", [], None),
    "python_id": _of_kineto("python_id", -1, -1),
    "python_parent_id": _of_kineto("python_parent_id", -1, -1),
    "python_module_id": _of_kineto("python_module_id", -1, -1),
    "self_cpu_percent": lambda s, i: -1,
    "total_cpu_percent": lambda s, i: -1,
    "total_device_percent": lambda s, i: -1,
}


class FunctionEvent(torch_private.FunctionEvent):  # type: ignore[misc]
    """One event: torch's FunctionEvent, its values looked up when they are read.

    Times are microseconds after the window's start, memory is bytes. Setting an attribute keeps the value.
    """

    _source: EventSource
    _place: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make a free-standing event, as torch's constructor does."""
        super().__init__(*args, **kwargs)

    @classmethod
    def at(cls, source: EventSource, place: int) -> FunctionEvent:
        """The event at a place of a list."""
        event = cls.__new__(cls)
        event.__dict__["_source"] = source
        event.__dict__["_place"] = place
        return event

    def __getattr__(self, name: str) -> Any:
        # Reached only for what is not stored yet.
        look_up = _LOOK_UP.get(name)
        if look_up is None or "_source" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self.__dict__[name] = look_up(self._source, self._place)
        return value

    def _from_arrays(self) -> bool:
        # Once children were looked up the program may have changed them, and torch's own sums must see that.
        return "_source" in self.__dict__ and self.__dict__.keys().isdisjoint(_DECIDES_SUMS)

    @property
    def self_cpu_time_total(self) -> float:
        """Host time without the children's, microseconds; 0 for async and device events."""
        if self._from_arrays():
            return float(self._source.listed.self_cpu_time_total[self._place])
        return float(super().self_cpu_time_total)

    @property
    def self_device_time_total(self) -> float:
        """Time of the event's own kernels, microseconds."""
        if self._from_arrays():
            return float(self._source.listed.self_device_time_total[self._place])
        return float(super().self_device_time_total)

    @property
    def device_time_total(self) -> float:
        """Time of the kernels of the event and its children, microseconds."""
        if self._from_arrays():
            return float(self._source.listed.device_time_total[self._place])
        return float(super().device_time_total)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Host bytes allocated less freed, without the children's."""
        if self._from_arrays():
            return int(self._source.listed.self_cpu_memory_usage[self._place])
        return int(super().self_cpu_memory_usage)

    @property
    def self_device_memory_usage(self) -> int:
        """Device bytes allocated less freed, without the children's."""
        if self._from_arrays():
            return int(self._source.listed.self_device_memory_usage[self._place])
        return int(super().self_device_memory_usage)

    def __reduce__(self) -> Any:
        # A copy or pickle takes all values along and lets go of the list (children and parent would drag it in).
        values = dict(self.__dict__)
        values.pop("_source", None), values.pop("_place", None)
        left_out: dict[str, Any] = {"cpu_children": [], "cpu_parent": None}
        for name in _LOOK_UP:
            values[name] = left_out[name] if name in left_out else getattr(self, name)
        values["cpu_memory_usage"], values["device_memory_usage"] = self.cpu_memory_usage, self.device_memory_usage
        return _rebuild, (type(self), values)


_DECIDES_SUMS = {"cpu_children", "kernels", "is_async", "device_type", "time_range", "use_device", "cpu_memory_usage",
                 "device_memory_usage"}  # fmt: skip


def _rebuild(kind: type[FunctionEvent], values: dict[str, Any]) -> FunctionEvent:
    event = kind.__new__(kind)
    event.__dict__.update(values)
    return event


_OF_FIRST = ("scope", "cpu_children", "cpu_parent")


class FunctionEventAvg(torch_private.FunctionEventAvg):  # type: ignore[misc]
    """One row of averages: torch's, with percentiles of the durations (``p50``, ``p95``, ``p99``, ``min``, ``max``).

    Times are microseconds, memory is bytes.
    """

    is_user_annotation: bool = False
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    min: float = 0.0
    max: float = 0.0

    @classmethod
    def of(cls, row: Average, first: FunctionEvent, use_device: str | None) -> FunctionEventAvg:
        """Make a row from its sums and the first event that it counts."""
        made = cls()
        made.__dict__.update(vars(row))
        made.device_type = first.device_type
        made.node_id = -1
        made.is_remote = False
        made.use_device = use_device
        made.__dict__["_first"] = first
        # torch keeps these of the first event; looked up when they are read.
        for name in _OF_FIRST:
            made.__dict__.pop(name, None)
        return made

    def __getattr__(self, name: str) -> Any:
        if name in _OF_FIRST and "_first" in self.__dict__:
            return getattr(self.__dict__["_first"], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> Any:
        values = {name: value for name, value in self.__dict__.items() if name != "_first"}
        return _rebuild, (type(self), {**values, "scope": self.scope, "cpu_children": None, "cpu_parent": None})


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
        # The events take their values along; who is whose child is told by places in the list.
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
            stock = torch_private.EventList(
                events, use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops
            )
            stock._tree_built = True
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
    if source._flat_shapes is not None:
        codes = np.where(memory, -1, source._flat_shapes.codes[listed.row]).tolist()
        shapes = ["[]" if code < 0 else source._flat_shapes.values[code] for code in codes]
    is_annotation = raw.is_annotation[listed.row] & ~memory
    in_total = [int(DeviceType.__members__[name].value) for name in ("CUDA", "PrivateUse1", "MTIA", "XPU")]
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
