"""One recorded window: what Kineto handed over at stop, and every answer made from it when somebody asks."""

from __future__ import annotations

import copy
import logging
import os
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import polars as pl

import kinetoscope
from kinetoscope.analyze.operators import Operators, RawEvents, TextColumn, concatenate, operators
from kinetoscope.common.collector import collector_paused
from kinetoscope.common.user_warning import warn_user
from kinetoscope.formats.chrome.reader import parse_chrome
from kinetoscope.formats.chrome.writer import write_chrome, write_chrome_text
from kinetoscope.record import torch_private
from kinetoscope.record.event_list import EventList, EventSource, averages_of
from kinetoscope.record.kineto.extract import Contents, extract
from kinetoscope.record.kineto.matching import match
from kinetoscope.record.kineto.text import KinetoText, saved
from kinetoscope.trace.devices import DEVICE_NAMES
from kinetoscope.trace.links import step_numbers
from kinetoscope.trace.metadata import Metadata
from kinetoscope.trace.trace import Trace
from kinetoscope.trace.vocabulary import MEMORY_EVENT, MEMORY_EVENTS, STEP_PREFIX

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """How a window was recorded."""

    use_device: str | None = None
    activities: tuple[str, ...] = ()
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    fallback: str | None = None
    """cuda or privateuse1 where torch measures device time itself."""
    post_processing_timeout_s: float | None = None

    @property
    def contents(self) -> Contents:
        """Which columns such a recording can fill."""
        return Contents(
            device=bool(self.use_device) or any(name != "CPU" for name in self.activities),
            shapes=self.record_shapes or self.with_flops,
            python=self.with_stack,
            flops=self.with_flops,
            fallback=self.fallback,
        )


@dataclass
class Window:
    """A Kineto result with what is known about it.

    Nothing is computed until it is asked for, and then once: columns first (enough for ``events()`` and tables), the
    complete trace only for exports and ``prof.trace``.
    """

    result: Any
    options: Options
    trace_id: str = ""
    user: Callable[[], dict[str, Any]] = dict
    """Asked at each export for the user's metadata, as JSON values."""
    distributed: dict[str, Any] | None = None

    @cached_property
    def raw(self) -> RawEvents:
        """The events as columns."""
        limit = self.options.post_processing_timeout_s
        raw, left_out = extract(self.result, self.options.contents, limit)
        if left_out:
            log.warning("Post-processing took longer than %s s: %d events were left out of the tables", limit, left_out)
        return raw

    @cached_property
    def operators(self) -> Operators:
        """The events as torch lists them."""
        return operators(
            self.raw,
            self.options.use_device,
            rename=torch_private.demangle,
            stack_filter=torch_private.keeps_stack_entry,
            overhead_links=torch_private.TORCH_VERSION < (2, 14),
        )

    def is_empty(self) -> bool:
        """Tell whether nothing of the program was recorded: no operator, annotation or device work of its own."""
        return not any(map(_is_of_the_program, self.result.events()))

    @cached_property
    def _kineto_events(self) -> Any:
        with collector_paused():
            return self.result.events()

    def kineto_event(self, row: int) -> Any:
        """torch's own event of a raw row, for values that are not in the columns."""
        return self._kineto_events[row]

    @property
    def trace(self) -> Trace:
        """The complete table of the window, with the metadata that is known by now; a new object each time."""
        table = self._table
        return Trace(table.events, self._described(table.metadata), table.issues)

    @cached_property
    def _table(self) -> Trace:
        text = self._kineto_text
        if text is None:
            return _ranked(_from_bindings(self), self._described(Metadata()).rank)
        kineto = _parsed(text.document)
        base = int(self.result.trace_start_ns()) - kineto.metadata.base_time_ns
        events = _with_bindings(kineto.events, self, base)
        metadata = msgspec.structs.replace(kineto.metadata, steps=step_numbers(events["name"]))
        return _ranked(Trace(events, metadata, kineto.issues), self._described(metadata).rank)

    @cached_property
    def _kineto_text(self) -> KinetoText | None:
        """Kineto's own JSON: the one place where it says arguments, addresses and devices' properties."""
        try:
            return saved(self.result.save)
        except (RuntimeError, OSError, AttributeError) as error:
            # Saved before by a program that reached in, or no room on the disk: names and times are still known.
            warn_user(f"Kineto could not hand over its events' arguments: {error}")
            return None

    def export_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write the window as Kineto JSON: Kineto's own events where they are sound, else those of the table.

        Raises:
            OSError: the file cannot be written.
        """
        text = self._kineto_text
        if "_table" in self.__dict__ or text is None or not text.is_sound:
            write_chrome(self.trace, path)
            return
        write_chrome_text(self._described(_parsed(text.without_events).metadata), text.events, path)

    def _described(self, metadata: Metadata) -> Metadata:
        """The metadata of Kineto's JSON with what only we know, and the user's of this moment."""
        options = self.options
        return msgspec.structs.replace(
            metadata,
            trace_id=self.trace_id or metadata.trace_id,
            trace_name=None,
            versions={
                "kinetoscope": kinetoscope.__version__,
                "torch": torch_private.torch_release,
                "python": platform.python_version(),
            },
            options={
                "recorder": "kineto",
                "activities": sorted(options.activities),
                "use_device": options.use_device,
                "record_shapes": options.record_shapes,
                "profile_memory": options.profile_memory,
                "with_stack": options.with_stack,
                "with_flops": options.with_flops,
                "with_modules": options.with_modules,
            },
            distributed=copy.deepcopy(self.distributed or metadata.distributed),
            user=copy.deepcopy({**metadata.user, **self.user()}),
        )


def _ranked(trace: Trace, rank: int | None) -> Trace:
    """The trace with the rank of its distributed run in every row, as a trace that is read from a file has it."""
    if rank is None:
        return trace
    return Trace(trace.events.with_columns(rank=pl.lit(rank, dtype=pl.Int32)), trace.metadata, trace.issues)


def _parsed(text: bytes) -> Trace:
    with warnings.catch_warnings():
        # Names that Kineto garbles are repaired from the events themselves right after.
        warnings.simplefilter("ignore")
        return parse_chrome(text, "Kineto's result")


# What a window holds that was open while the program did nothing: the profiler's own mark, memory freed, the loop over
# the loader that found no more data, runtime calls and Python between them.
_OWN_NAMES = (STEP_PREFIX, MEMORY_EVENT, "enumerate(DataLoader)#", "cuda", "hip")
_IDLE_ACTIVITIES = ("cpu_instant_event", "python_function", "cuda_runtime", "cuda_driver", "overhead", "trace", "cuda_sync")


def _is_of_the_program(event: Any) -> bool:
    ask = getattr(event, "activity_type", None)
    if ask is not None and ask() in _IDLE_ACTIVITIES:
        return False
    hidden = getattr(event, "is_hidden_event", None)
    if hidden is not None and hidden():
        return False
    try:
        return not event.name().startswith(_OWN_NAMES)
    except UnicodeDecodeError:
        return True


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
        starts = np.cumsum([0, *(len(window.raw) for window in self.windows)]).tolist()

        def kineto_event(row: int) -> Any:
            number = int(np.searchsorted(starts, row, side="right")) - 1
            return self.windows[number].kineto_event(row - starts[number])

        return EventSource(listed, kineto_event)

    @cached_property
    def events(self) -> EventList:
        """All events, unaggregated."""
        return EventList(source=self.source, use_device=self.source.listed.use_device,
                         profile_memory=self.profile_memory, with_flops=self.with_flops)  # fmt: skip

    def key_averages(self, shapes: bool, stack_n: int, overloads: bool, python_functions: bool) -> EventList:
        """Grouped averages over all windows."""
        return averages_of(self.source, shapes, stack_n, overloads, python_functions, self.profile_memory, self.with_flops)


def _from_bindings(window: Window) -> Trace:
    """The table from the events alone, without their arguments."""
    raw = window.raw
    bindings = _bindings(window)
    memory = bindings["name"].is_in(MEMORY_EVENTS)
    category = np.select(
        [memory.to_numpy(), raw.is_python, raw.is_annotation, raw.linked_id > 0],
        ["cpu_instant_event", "python_function", "user_annotation", "cuda_runtime"],
        default="cpu_op",
    )
    frame = bindings.with_columns(
        id=pl.int_range(pl.len()),
        phase=pl.when(memory).then(pl.lit("i")).otherwise(pl.lit("X")),
        category=pl.Series(category.tolist(), dtype=pl.String),
        start_ns=pl.Series(raw.start_ns),
        duration_ns=pl.when(memory).then(None).otherwise(pl.Series(raw.end_ns - raw.start_ns)),
        process=pl.lit(os.getpid()),
        thread=pl.col("record_thread"),
        external_id=pl.Series(np.where(raw.linked_id > 0, raw.linked_id, raw.own_id)),
        bytes=pl.when(memory).then(pl.Series(raw.bytes)).otherwise(None),
    )
    return Trace(frame, Metadata(base_time_ns=int(window.result.trace_start_ns())), {"events without arguments": len(raw)})


def _bindings(window: Window) -> pl.DataFrame:
    """What only the events themselves say, one row a raw event, in the columns of the schema."""
    raw = window.raw
    raw.read("scope", "overloads", "script_stacks")
    columns: dict[str, Any] = {
        "name": _texts(TextColumn(raw.names, raw.name)),
        "record_thread": raw.thread,
        "scope": raw.scope.astype(np.int8),
        "is_async": raw.is_async,
        "device_type": _texts(TextColumn([DEVICE_NAMES.get(n, str(n)) for n in range(64)], raw.device_type)),
    }
    if raw.overloads is not None:
        columns["overload_name"] = _texts(raw.overloads)
    if raw.script_stacks is not None:
        columns["stack"] = _texts(raw.script_stacks)
    frame = pl.DataFrame(columns)
    if window.options.with_flops:
        flops = np.zeros(len(raw), dtype=np.int64)
        flops[window.operators.row] = window.operators.flops
        counted = pl.Series(flops)
        frame = frame.with_columns(flops=pl.when(counted > 0).then(counted).otherwise(None))
    return frame


def _texts(column: TextColumn) -> pl.Series:
    """A column of texts; the empty text is null."""
    values = pl.Series([value or None for value in column.values], dtype=pl.String)
    return values.gather(column.codes) if len(column.codes) else pl.Series([], dtype=pl.String)


def _with_bindings(events: pl.DataFrame, window: Window, base: int) -> pl.DataFrame:
    """Fill what Kineto's JSON leaves out or garbles (names, scopes, threads, overloads) from the events themselves.

    The two are matched by time, length and number of the operator, or bytes of memory. ``base`` is the window's start in the
    table's time.
    """
    raw = window.raw
    if not len(raw):
        return events
    raw.read("own_id", "scope", "overloads", "script_stacks")
    is_memory = np.isin(raw.name, [number for number, name in enumerate(raw.names) if name in MEMORY_EVENTS])
    number = np.where(raw.linked_id > 0, raw.linked_id, raw.own_id)
    offered = (
        raw.start_ns + base,
        np.where(is_memory, -1, raw.end_ns - raw.start_ns),
        np.where(is_memory, raw.bytes, number),
    )
    theirs = events.select(
        pl.when(pl.col("phase").is_in(["X", "i"])).then("start_ns").fill_null(_NEVER),
        pl.col("duration_ns").fill_null(-1),
        number=pl.coalesce(pl.when(pl.col("duration_ns").is_null()).then("bytes"), "external_id", pl.lit(0)),
    )
    partner = match([column.to_numpy() for column in theirs], offered)
    place = pl.Series(partner)
    found = _bindings(window)[place.set(place < 0, None)] if (partner < 0).any() else _bindings(window)[partner]
    return events.with_columns(pl.coalesce(found[name], pl.col(name)).alias(name) for name in found.columns)


_NEVER = -(2**62)
