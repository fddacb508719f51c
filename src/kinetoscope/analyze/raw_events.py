"""The rows that operators are made from, as arrays; where they come from is the business of engines and traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kinetoscope.trace.devices import DEVICE_NUMBERS
from kinetoscope.trace.vocabulary import MEMORY_EVENTS

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

CPU = DEVICE_NUMBERS["cpu"]


@dataclass
class RawEvents:
    """The rows of a recording that operators are made from; arrays of one length, in the recording's order.

    Times are nanoseconds after the window's start. ``linked_id`` is the number of the operator that caused a row (0: none).

    What only some questions need (numbers, scopes, shapes, stacks) is read when it is first asked for: ``load`` gives
    columns by their names.
    """

    names: list[str]
    """Distinct names; ``name`` holds indices into it."""
    name: Ints
    start_ns: Ints
    end_ns: Ints
    thread: Ints
    device_type: Ints
    device: Ints
    linked_id: Ints
    is_async: Bools
    is_annotation: Bools
    is_python: Bools
    is_hidden: Bools
    is_overhead: Bools
    bytes: Ints
    fallback_device_us: Floats | None = None
    """Device time that torch measured itself, with events instead of kernels (no CUPTI); None where kernels are known."""
    flops: Ints | None = None
    """FLOPs that the recorder counted itself, 0 where it knows no formula; None: not asked for."""
    formula_flops: Ints | None = None
    """FLOPs by our own formulas, -1 where none applies; None: not asked for, or already within ``flops``."""
    columns: dict[str, Any] = field(default_factory=dict)
    """The columns of :data:`LATER` that are there already."""
    load: Callable[[Sequence[str]], dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.name)

    @property
    def is_memory_event(self) -> Bools:
        """Allocations, frees, and allocations that failed."""
        codes = [code for code, name in enumerate(self.names) if name in MEMORY_EVENTS]
        return np.asarray(np.isin(self.name, codes), dtype=np.bool_)

    def read(self, *columns: str) -> None:
        """Read some columns of :data:`LATER` together, which is cheaper than one after the other."""
        missing = [column for column in columns if column not in self.columns]
        if missing:
            self.columns.update(dict.fromkeys(missing) if self.load is None else self.load(missing))

    def _later(self, column: str) -> Any:
        self.read(column)
        return self.columns[column]

    @property
    def own_id(self) -> Ints:
        """torch's correlation id of each row."""
        return np.asarray(self._later("own_id"))

    @property
    def scope(self) -> Ints:
        """at::RecordScope."""
        return np.asarray(self._later("scope"))

    @property
    def sequence_number(self) -> Ints:
        """Joins forward and backward operators; -1 for none."""
        return np.asarray(self._later("sequence_number"))

    @property
    def forward_thread(self) -> Ints:
        """Thread of a backward row's forward operator, counted as ``thread`` counts."""
        return np.asarray(self._later("forward_thread"))

    @property
    def shapes(self) -> TextColumn | None:
        """Input shapes as text; None: not recorded."""
        return cast("TextColumn | None", self._later("shapes"))

    @property
    def overloads(self) -> TextColumn | None:
        """Overload names; None: not recorded."""
        return cast("TextColumn | None", self._later("overloads"))

    @property
    def stacks(self) -> TextColumn | None:
        """Recorded stacks, frames innermost first joined by newlines; None: derived from the Python rows."""
        return cast("TextColumn | None", self._later("stacks"))

    @property
    def script_stacks(self) -> TextColumn | None:
        """Stacks within TorchScript, which has no Python rows; the empty text elsewhere. None: there are none at all."""
        return cast("TextColumn | None", self._later("script_stacks"))


LATER_INTS = ("own_id", "scope", "sequence_number", "forward_thread")
LATER_TEXTS = ("shapes", "overloads", "stacks", "script_stacks")
LATER = (*LATER_INTS, *LATER_TEXTS)
"""Columns of :class:`RawEvents` that are read when they are asked for."""


@dataclass
class TextColumn:
    """A dictionary-encoded column: ``codes`` index into ``values``."""

    values: list[str]
    codes: Ints

    @classmethod
    def encode(cls, texts: Sequence[str]) -> TextColumn:
        """Encode a list of texts; codes number them by first appearance."""
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        codes = np.fromiter(map(numbers.__getitem__, texts), dtype=np.int64, count=len(texts))
        return cls(list(numbers), codes)

    def __getitem__(self, row: int) -> str:
        return self.values[int(self.codes[row])]


def concatenate_raw(parts: Sequence[RawEvents]) -> RawEvents:
    """The rows of several windows, one after the other."""

    def text(columns: Sequence[TextColumn | None]) -> TextColumn | None:
        if any(column is None for column in columns):
            return None
        known = [column for column in columns if column is not None]
        starts = np.cumsum([0, *(len(column.values) for column in known)]).tolist()
        merged = TextColumn.encode([value for column in known for value in column.values])
        codes = [merged.codes[column.codes + first] for column, first in zip(known, starts, strict=False) if len(column.codes)]
        return TextColumn(merged.values, np.concatenate(codes) if codes else np.zeros(0, dtype=np.int64))

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        for part in parts:
            part.read(*wanted)
        values = {column: [getattr(part, column) for part in parts] for column in wanted}
        return {name: text(value) if name in LATER_TEXTS else np.concatenate(value) for name, value in values.items()}

    columns: dict[str, Any] = {}
    for column in fields(RawEvents):
        values = [getattr(part, column.name) for part in parts]
        if column.name not in ("names", "name", "columns", "load"):
            columns[column.name] = None if any(value is None for value in values) else np.concatenate(values)
    names = text([TextColumn(part.names, part.name) for part in parts])
    assert names is not None
    return RawEvents(names=names.values, name=names.codes, load=load, **columns)
