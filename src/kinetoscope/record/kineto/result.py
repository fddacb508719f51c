"""What Kineto hands over at stop: its result, read when somebody asks."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from kinetoscope.analyze.operator_list import operators
from kinetoscope.analyze.raw_events import Ints, RawEvents
from kinetoscope.common.collector import collector_paused
from kinetoscope.common.forked import in_fresh_interpreter, polars_is_dead
from kinetoscope.common.user_warning import warn_user
from kinetoscope.formats.chrome.reader import parse_metadata
from kinetoscope.formats.chrome.writer import write_chrome, write_chrome_text
from kinetoscope.record.engine import Describe
from kinetoscope.record.kineto.extract import Contents, extract
from kinetoscope.record.kineto.repair import Bindings, whole_trace
from kinetoscope.record.kineto.text import KinetoText, saved
from kinetoscope.record.options import RecordOptions
from kinetoscope.trace.metadata import Metadata
from kinetoscope.trace.trace import Trace
from kinetoscope.trace.vocabulary import MEMORY_EVENT, STEP_PREFIX

# torch's own logger, where programs that set a time limit look for the word that it was exceeded.
log = logging.getLogger("torch.autograd.profiler")


@dataclass
class KinetoResult:
    """A Kineto result and its options: columns first (enough for lists and tables), the table only where it is needed."""

    result: Any
    options: RecordOptions

    recorder = "kineto"

    @cached_property
    def columns(self) -> RawEvents:
        """The events as columns."""
        limit = self.options.post_processing_timeout_s
        columns, left_out = extract(self.result, Contents.of(self.options), limit)
        if left_out:
            log.warning(
                "Profiler _parse_kineto_results timed out after %.3f seconds, returning partial results with %d events",
                limit,
                len(columns),
            )
        return columns

    def event(self, row: int) -> Any:
        """torch's own event of a row, for values that are not in the columns."""
        return self._events[row]

    @cached_property
    def _events(self) -> Any:
        with collector_paused():
            return self.result.events()

    def is_empty(self) -> bool:
        """Tell whether nothing of the program was recorded: no operator, annotation or device activity of its own."""
        return not any(map(_is_of_the_program, self.result.events()))

    def trace(self) -> Trace:
        """The complete table, with the metadata that Kineto knows."""
        return self._table

    @cached_property
    def _table(self) -> Trace:
        text = self._text
        return whole_trace(None if text is None else text.document, self._bindings())

    @cached_property
    def _text(self) -> KinetoText | None:
        """Kineto's own JSON: the one place where it says arguments, addresses and devices' properties."""
        try:
            return saved(self.result.save)
        except (RuntimeError, OSError, AttributeError) as error:
            # Saved before by a program that reached in, or no room on the disk: names and times are still known.
            warn_user(f"Kineto could not hand over its events' arguments: {error}")
            return None

    def save(self, path: str | os.PathLike[str], describe: Describe) -> None:
        """Write the window as Kineto JSON: Kineto's own events where they are sound, else those of the table.

        Raises:
            OSError: the file cannot be written.
        """
        text = self._text
        if text is not None and text.is_sound and (polars_is_dead() or "_table" not in self.__dict__):
            write_chrome_text(describe(parse_metadata(text.without_events, "Kineto's result")), text.events, path)
        elif polars_is_dead():
            # The repair needs Polars, which cannot be used in this process.
            described = _changes(
                describe, Metadata() if text is None else parse_metadata(text.without_events, "Kineto's result")
            )
            document = None if text is None else text.document
            in_fresh_interpreter(
                "kinetoscope.record.kineto.repair:write_whole_trace", document, self._bindings(), described, os.fspath(path)
            )
        else:
            table = self.trace()
            write_chrome(Trace(table.events, describe(table.metadata), table.issues), path)

    def _bindings(self) -> Bindings:
        columns = self.columns
        return Bindings.of(columns, self._flops(columns), int(self.result.trace_start_ns()))

    def _flops(self, columns: RawEvents) -> Ints | None:
        if not self.options.with_flops:
            return None
        listed = operators(columns, self.options.use_device)
        flops = np.zeros(len(columns), dtype=np.int64)
        flops[listed.row] = listed.flops
        return flops


def _changes(describe: Describe, metadata: Metadata) -> dict[str, Any]:
    """The fields that describing changes."""
    described = describe(metadata)
    names = msgspec.structs.fields(Metadata)
    return {
        field.name: getattr(described, field.name)
        for field in names
        if getattr(described, field.name) != getattr(metadata, field.name)
    }


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
