"""The columns of a list of operators: one frozen set, each column with the kind of value that it holds.

What a value refers to decides how it changes when lists are cut or joined; it is said here, once for each column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

import numpy as np

from kinetoscope.analyze.raw_events import Bools, Floats, Ints


class Kind(Enum):
    """What the values of a column are."""

    VALUE = "value"
    """A fact of the event itself."""
    NAME = "name"
    """An index into the distinct names."""
    RAW_ROW = "raw row"
    """A row of the raw events, -1 for none."""
    POSITION = "position"
    """A position in the list itself, -1 for none."""


_VALUE, _NAME, _RAW_ROW, _POSITION = ({"kind": kind} for kind in Kind)


@dataclass(frozen=True, kw_only=True)
class OperatorColumns:
    """Arrays of one length, in the order of the list."""

    row: Ints = field(metadata=_RAW_ROW)
    """Each event's row among the raw events."""
    name: Ints = field(metadata=_NAME)
    is_memory: Bools = field(metadata=_VALUE)
    """True for memory that no operator covers, listed as events of its own."""
    memory_number: Ints = field(metadata=_VALUE)
    """Number of each memory event among them, -1 for the rest."""
    start_us: Floats = field(metadata=_VALUE)
    end_us: Floats = field(metadata=_VALUE)
    thread: Ints = field(metadata=_VALUE)
    device_type: Ints = field(metadata=_VALUE)
    is_async: Bools = field(metadata=_VALUE)
    cpu_memory_usage: Ints = field(metadata=_VALUE)
    device_memory_usage: Ints = field(metadata=_VALUE)
    parent: Ints = field(metadata=_POSITION)
    """Position of the event around each, -1 at the top."""
    python_parent: Ints = field(metadata=_RAW_ROW)
    """Raw row of the innermost Python call around each event, -1 if none."""

    def __len__(self) -> int:
        return len(self.row)

    def columns(self) -> dict[str, Any]:
        """The columns by name."""
        return {column.name: getattr(self, column.name) for column in COLUMNS}

    def taken(self, positions: Ints, parent: Ints) -> OperatorColumns:
        """The events at some positions.

        Args:
            positions: which, in their order.
            parent: position of the event around each, among those that are taken.
        """
        columns = {column.name: getattr(self, column.name)[positions] for column in COLUMNS}
        return OperatorColumns(**{**columns, "parent": parent})


COLUMNS = fields(OperatorColumns)


def joined_columns(parts: Sequence[OperatorColumns], names: Sequence[Ints], raw_sizes: Sequence[int]) -> dict[str, Any]:
    """The columns of one list after another; nothing refers across them.

    Args:
        parts: the lists.
        names: for each list the index that each of its names has now.
        raw_sizes: number of raw rows behind each list.
    """
    raw_starts = np.cumsum([0, *raw_sizes]).tolist()
    list_starts = np.cumsum([0, *map(len, parts)]).tolist()
    joined = {}
    for column in COLUMNS:
        arrays = [getattr(part, column.name) for part in parts]
        kind = column.metadata["kind"]
        if kind is Kind.NAME:
            arrays = [numbers[array] for numbers, array in zip(names, arrays, strict=True)]
        elif kind is not Kind.VALUE:
            starts = raw_starts if kind is Kind.RAW_ROW else list_starts
            arrays = [shifted(array, start) for array, start in zip(arrays, starts, strict=False)]
        joined[column.name] = np.concatenate(arrays)
    return joined


def shifted(references: Ints, by: int) -> Ints:
    """References to rows that now stand further behind; -1 stays."""
    return np.where(references >= 0, references + by, -1)
