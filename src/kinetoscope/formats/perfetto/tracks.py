"""The tracks of a Perfetto trace: one a process, thread and stream, and more for what does not nest."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from kinetoscope.formats import protobuf
from kinetoscope.formats.protobuf import Ints
from kinetoscope.trace.metadata import Metadata

_TRACK_DESCRIPTOR = 60
_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER, _CHILD_ORDERING, _RANK = 1, 2, 3, 4, 5, 8, 11, 12
_EXPLICIT = 3
_LARGEST_PID = 2**31 - 1


@dataclass
class Tracks:
    """Gives tracks their numbers and describes them."""

    metadata: Metadata
    descriptors: list[bytes] = field(default_factory=list)
    """Content of a packet each."""
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _pids: set[int] = field(default_factory=set)

    def of_lanes(self, lanes: pl.DataFrame) -> Ints:
        """The tracks of threads and streams.

        Args:
            lanes: a row each, with the columns rank, process, thread and on_device.

        Returns:
            The number of each lane's track.
        """
        by_rank = lanes["rank"].drop_nulls().n_unique() > 1
        numbers = [self._lane(row, by_rank) for row in lanes.iter_rows(named=True)]
        return np.array(numbers, dtype=np.int64)

    def below(self, key: Hashable, parent: int | None, name: str, is_counter: bool = False) -> int:
        """The track of a key, made below another when it is asked for first."""
        number = self._numbers.get(key)
        if number is None:
            fields = [protobuf.field(_NAME, name)]
            if is_counter:
                fields.append(protobuf.field(_COUNTER, b""))
            number = self._numbers[key] = self._described(fields, parent)
        return number

    def _described(self, fields: list[bytes], parent: int | None, rank: int | None = None) -> int:
        number = len(self.descriptors) + 1
        content = [protobuf.field(_UUID, number), *fields]
        if parent is not None:
            content.append(protobuf.field(_PARENT, parent))
        if rank is not None:
            content.append(protobuf.field(_RANK, max(min(rank, _LARGEST_PID), -_LARGEST_PID)))
        self.descriptors.append(protobuf.field(_TRACK_DESCRIPTOR, b"".join(content)))
        return number

    def _lane(self, row: dict[str, Any], by_rank: bool) -> int:
        process, thread = row["process"], row["thread"]
        on_device = bool(row["on_device"])
        parent, pid = self._process(process, row["rank"] if by_rank else None, on_device)
        told = next((one for one in self.metadata.threads if (one.process, one.thread) == (process, thread)), None)
        name = (told and told.name) or self._named("stream" if on_device else "thread", thread)
        fields = [protobuf.field(_NAME, name)]
        if pid is not None and isinstance(thread, int) and thread >= 0:
            descriptor = protobuf.field(1, pid) + protobuf.field(2, thread) + protobuf.field(5, name)
            fields = [protobuf.field(_THREAD, descriptor)]
        return self._described(fields, parent, None if told is None else told.sort_index)

    def _process(self, process: Any, rank: int | None, on_device: bool) -> tuple[int, int | None]:
        """The track of a process, and its id if it has one: devices have none."""
        key = ("process", process, rank, on_device)
        told = next((one for one in self.metadata.processes if one.process == process), None)
        pid = process if isinstance(process, int) and 0 < process <= _LARGEST_PID and not on_device else None
        if key in self._numbers:
            return self._numbers[key], pid if ("pid", pid, rank) in self._numbers else None
        of_rank = "" if rank is None else f"rank {rank}: "
        name = of_rank + ((told and told.name) or self._named("device" if on_device else "process", process))
        label = (told and told.labels) or ""
        fields = [protobuf.field(_CHILD_ORDERING, _EXPLICIT)]
        if pid is not None and pid not in self._pids:
            self._pids.add(pid)
            self._numbers["pid", pid, rank] = pid
            descriptor = protobuf.field(1, pid) + protobuf.field(6, name) + (protobuf.field(8, label) if label else b"")
            fields.append(protobuf.field(_PROCESS, descriptor))
        else:
            pid = None
            fields.append(protobuf.field(_NAME, f"{name} ({label})" if label else name))
        self._numbers[key] = self._described(fields, None, None if told is None else told.sort_index)
        return self._numbers[key], pid

    def _named(self, kind: str, number: Any) -> str:
        if number is None:
            return f"unknown {kind}"
        return f"{kind} {self.metadata.text_ids.get(str(number), number)}"
