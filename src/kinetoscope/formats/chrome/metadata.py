"""What a Kineto file says about the whole trace, in both directions: top-level members and metadata events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kinetoscope.formats.chrome.events import Event
from kinetoscope.formats.chrome.ids import Ids
from kinetoscope.formats.chrome.names import OPTIONS, OWN_MEMBER
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
"""Member of ``Metadata.source`` that keeps metadata events which are no names, labels or positions."""


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
    """The flows in the file follow from the table and are no rows of it."""


def decode_members(members: Mapping[str, msgspec.Raw], issues: Issues) -> tuple[Metadata, OwnMember]:
    """Metadata from the top-level members of a file, and what only a file of ours says."""
    values: dict[str, Any] = {}
    for key, raw in members.items():
        try:
            values[key] = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            values[key] = bytes(raw).decode("utf-8", "replace")
            issues.found("unreadable metadata", where=f"member {key!r}")
    own = OwnMember()
    if isinstance(values.get(OWN_MEMBER), dict):
        try:
            own = msgspec.convert(values.pop(OWN_MEMBER), OwnMember)
        except msgspec.ValidationError:
            issues.found("unreadable metadata", where=f"member {OWN_MEMBER!r}")
    fields: dict[str, Any] = {}
    base = _integer(values.get("baseTimeNanoseconds"))
    if base is not None and -(2**62) < base < 2**62:
        fields["base_time_ns"] = base
        del values["baseTimeNanoseconds"]
    for key, field, kind in _FIELDS:
        if isinstance(values.get(key), kind):
            fields[field] = values.pop(key)
    options = {key: bool(values.pop(key)) for key in OPTIONS if key in values and values[key] in (0, 1)}
    added = set(own.user)
    is_source = {key: key in _SOURCE and key not in added for key in values}
    metadata = Metadata(
        options={**options, **own.options},
        versions=own.versions,
        steps=own.steps,
        source={key: value for key, value in values.items() if is_source[key]},
        user={**{key: value for key, value in values.items() if not is_source[key]}, **own.covered},
        **fields,
    )
    return metadata, own


def with_names(metadata: Metadata, events: Sequence[Event], ids: Ids) -> Metadata:
    """The metadata with the names, labels and positions of processes and threads that the metadata events give."""
    processes: dict[int, dict[str, Any]] = {}
    threads: dict[tuple[int, int], dict[str, Any]] = {}
    others: list[dict[str, Any]] = []
    for event in events:
        process, thread = ids.number(event.pid), ids.number(event.tid)
        values = {key: msgspec.json.decode(raw) for key, raw in (event.args or {}).items()}
        kind = event.name or ""
        position = _integer(values.get("sort_index"))
        if kind == "process_name" and process is not None and isinstance(values.get("name"), str):
            processes.setdefault(process, {})["name"] = values["name"]
        elif kind == "process_labels" and process is not None and isinstance(values.get("labels"), str):
            processes.setdefault(process, {})["labels"] = values["labels"]
        elif kind == "process_sort_index" and process is not None and _is_position(position):
            processes.setdefault(process, {})["sort_index"] = position
        elif kind == "thread_name" and process is not None and thread is not None and isinstance(values.get("name"), str):
            threads.setdefault((process, thread), {})["name"] = values["name"]
        elif kind == "thread_sort_index" and process is not None and thread is not None and _is_position(position):
            threads.setdefault((process, thread), {})["sort_index"] = position
        else:
            others.append({"name": kind, "pid": event.pid, "tid": event.tid, "args": values})
    return msgspec.structs.replace(
        metadata,
        processes=[ProcessInfo(process, **fields) for process, fields in processes.items()],
        threads=[ThreadInfo(process, thread, **fields) for (process, thread), fields in threads.items()],
        source={**metadata.source, METADATA_EVENTS: others} if others else metadata.source,
    )


def _is_position(value: int | None) -> bool:
    return value is not None and -(2**63) <= value < 2**63


def _integer(value: Any) -> int | None:
    """A whole number of JSON, or one that was written as text; None for all else."""
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit() and len(value) < 25:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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
