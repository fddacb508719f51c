"""Which kinds of activity are recorded: host operators, the work of a device, and filters within them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kinetoscope.record import torch_private
from kinetoscope.record.torch_private import ProfilerActivity

__all__ = ["ActivityItem", "ProfilerActivity", "parse_activities", "supported_activities", "use_device_of"]

ActivityItem = ProfilerActivity | dict[ProfilerActivity, list[str]]
"""What a list of activities may hold: an activity, or a dict from activities to the activity types to collect."""


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that this torch, on this machine, can record."""
    return set(torch_private.supported_activities())


def parse_activities(
    activities: Iterable[ActivityItem],
) -> tuple[set[ProfilerActivity], dict[ProfilerActivity, set[str]]]:
    """Split a list of activities into the set of activities and the filters of activity types.

    An item is an activity, collected whole, or a dict from activities to the names of the activity types to collect of
    each (an empty list: none of them). Names are Kineto's, such as ``GPU_MEMCPY``; they are passed on unchecked.

    Raises:
        ValueError: an activity is given twice.
        TypeError: an item is of another type.
        RuntimeError: an activity is filtered and this torch knows no filters.
    """
    chosen: set[ProfilerActivity] = set()
    filters: dict[ProfilerActivity, set[str]] = {}
    if isinstance(activities, (ProfilerActivity, Mapping, str)):
        raise TypeError(f"activities must be a list of ProfilerActivity, not {activities!r}; write [{activities!r}]")
    for item in activities:
        if isinstance(item, ProfilerActivity):
            _add(chosen, item)
        elif isinstance(item, Mapping):
            for activity, names in item.items():
                if not isinstance(activity, ProfilerActivity):
                    raise TypeError(f"Expected ProfilerActivity as key of the filter {item!r}, got {type(activity)}")
                if isinstance(names, str):  # type: ignore[unreachable]
                    raise TypeError(f"Expected a list of activity types for {activity}, got the text {names!r}")
                _add(chosen, activity)
                filters[activity] = set(names)
        else:
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(item)}: {item!r}")
    if filters:
        torch_private.require_activity_filters()
    return chosen, filters


def _add(chosen: set[ProfilerActivity], activity: ProfilerActivity) -> None:
    if activity in chosen:
        raise ValueError(f"Activity {activity} specified more than once")
    chosen.add(activity)


def use_device_of(activities: Iterable[ProfilerActivity]) -> str | None:
    """Return the name of the device that a set of activities records, None for the host alone.

    Of several devices the first of cuda, xpu, mtia, hpu and the private-use backend (under its registered name) counts.
    """
    chosen = {activity.name for activity in activities}
    for activity in ("CUDA", "XPU", "MTIA", "HPU"):
        if activity in chosen:
            return activity.lower()
    return str(torch_private.privateuse1_backend_name()) if "PrivateUse1" in chosen else None
