"""What was recorded, and every answer made from it when somebody asks."""

from __future__ import annotations

import copy
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import polars as pl

import kinetoscope
from kinetoscope.analyze.operator_list import concatenate, operators
from kinetoscope.analyze.operators import Operators
from kinetoscope.common.forked import require_polars
from kinetoscope.record import torch_private
from kinetoscope.record.engine import Recorded
from kinetoscope.record.event_list import EventList, averages_of
from kinetoscope.record.event_source import EventSource
from kinetoscope.record.function_event import FunctionEvent
from kinetoscope.record.options import RecordOptions
from kinetoscope.trace.metadata import Metadata
from kinetoscope.trace.trace import Trace


@dataclass
class Window:
    """One recorded window: what the engine handed over, with what is known about it."""

    recorded: Recorded
    options: RecordOptions
    trace_id: str = ""
    user: Callable[[], dict[str, Any]] = dict
    """Asked at each export for the user's metadata, as JSON values."""
    distributed: dict[str, Any] | None = None

    @cached_property
    def operators(self) -> Operators:
        """The events as torch lists them."""
        return operators(
            self.recorded.columns,
            self.options.use_device,
            rename=torch_private.demangle,
            stack_filter=torch_private.keeps_stack_entry,
            overhead_links=torch_private.TORCH_VERSION < (2, 14),
        )

    @property
    def trace(self) -> Trace:
        """The complete table of the window, with the metadata that is known by now; a new object each time.

        Raises:
            ForkedProcessError: the process was forked off from one that had used Polars.
        """
        require_polars("prof.trace")
        table = self._table
        return Trace(table.events, self.described(table.metadata), table.issues)

    @cached_property
    def _table(self) -> Trace:
        table = self.recorded.trace()
        rank = self.described(table.metadata).rank
        if rank is None:
            return table
        # As a trace that is read from a file has it.
        return Trace(table.events.with_columns(rank=pl.lit(rank, dtype=pl.Int32)), table.metadata, table.issues)

    def export_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write the window as Kineto JSON.

        Raises:
            OSError: the file cannot be written.
        """
        self.recorded.save(path, self.described)

    def described(self, metadata: Metadata) -> Metadata:
        """The metadata of the engine with what only we know, and the user's of this moment."""
        return msgspec.structs.replace(
            metadata,
            trace_id=self.trace_id or metadata.trace_id,
            trace_name=None,
            versions={
                "kinetoscope": kinetoscope.__version__,
                "torch": torch_private.torch_release,
                "python": platform.python_version(),
            },
            options=self.options.described(self.recorded.recorder),
            distributed=copy.deepcopy(self.distributed or metadata.distributed),
            user=copy.deepcopy({**metadata.user, **self.user()}),
        )


class Answers:
    """The answers of one window, or of several that are accumulated, the newest first as in torch."""

    def __init__(self, windows: list[Window], profile_memory: bool, with_flops: bool) -> None:
        """Answer from these windows."""
        self.windows = windows
        self.profile_memory = profile_memory
        self.with_flops = with_flops

    @cached_property
    def source(self) -> EventSource:
        """The arrays of all windows."""
        listed = concatenate([window.operators for window in self.windows])
        starts = np.cumsum([0, *(len(window.recorded.columns) for window in self.windows)]).tolist()

        def event(row: int) -> Any:
            number = int(np.searchsorted(starts, row, side="right")) - 1
            return self.windows[number].recorded.event(row - starts[number])

        return EventSource(listed, event, FunctionEvent.at)

    @cached_property
    def events(self) -> EventList:
        """All events, unaggregated."""
        return EventList(source=self.source, use_device=self.source.listed.use_device,
                         profile_memory=self.profile_memory, with_flops=self.with_flops)  # fmt: skip

    def key_averages(self, shapes: bool, stack_n: int, overloads: bool, python_functions: bool) -> EventList:
        """Grouped averages over all windows."""
        return averages_of(self.source, shapes, stack_n, overloads, python_functions, self.profile_memory, self.with_flops)
