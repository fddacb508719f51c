"""From decoded events to the columns of the table, a piece of the file at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import attrgetter, eq, is_not
from typing import Any

import msgspec
import numpy as np
import polars as pl

from kinetoscope.formats.chrome import values as chrome_values
from kinetoscope.formats.chrome.arguments import Extras, Found, coalesce, rest_of_arguments
from kinetoscope.formats.chrome.events import ABSENT, Event, RareEvent
from kinetoscope.formats.chrome.ids import Ids
from kinetoscope.formats.chrome.names import TODAYS_CATEGORIES, Argument, arguments_of
from kinetoscope.formats.chrome.values import Bools, Ints, Numbering
from kinetoscope.trace import schema
from kinetoscope.trace.devices import DEVICE_NAMES
from kinetoscope.trace.issues import Issues

Raw = msgspec.Raw

# Longer than anything that was recorded: such lengths come from unsigned numbers below zero.
LONGEST_NS = 10 * 365 * 24 * 3600 * 10**9

_NO_ARGUMENTS: dict[str, Raw] = {}
# What viewers assume where nothing is said.
_BINDING = b'"e"'
_SCOPE = b'"t"'

_main = attrgetter("cat", "name", "pid", "tid", "dur", "args", "id", "bp", "s")
_phase = attrgetter("ph")


Piece = dict[str, pl.Series]
"""Columns of some rows by name, those that are null throughout left out; phases, names and categories as numbers of texts."""


class Builder:
    """Collects the columns of pieces and joins them at the end."""

    def __init__(self) -> None:
        """Begin with no piece."""
        self.ids = Ids()
        self.issues = Issues()
        self.metadata_events: list[Event] = []
        self.pieces: list[Piece] = []
        self.height = 0
        """Rows in the pieces."""
        self.earlier: list[pl.DataFrame] = []
        """Rows that come before the pieces."""
        self._texts = {name: Numbering() for name in ("phase", "name", "category")}
        self._keys = Numbering()

    @property
    def texts(self) -> dict[str, list[str | None]]:
        """The texts that the columns of phases, names and categories number, by column."""
        return {column: list(numbering) for column, numbering in self._texts.items()}

    def take(self, pieces: list[Piece], texts: Mapping[str, Sequence[str | None]]) -> None:
        """Take pieces that were made elsewhere, whose texts have numbers of their own."""
        here = {name: self._texts[name].codes(known, len(known)) for name, known in texts.items()}
        for piece in pieces:
            numbered = {name: pl.Series(here[name][piece[name].to_numpy()]) for name in texts}
            self.pieces.append({**piece, **numbered})
            self.height += len(piece["start_ns"])

    def add(self, events: list[Event]) -> None:
        """Take the events of one piece.

        Raises:
            UnicodeDecodeError: an undecoded value is not UTF-8; nothing was taken.
        """
        if not events:
            return
        issues = Issues()
        metadata: list[Event] = []
        if "M" in map(_phase, events):
            metadata = [event for event in events if event.ph == "M"]
            events = [event for event in events if event.ph != "M"]
        if events:
            kept = self._piece(events, issues)
            if kept is not None:
                self.pieces.append(kept)
                self.height += len(kept["start_ns"])
        self.metadata_events += metadata
        self.issues.take(issues)

    def _piece(self, events: list[Event], issues: Issues) -> Piece | None:
        phases: list[Any] = list(map(_phase, events))
        if None in phases or "" in phases:
            events, phases = _with_phase(events, issues)
        start, has_start = chrome_values.nanoseconds([event.ts for event in events])
        if not has_start.all():
            issues.found("events without a time", int((~has_start).sum()), self._place(events, ~has_start))
            kept = np.flatnonzero(has_start).tolist()
            events, phases, start = [events[row] for row in kept], [phases[row] for row in kept], start[kept]
        if not events:
            return None
        height = len(events)
        if "I" in phases:
            phases = ["i" if phase == "I" else phase for phase in phases]
        categories, names, pids, tids, durations, arguments, flow_ids, bindings, scopes = zip(*map(_main, events), strict=True)
        extras = Extras()
        _add_members(extras, "bp", bindings, phases, "f", _BINDING)
        _add_members(extras, "s", scopes, phases, "i", _SCOPE)
        if set(map(type, events)) != {Event}:
            for row, event in enumerate(events):
                if isinstance(event, RareEvent) and event.others:
                    extras.of(row).members.update({key: bytes(raw) for key, raw in event.others.items()})
        columns: dict[str, pl.Series] = {
            "start_ns": pl.Series(start),
            "process": self.ids.column(pids),
            "thread": self.ids.column(tids),
        }
        columns["duration_ns"] = self._durations(events, durations, phases, extras, issues)
        columns["flow_id"] = self._flow_ids(flow_ids, phases, extras)
        todays = self._todays(categories, extras)
        for column, values in (("phase", phases), ("name", names), ("category", todays)):
            columns[column] = pl.Series(self._texts[column].codes(values, height))
        columns.update(self._arguments(arguments, columns["category"].to_numpy(), phases, extras, height))
        return columns

    @staticmethod
    def _place(events: list[Event], rows: Bools) -> Callable[[], str]:
        """Say which event is the first of ``rows``."""

        def place() -> str:
            event = events[int(rows.argmax())]
            return f"{event.name!r} at {bytes(event.ts).decode('utf-8', 'replace')[:40] or 'no time'} us"

        return place

    def _durations(self, events: list[Event], durations: Sequence[Raw], phases: Sequence[str], extras: Extras,
                   issues: Issues) -> pl.Series:  # fmt: skip
        length, has_length = chrome_values.nanoseconds(durations)
        slices = np.fromiter(map(eq, phases, repeat("X")), dtype=bool, count=len(phases))
        negative, implausible, missing = (
            slices & (length < 0),
            slices & (length > LONGEST_NS),
            np.zeros(len(phases), dtype=bool),
        )
        for row in np.flatnonzero(slices & ~has_length).tolist():
            # A number that does not fit 64 bits of nanoseconds, or none.
            text = bytes(durations[row]).strip(b'"')
            of_its_kind = negative if text[:1] == b"-" else implausible if text[:1].isdigit() else missing
            of_its_kind[row] = True
        odd = negative | implausible
        for kind, rows in (("a negative", negative), ("an implausible", implausible)):
            issues.found(f"slices with {kind} duration", int(rows.sum()), self._place(events, rows))
        issues.found("slices without a duration", int(missing.sum()), self._place(events, missing))
        # What is no length stays readable in the arguments, and out of every sum.
        for row in np.flatnonzero((odd | ~slices | ~has_length) & _present(durations)).tolist():
            text = bytes(durations[row])
            if text:
                extras.of(row).members["dur"] = text
        valid = has_length & slices & ~odd
        return pl.select(pl.when(pl.Series(valid)).then(pl.Series(length))).to_series()

    def _flow_ids(self, flow_ids: Sequence[Raw], phases: Sequence[str], extras: Extras) -> pl.Series:
        height = len(phases)
        rows = np.flatnonzero(_present(flow_ids)).tolist()
        if not rows:
            return pl.repeat(None, height, dtype=pl.Int64, eager=True)
        column, odd = chrome_values.integers(chrome_values.texts([flow_ids[row] for row in rows]))
        for place in np.flatnonzero(odd).tolist():
            extras.of(rows[place]).members["id"] = bytes(flow_ids[rows[place]])
        return chrome_values.scatter(column, np.array(rows), height)

    def _todays(self, categories: Sequence[str | None], extras: Extras) -> Sequence[str | None]:
        old = set(categories) & TODAYS_CATEGORIES.keys()
        if not old:
            return categories
        for row, category in enumerate(categories):
            if category in old:
                extras.of(row).category = category
        return [TODAYS_CATEGORIES.get(category, category) if category else category for category in categories]

    def _arguments(self, arguments: Sequence[dict[str, Raw] | None], category: Ints, phases: Sequence[str],
                   extras: Extras, height: int) -> dict[str, pl.Series]:  # fmt: skip
        """Columns that stand in the arguments, and ``args`` for the rest.

        Rows are grouped by their list of keys (a few dozen lists make a trace), so that each key's values can be handled
        together.
        """
        filled = [one or _NO_ARGUMENTS for one in arguments]
        keys = self._keys.codes(map(tuple, filled), height).astype(np.int64)
        group = keys * (len(self._texts["category"]) + 1) + category
        if "E" in phases:
            # What the end of a slice says stays together; it is joined with its beginning later.
            group += 2**48 * np.fromiter(map("E".__eq__, phases), dtype=np.int64, count=height)
        order = np.argsort(group, kind="stable")
        bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))
        category_names = list(self._texts["category"])
        all_keys = list(self._keys)
        found: dict[Argument, Found] = {}
        rest: list[tuple[Ints, tuple[str, ...], list[Sequence[Raw]]]] = []
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = order[low:high]
            names = all_keys[keys[rows[0]]]
            if not names:
                continue
            known = arguments_of(category_names[category[rows[0]]])
            if phases[rows[0]] == "E":
                known = {}
            values = list(zip(*map(dict.values, map(filled.__getitem__, rows.tolist())), strict=True))
            left: list[tuple[str, Sequence[Raw]]] = []
            taken: set[str] = set()
            for name, raws in zip(names, values, strict=True):
                argument = known.get(name)
                if argument is None or argument.column in taken:
                    left.append((name, raws))
                else:
                    taken.add(argument.column)
                    found.setdefault(argument, Found()).add(rows, raws, name)
            if left:
                rest.append((rows, tuple(name for name, _ in left), [raws for _, raws in left]))
        columns: dict[str, pl.Series] = {}
        for argument, values_found in found.items():
            self._convert(argument, values_found, extras, columns, height)
        columns["args"] = rest_of_arguments(rest, extras, height)
        return columns

    def _convert(self, argument: Argument, found: Found, extras: Extras,
                 columns: dict[str, pl.Series], height: int) -> None:  # fmt: skip
        rows = found.rows()
        column, odd = _CONVERT[argument.kind](chrome_values.texts(found.raws))
        dtype = schema.SCHEMA[argument.column]
        if dtype in (pl.Int32, pl.Int8):
            narrow = column.cast(dtype, strict=False)
            odd = odd | narrow.is_null().to_numpy()
            column = narrow
        if odd.any():
            names = found.names()
            for place in np.flatnonzero(odd).tolist():
                extras.of(int(rows[place])).arguments[names[place]] = bytes(found.raws[place])
            column, rows = column.filter(pl.Series(~odd)), rows[~odd]
        scattered = chrome_values.scatter(column, rows, height)
        earlier = columns.get(argument.column)
        columns[argument.column] = scattered if earlier is None else coalesce(scattered, earlier)

    def frame(self) -> pl.DataFrame:
        """All pieces as one table, with the columns of the schema; the pieces are given up."""
        heights = [len(piece["start_ns"]) for piece in self.pieces]
        columns = [self._column(name, dtype, heights).alias(name) for name, dtype in schema.SCHEMA.items()]
        self.pieces, self.height = [], 0
        frame = pl.DataFrame(columns)
        if not self.earlier:
            return frame
        parts = [part.select(column for column in frame.columns if column in part.columns) for part in self.earlier]
        self.earlier = []
        joined = pl.concat([*parts, frame.select(parts[0].columns)])
        return schema.conform(joined)

    def _column(self, name: str, dtype: type[pl.DataType], heights: list[int]) -> pl.Series:
        if name == "id":
            return pl.int_range(sum(heights), eager=True)
        parts = [piece.pop(name, None) for piece in self.pieces]
        if all(part is None for part in parts):
            return pl.repeat(None, sum(heights), dtype=dtype, eager=True)
        filled = [
            pl.repeat(None, height, dtype=dtype, eager=True) if part is None else part
            for part, height in zip(parts, heights, strict=True)
        ]
        column = pl.concat(filled) if len(filled) > 1 else filled[0]
        if name in self._texts:
            column = pl.Series(list(self._texts[name]), dtype=pl.String).gather(column.cast(pl.UInt32))
        typed: pl.Series = column.cast(dtype)
        return typed


def _with_phase(events: list[Event], issues: Issues) -> tuple[list[Event], list[str]]:
    """The events that say, or let tell, of what kind they are: some writers leave the letter out of slices."""
    for event in events:
        if not event.ph and event.name is not None and event.dur is not ABSENT:
            event.ph = "X"
    kept = [event for event in events if event.ph]
    issues.found("events without a phase", len(events) - len(kept))
    return kept, [event.ph or "" for event in kept]


def _present(raws: Sequence[Raw]) -> Bools:
    return np.fromiter(map(is_not, raws, repeat(ABSENT)), dtype=bool, count=len(raws))


def _add_members(extras: Extras, key: str, raws: Sequence[Raw], phases: Sequence[str],
                 phase: str, default: bytes) -> None:  # fmt: skip
    """Keep members of a few events, except where they say the default."""
    for row in np.flatnonzero(_present(raws)).tolist():
        text = bytes(raws[row])
        if text != default or phases[row] != phase:
            extras.of(row).members[key] = text


def _device_types(column: pl.Series) -> tuple[pl.Series, Bools]:
    column = chrome_values.unquoted(column)
    return chrome_values.mapped(column, lambda text: DEVICE_NAMES.get(int(text)) if text.isdigit() and len(text) < 5 else None)


def frames(text: str) -> str:
    """A stack as the table has it, joined by newlines, from the text of a trace, joined by ``;`` or newlines."""
    if "\n" in text:
        return text.removesuffix("\n")
    return text.replace(";", "\n")


_CONVERT = {
    "int": chrome_values.integers,
    "list": chrome_values.lists,
    "text": chrome_values.strings,
    "stack": lambda column: chrome_values.strings(column, frames),
    "bool": chrome_values.booleans,
    "device_type": _device_types,
}
