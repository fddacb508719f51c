"""torch's events and averages, their values looked up in arrays when somebody reads them.

The classes extend torch's own, so programs that test types and read attributes go on to work; but an event holds no values,
only its position in the arrays.
"""

from __future__ import annotations

from typing import Any

from kinetoscope.analyze.averages import Average
from kinetoscope.record import torch_private
from kinetoscope.record.event_source import LOOK_UP, EventSource


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
        """The event at a position of a list."""
        event = cls.__new__(cls)
        event.__dict__["_source"] = source
        event.__dict__["_place"] = place
        return event

    def __getattr__(self, name: str) -> Any:
        # Reached only for what is not stored yet.
        look_up = LOOK_UP.get(name)
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
        for name in LOOK_UP:
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
