"""What an engine is: something that records, and hands over what it recorded.

Kineto (:mod:`kinetoscope.record.kineto`) is one. Everything that answers (:mod:`kinetoscope.record.answers`) knows engines
only by these two protocols, so another one plugs in beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from kinetoscope.analyze.raw_events import RawEvents
from kinetoscope.trace.metadata import Metadata
from kinetoscope.trace.trace import Trace

Describe = Callable[[Metadata], Metadata]
"""Adds to the metadata of an engine what only the profiler knows."""


class Recorded(Protocol):
    """One window as the engine holds it. Nothing is computed before it is asked for, and then once."""

    @property
    def recorder(self) -> str:
        """Name of the engine."""

    @property
    def columns(self) -> RawEvents:
        """The events as columns: what lists and tables are made of."""

    def trace(self) -> Trace:
        """The complete table, with the metadata that the engine knows."""

    def save(self, path: str | os.PathLike[str], describe: Describe) -> None:
        """Write the window as Chrome JSON, any number of times.

        Raises:
            OSError: the file cannot be written.
        """

    def event(self, row: int) -> Any:
        """torch's own event of a row of the columns, for values that are not in them."""

    def is_empty(self) -> bool:
        """Whether nothing of the program was recorded."""


class Engine(Protocol):
    """Something that records one window after the other."""

    def prepare(self) -> None:
        """Warm up; what is seen until :meth:`start` is thrown away."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> Recorded:
        """End the recording and hand it over."""
