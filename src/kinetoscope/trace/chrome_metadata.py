"""What a Kineto file says about the whole trace, in both directions: top-level members and metadata events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kinetoscope.trace.chrome_columns import Event, Ids
from kinetoscope.trace.chrome_names import OPTIONS, OWN_MEMBER
from kinetoscope.trace.issues import Issues
from kinetoscope.trace.metadata import Metadata, ProcessInfo, ThreadInfo

# What Kineto itself writes; other members were added by the recorded program.
_SOURCE = frozenset(
    {
        "schemaVersion",
        "displayTimeUnit",
        "INFO",
        "WARNING",
        "ERROR",
        "VERBOSE",
        "STATS",
        "UST_LOGGER_MARK_COMPLETED",
        "systemTraceEvents",
        "otherData",
        "stackFrames",
        "samples",
        "controllerTraceDataKey",
        "powerTraceAsString",
        "cupti_version",
        "cuda_runtime_version",
        "cuda_driver_version",
        "roctracer_version",
        "hip_runtime_version",
        "hip_driver_version",
    }
)
# Member -> field of the metadata, and its type.
_FIELDS: tuple[tuple[str, str, type], ...] = (
    ("trace_id", "trace_id", str),
    ("traceName", "trace_name", str),
    ("host_name", "host_name", str),
    ("deviceProperties", "device_properties", list),
    ("distributedInfo", "distributed", dict),
)

METADATA_EVENTS = "metadataEvents"
"""Member of ``Metadata.source`` that keeps metadata events which are no names, labels or places."""


class OwnMember(msgspec.Struct, omit_defaults=True):
    """What a Kinetoscope writes of its metadata into the member ``kinetoscope``."""

    versions: dict[str, str] = {}
    options: dict[str, Any] = {}
    steps: list[int] = []
    user: list[str] = []
    """Names of the members that the program added."""
    covered: dict[str, Any] = {}
    """What the program added under names that the file needs itself."""
    derived_flows: bool = False
    """The arrows in the file follow from the table and are no rows of it."""


def decode_members(members: Mapping[str, msgspec.Raw], issues: Issues) -> tuple[Metadata, OwnMember]:
    """Metadata from the top-level members of a file."""
    values: dict[str, Any] = {}
    for key, raw in members.items():
        try:
            values[key] = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            values[key] = bytes(raw).decode("utf-8", "replace")
            issues.found("unreadable metadata", place=f"member {key!r}")
    metadata = Metadata()
    own = OwnMember()
    if isinstance(values.get(OWN_MEMBER), dict):
        try:
            own = msgspec.convert(values.pop(OWN_MEMBER), OwnMember)
        except msgspec.ValidationError:
            issues.found("unreadable metadata", place=f"member {OWN_MEMBER!r}")
    base = values.get("baseTimeNanoseconds")
    if isinstance(base, int) and not isinstance(base, bool) and -(2**62) < base < 2**62:
        metadata.base_time_ns = base
        del values["baseTimeNanoseconds"]
    for key, field, kind in _FIELDS:
        if isinstance(values.get(key), kind):
            setattr(metadata, field, values.pop(key))
    for key in OPTIONS:
        if key in values and values[key] in (0, 1):
            metadata.options[key] = bool(values.pop(key))
    metadata.options.update(own.options)
    metadata.versions = own.versions
    metadata.steps = own.steps
    added = set(own.user)
    for key, value in values.items():
        (metadata.source if key in _SOURCE and key not in added else metadata.user)[key] = value
    metadata.user.update(own.covered)
    return metadata, own


def names(events: Sequence[Event], ids: Ids, metadata: Metadata) -> None:
    """Names, labels and places of processes and threads, from the metadata events, into the metadata."""
    processes: dict[int, ProcessInfo] = {}
    threads: dict[tuple[int, int], ThreadInfo] = {}
    others: list[dict[str, Any]] = []
    for event in events:
        process, thread = ids.number(event.pid), ids.number(event.tid)
        values = {key: msgspec.json.decode(raw) for key, raw in (event.args or {}).items()}
        kind = event.name or ""
        place = values.get("sort_index")
        if kind == "process_name" and process is not None and isinstance(values.get("name"), str):
            processes.setdefault(process, ProcessInfo(process)).name = values["name"]
        elif kind == "process_labels" and process is not None and isinstance(values.get("labels"), str):
            processes.setdefault(process, ProcessInfo(process)).labels = values["labels"]
        elif kind == "process_sort_index" and process is not None and _is_place(place):
            processes.setdefault(process, ProcessInfo(process)).sort_index = place
        elif kind == "thread_name" and process is not None and thread is not None and isinstance(values.get("name"), str):
            threads.setdefault((process, thread), ThreadInfo(process, thread)).name = values["name"]
        elif kind == "thread_sort_index" and process is not None and thread is not None and _is_place(place):
            threads.setdefault((process, thread), ThreadInfo(process, thread)).sort_index = place
        else:
            others.append({"name": kind, "pid": event.pid, "tid": event.tid, "args": values})
    metadata.processes = list(processes.values())
    metadata.threads = list(threads.values())
    if others:
        metadata.source[METADATA_EVENTS] = others


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def encode_members(metadata: Metadata, derived_flows: bool) -> dict[str, Any]:
    """Top-level members of a file, without its events: what :func:`decode_members` reads back."""
    members: dict[str, Any] = {"schemaVersion": 1}
    members.update({key: value for key, value in metadata.source.items() if key != METADATA_EVENTS})
    if metadata.distributed is not None:
        members["distributedInfo"] = metadata.distributed
    members["deviceProperties"] = metadata.device_properties
    members.update({key: 1 for key in OPTIONS if metadata.options.get(key) is True})
    if metadata.trace_id is not None:
        members["trace_id"] = metadata.trace_id
    if metadata.host_name is not None:
        members["host_name"] = metadata.host_name
    if metadata.trace_name is not None:
        members["traceName"] = metadata.trace_name
    if metadata.base_time_ns:
        members["baseTimeNanoseconds"] = metadata.base_time_ns
    members.setdefault("displayTimeUnit", "ms")
    reserved = {*members, "traceEvents", OWN_MEMBER, "baseTimeNanoseconds", "traceName"}
    kept = {key: value for key, value in metadata.user.items() if key not in reserved}
    members.update(kept)
    own = OwnMember(
        versions=metadata.versions,
        options={key: value for key, value in metadata.options.items() if not (key in OPTIONS and value is True)},
        steps=metadata.steps,
        user=[key for key in kept if key in _SOURCE],
        covered={key: value for key, value in metadata.user.items() if key in reserved and members.get(key) != value},
        derived_flows=derived_flows,
    )
    if own != OwnMember():
        members[OWN_MEMBER] = own
    return members
