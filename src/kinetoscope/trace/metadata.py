"""What is known about a whole trace: where, when and how it was recorded."""

from __future__ import annotations

from typing import Any

import msgspec

from kinetoscope.trace.schema import SCHEMA_VERSION


class ProcessInfo(msgspec.Struct, omit_defaults=True, frozen=True):
    """Name, label and position of one process (or device) in a viewer."""

    process: int
    name: str | None = None
    labels: str | None = None
    sort_index: int | None = None


class ThreadInfo(msgspec.Struct, omit_defaults=True, frozen=True):
    """Name and position of one thread (or stream) in a viewer."""

    process: int
    thread: int
    name: str | None = None
    sort_index: int | None = None


class Metadata(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """The facts that hold for a whole trace; stored as JSON inside the Parquet file.

    Times are nanoseconds. ``user`` holds what the recording program added (values are JSON values), ``source`` the
    members of the read file that have no field of their own. It does not change: ``msgspec.structs.replace`` makes
    another one.
    """

    schema_version: int = SCHEMA_VERSION
    base_time_ns: int = 0
    """Added to ``start_ns`` it gives nanoseconds since the Unix epoch (where the source knew them)."""
    trace_id: str | None = None
    trace_name: str | None = None
    host_name: str | None = None
    versions: dict[str, str] = {}
    """Name -> version of kinetoscope, torch, python, ... at recording."""
    device_properties: list[Any] = []
    distributed: dict[str, Any] | None = None
    """Kineto's distributedInfo: backend, rank, world_size, pg_config, ..."""
    options: dict[str, Any] = {}
    """Recording options: activities, record_shapes, profile_memory, with_stack, with_flops, with_modules, ..."""
    steps: list[int] = []
    """Numbers of the profiler steps inside the window."""
    processes: list[ProcessInfo] = []
    threads: list[ThreadInfo] = []
    text_ids: dict[str, str] = {}
    """Process and thread ids that were text: the (negative) number in the table, as text -> the original."""
    user: dict[str, Any] = {}
    source: dict[str, Any] = {}

    @property
    def rank(self) -> int | None:
        """Rank from the distributed information; None outside a distributed run."""
        rank = (self.distributed or {}).get("rank")
        if isinstance(rank, str) and rank.isascii() and rank.isdigit() and len(rank) < 10:
            return int(rank)  # some write it as text
        return rank if isinstance(rank, int) and not isinstance(rank, bool) else None
