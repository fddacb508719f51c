"""What the events of a list look their values up in: the arrays, and torch's own events for what the arrays do not hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any

from kinetoscope.analyze.operators import Operators
from kinetoscope.analyze.raw_events import TextColumn
from kinetoscope.analyze.raw_rows import flat_shapes
from kinetoscope.record import torch_private
from kinetoscope.trace.vocabulary import shown_name

_NUMBER_TO_DEVICE = {int(kind.value): kind for kind in torch_private.DeviceType.__members__.values()}


class EventSource:
    """What the events of a list look their values up in."""

    def __init__(self, listed: Operators, kineto_event: Callable[[int], Any], make: Callable[[EventSource, int], Any]) -> None:
        """Take the arrays, and two functions.

        Args:
            listed: the arrays.
            kineto_event: from a raw row to torch's own event, for what the arrays do not hold.
            make: from this and a position to the event of the list.
        """
        self.listed = listed
        self.kineto_event = kineto_event
        self.events: dict[int, Any] = {}
        self._make = make
        self._intervals = torch_private.Interval
        self.kernel = torch_private.Kernel

    @cached_property
    def flat_shapes(self) -> TextColumn | None:
        """Input shapes as torch's tables show them; None where none were recorded."""
        shapes = self.listed.raw.shapes
        return None if shapes is None else flat_shapes(shapes)

    def event(self, place: int) -> Any:
        """The event at a position of the list; the same object each time."""
        event = self.events.get(place)
        if event is None:
            event = self.events[place] = self._make(self, place)
        return event

    # One function an attribute. Each gets the event's position and answers what torch's constructor would have stored.

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
        if self.listed.is_memory[place] or self.flat_shapes is None:
            return []
        return json.loads(self.flat_shapes[self._raw(place)])

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

    def cpu_children(self, place: int) -> list[Any]:
        """Events directly inside this one."""
        offsets, children = self.listed.children
        return [self.event(child) for child in children[offsets[place] : offsets[place + 1]].tolist()]

    def cpu_parent(self, place: int) -> Any | None:
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


LOOK_UP: dict[str, Callable[[EventSource, int], Any]] = {
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
"""Attribute of an event -> what torch's constructor would have stored under it."""
