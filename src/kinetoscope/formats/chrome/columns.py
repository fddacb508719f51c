"""From decoded events to the columns of the table, a piece of the file at a time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import attrgetter, eq, is_not
from typing import Any

import msgspec
import numpy as np
import polars as pl

from kinetoscope.formats.chrome import values as chrome_values
from kinetoscope.formats.chrome.names import (
    BESIDE,
    MEMBERS,
    ORIGINAL_CATEGORY,
    TODAYS_CATEGORIES,
    Argument,
    arguments_of,
)
from kinetoscope.formats.chrome.values import Bools, Ints, Numbering
from kinetoscope.trace import schema
from kinetoscope.trace.devices import DEVICE_NAMES
from kinetoscope.trace.issues import Issues
from kinetoscope.trace.vocabulary import DEVICE_CATEGORIES, FRAME_CATEGORIES, MEMORY_CATEGORY

Raw = msgspec.Raw
Id = int | str | float | None

ABSENT = Raw()
_NO_ARGUMENTS: dict[str, Raw] = {}

# Longer than anything that was recorded: such lengths come from unsigned numbers below zero.
LONGEST_NS = 10 * 365 * 24 * 3600 * 10**9


class Event(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One event as it stands in the file, with the members that profilers write. Arguments stay undecoded."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Id = None
    tid: Id = None
    ts: Raw = ABSENT
    dur: Raw = ABSENT
    args: dict[str, Raw] | None = None
    id: Raw = ABSENT
    bp: Raw = ABSENT
    s: Raw = ABSENT


class RareEvent(Event, forbid_unknown_fields=True, gc=False):
    """An event with members that have no column."""

    others: dict[str, Raw] = {}


_KNOWN = frozenset(Event.__struct_fields__)
# What viewers assume where nothing is said.
_BINDING = b'"e"'
_SCOPE = b'"t"'

_main = attrgetter("cat", "name", "pid", "tid", "dur", "args", "id", "bp", "s")
_phase = attrgetter("ph")


def from_members(members: Mapping[str, Raw]) -> Event:
    """An event from members whose types are not the usual ones, or that nobody knows."""
    event = RareEvent()
    others: dict[str, Raw] = {}
    for key, raw in members.items():
        if key not in _KNOWN:
            others[key] = raw
        elif key in ("ph", "cat", "name"):
            _set(event, key, raw, str | None, others, as_text=key != "ph")
        elif key in ("pid", "tid"):
            _set(event, key, raw, Id, others, as_text=True)
        elif key == "args":
            _set(event, key, raw, dict[str, Raw] | None, others)
        else:
            setattr(event, key, raw)
    event.others = others
    return event


def _set(event: Event, key: str, raw: Raw, type_: Any, others: dict[str, Raw], as_text: bool = False) -> None:
    try:
        setattr(event, key, msgspec.json.decode(raw, type=type_))
    except msgspec.DecodeError:
        # A name that is a number or a list: shown as its text, and kept as it was.
        others[key] = raw
        if as_text:
            setattr(event, key, bytes(raw).decode("utf-8", "replace"))


class Ids:
    """Process and thread ids as 64-bit numbers.

    Text that is a decimal number is that number; other text gets a negative number made from its checksum, far below any
    real id, so that the same text has the same number in every trace.
    """

    def __init__(self) -> None:
        """Begin with no texts."""
        self.text_ids: dict[str, str] = {}
        self._known: dict[Any, int | None] = {None: None}
        self._taken: dict[int, str] = {}

    def number(self, value: Any) -> int | None:
        """The number of one id."""
        try:
            return self._known[value]
        except KeyError:
            number = self._known[value] = self._new(value)
            return number

    def column(self, values: Sequence[Any]) -> pl.Series:
        """Numbers of many ids."""
        distinct = set(values)
        for value in distinct:
            self.number(value)
        numbers = map(self._known.__getitem__, values)
        if None in distinct:
            return pl.Series(list(numbers), dtype=pl.Int64)
        return pl.Series(np.fromiter(numbers, dtype=np.int64, count=len(values)))

    def _new(self, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        text = value if isinstance(value, str) else str(value)
        if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20:
            number = int(text)
            if str(number) == text and -(2**63) <= number < 2**63:
                return number
        number = -(2**32) - zlib.crc32(text.encode("utf-8", "surrogatepass"))
        while self._taken.setdefault(number, text) != text:
            number -= 1
        self.text_ids[str(number)] = text
        return number


class Builder:
    """Collects the columns of pieces and joins them at the end."""

    def __init__(self) -> None:
        """Begin with no piece."""
        self.ids = Ids()
        self.issues = Issues()
        self.metadata_events: list[Event] = []
        self.pieces: list[dict[str, pl.Series]] = []
        self._texts = {name: Numbering() for name in ("phase", "name", "category")}
        self._keys = Numbering()

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
        self.metadata_events += metadata
        self.issues.take(issues)

    def _piece(self, events: list[Event], issues: Issues) -> dict[str, pl.Series] | None:
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
        extras = _Extras()
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

    def _durations(self, events: list[Event], durations: Sequence[Raw], phases: Sequence[str], extras: _Extras,
                   issues: Issues) -> pl.Series:  # fmt: skip
        length, has_length = chrome_values.nanoseconds(durations)
        slices = np.fromiter(map(eq, phases, repeat("X")), dtype=bool, count=len(phases))
        negative, absurd, missing = slices & (length < 0), slices & (length > LONGEST_NS), np.zeros(len(phases), dtype=bool)
        for row in np.flatnonzero(slices & ~has_length).tolist():
            # A number that does not fit 64 bits of nanoseconds, or none.
            text = bytes(durations[row]).strip(b'"')
            of_its_kind = negative if text[:1] == b"-" else absurd if text[:1].isdigit() else missing
            of_its_kind[row] = True
        odd = negative | absurd
        for kind, rows in (("a negative", negative), ("an absurd", absurd)):
            issues.found(f"slices with {kind} duration", int(rows.sum()), self._place(events, rows))
        issues.found("slices without a duration", int(missing.sum()), self._place(events, missing))
        # What is no length stays readable in the arguments, and out of every sum.
        for row in np.flatnonzero((odd | ~slices | ~has_length) & _present(durations)).tolist():
            text = bytes(durations[row])
            if text:
                extras.of(row).members["dur"] = text
        valid = has_length & slices & ~odd
        return pl.select(pl.when(pl.Series(valid)).then(pl.Series(length))).to_series()

    def _flow_ids(self, flow_ids: Sequence[Raw], phases: Sequence[str], extras: _Extras) -> pl.Series:
        height = len(phases)
        rows = np.flatnonzero(_present(flow_ids)).tolist()
        if not rows:
            return pl.repeat(None, height, dtype=pl.Int64, eager=True)
        column, odd = chrome_values.integers(chrome_values.texts([flow_ids[row] for row in rows]))
        for place in np.flatnonzero(odd).tolist():
            extras.of(rows[place]).members["id"] = bytes(flow_ids[rows[place]])
        return chrome_values.scatter(column, np.array(rows), height)

    def _todays(self, categories: Sequence[str | None], extras: _Extras) -> Sequence[str | None]:
        old = set(categories) & TODAYS_CATEGORIES.keys()
        if not old:
            return categories
        for row, category in enumerate(categories):
            if category in old:
                extras.of(row).category = category
        return [TODAYS_CATEGORIES.get(category, category) if category else category for category in categories]

    def _arguments(self, arguments: Sequence[dict[str, Raw] | None], category: Ints, phases: Sequence[str],
                   extras: _Extras, height: int) -> dict[str, pl.Series]:  # fmt: skip
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
        found: dict[Argument, _Found] = {}
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
                    found.setdefault(argument, _Found()).add(rows, raws, name)
            if left:
                rest.append((rows, tuple(name for name, _ in left), [raws for _, raws in left]))
        columns: dict[str, pl.Series] = {}
        for argument, values_found in found.items():
            self._convert(argument, values_found, extras, columns, height)
        columns["args"] = _rest(rest, extras, height)
        return columns

    def _convert(self, argument: Argument, found: _Found, extras: _Extras,
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
        columns[argument.column] = scattered if earlier is None else _coalesce(scattered, earlier)

    def frame(self) -> pl.DataFrame:
        """All pieces as one table, with the columns of the schema; the pieces are given up."""
        heights = [len(piece["start_ns"]) for piece in self.pieces]
        columns = [self._column(name, dtype, heights).alias(name) for name, dtype in schema.SCHEMA.items()]
        self.pieces = []
        return pl.DataFrame(columns)

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


def _add_members(extras: _Extras, key: str, raws: Sequence[Raw], phases: Sequence[str],
                 phase: str, default: bytes) -> None:  # fmt: skip
    """Keep members of a few events, except where they say the default."""
    for row in np.flatnonzero(_present(raws)).tolist():
        text = bytes(raws[row])
        if text != default or phases[row] != phase:
            extras.of(row).members[key] = text


class _Found:
    """Values of one argument, gathered over the groups of a piece."""

    def __init__(self) -> None:
        self._rows: list[Ints] = []
        self._names: list[tuple[str, int]] = []
        self.raws: list[Raw] = []

    def add(self, rows: Ints, raws: Sequence[Raw], name: str) -> None:
        self._rows.append(rows)
        self._names.append((name, len(raws)))
        self.raws.extend(raws)

    def rows(self) -> Ints:
        return np.concatenate(self._rows)

    def names(self) -> list[str]:
        return [name for name, count in self._names for _ in range(count)]


@dataclass
class _Extra:
    """What a row says beside its columns and its ordinary arguments."""

    members: dict[str, bytes] = field(default_factory=dict)
    """Members of the event without a column."""
    arguments: dict[str, bytes] = field(default_factory=dict)
    """Arguments whose value does not fit their column."""
    category: str | None = None
    """The category's name in old traces."""


class _Extras(dict[int, _Extra]):
    """Rows that have something extra."""

    def of(self, row: int) -> _Extra:
        extra = self.get(row)
        if extra is None:
            extra = self[row] = _Extra()
        return extra


def _coalesce(first: pl.Series, second: pl.Series) -> pl.Series:
    return pl.select(pl.coalesce(first, second)).to_series()


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


def _rest(groups: list[tuple[Ints, tuple[str, ...], list[Sequence[Raw]]]], extras: _Extras,
          height: int) -> pl.Series:  # fmt: skip
    """The column ``args``: for each row a JSON object of what has no column."""
    pieces: list[Any] = []
    rows: list[Ints] = []
    for group_rows, names, values in groups:
        rows.append(group_rows)
        keys = [msgspec.json.encode(name) + b":" for name in names]
        fronts = [b"{" + keys[0], *(b"," + key for key in keys[1:])]
        # {"key": value, ... } of every row in turn: the same texts between the values of each row.
        columns = chain.from_iterable(zip(map(repeat, fronts), values, strict=True))
        pieces.extend(chain.from_iterable(zip(*columns, repeat(b"}\x1e"), strict=False)))
    if pieces:
        pieces[-1] = b"}"
        column = chrome_values.scatter(chrome_values.split(b"".join(pieces)), np.concatenate(rows), height)
    else:
        column = pl.repeat(None, height, dtype=pl.String, eager=True)
    if not extras:
        return column
    odd = np.array(sorted(extras))
    texts = [_with_extras(text, extras[row]) for text, row in zip(column.gather(odd).to_list(), odd.tolist(), strict=True)]
    added = chrome_values.scatter(pl.Series(texts, dtype=pl.String), odd, height)
    return _coalesce(added, column)


def _with_extras(text: str | None, extra: _Extra) -> str:
    """Arguments with those that fit no column, and with the members of the event, last and in one order."""
    members: dict[str, Any] = {}
    if text and f'"{MEMBERS}":' in text:
        # Written by us and read again: what has no place beside the arguments stands among them.
        arguments = msgspec.json.decode(text, type=dict[str, Raw])
        earlier = arguments.pop(MEMBERS, None)
        if earlier is not None:
            try:
                members = dict(msgspec.json.decode(earlier, type=dict[str, Raw]))
            except msgspec.ValidationError:
                members = {MEMBERS: earlier}
        text = msgspec.json.encode(arguments).decode()
    parts: list[str] = [text[1:-1]] if text and text != "{}" else []
    if extra.category is not None and f'"{ORIGINAL_CATEGORY}":' not in (text or ""):
        parts.append(f"{_json(ORIGINAL_CATEGORY)}:{_json(extra.category)}")
    # In an order of its own, so that it does not depend on other rows and is the same when read again.
    parts += [f"{_json(key)}:{extra.arguments[key].decode()}" for key in sorted(extra.arguments)]
    members.update(extra.members)
    if members:
        ordered = sorted(members, key=lambda key: BESIDE.get(key, -1))
        inner = ",".join(f"{_json(key)}:{bytes(members[key]).decode()}" for key in ordered)
        parts.append(f"{_json(MEMBERS)}:{{{inner}}}")
    return "{" + ",".join(parts) + "}"


def _json(value: str) -> str:
    return msgspec.json.encode(value).decode()


def finish(frame: pl.DataFrame, device_type: str, rank: int | None) -> pl.DataFrame:
    """Fill what follows from other columns: where a row lies, and its rank."""
    on_device = pl.col("category").is_in(DEVICE_CATEGORIES).fill_null(False) & pl.col("phase").is_in(["X", "i"])
    is_memory = (pl.col("category") == MEMORY_CATEGORY).fill_null(False)
    on_host = pl.col("phase").is_in(["X", "i", "C"]) & ~pl.col("category").is_in(FRAME_CATEGORIES).fill_null(False)
    asked = pl.col("args").fill_null("")
    number = pl.col("process").cast(pl.Int32, strict=False)
    return frame.with_columns(
        device_type=pl.when(on_device)
        .then(pl.lit(device_type))
        .when(is_memory)
        .then("device_type")
        .when(on_host & pl.col("category").is_not_null())
        .then(pl.lit("cpu")),
        # Rows drawn for a device say so only by where they stand.
        device=pl.when(on_device & ~asked.str.contains('"device":', literal=True))
        .then(pl.coalesce("device", pl.when(number >= 0).then(number)))
        .when(on_device | (pl.col("device") >= 0))
        .then("device"),
        stream=pl.when(on_device & ~asked.str.contains('"stream":', literal=True))
        .then(pl.coalesce("stream", pl.when(pl.col("thread") >= 0).then("thread")))
        .otherwise("stream"),
        rank=pl.lit(rank, dtype=pl.Int32) if frame["rank"].null_count() == frame.height else pl.col("rank"),
    )
