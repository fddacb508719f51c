"""Kineto's (Chrome's) JSON into the table: in bounded pieces, exact, whatever the file's faults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import polars as pl

from kinetoscope.common.collector import collector_paused
from kinetoscope.common.user_warning import warn_user
from kinetoscope.formats import sources
from kinetoscope.formats.chrome import metadata as chrome_metadata
from kinetoscope.formats.chrome.columns import Builder, Event, finish, from_members
from kinetoscope.formats.chrome.repair import repair_object
from kinetoscope.trace.errors import TraceError
from kinetoscope.trace.issues import Issues
from kinetoscope.trace.links import step_numbers
from kinetoscope.trace.metadata import Metadata
from kinetoscope.trace.nesting import nested
from kinetoscope.trace.trace import Trace

Raw = msgspec.Raw

PIECE_BYTES = 2 << 20
"""Text that is decoded at a time: enough to make columns cheaply, little enough to stay in memory caches."""

LARGEST_EVENT_BYTES = 1 << 29
"""No event is longer; what seems so is no trace."""

_TYPED = msgspec.json.Decoder(list[Event])
_MEMBERS = msgspec.json.Decoder(list[dict[str, Raw]])
_VALUES = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])

_EVENTS = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*(\[|null)')
_EVENT_KEY = rb'"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:'
_CUT = re.compile(rb"\}\s*,\s*(?=\{\s*" + _EVENT_KEY + rb")")
_ANY_CUT = re.compile(rb"\}\s*,\s*(?=\{)")
_EVENT_START = re.compile(r'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:')
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_PLACE = re.compile(r"\(byte (\d+)\)")
# After so many lost events in a piece, less is tried for each further one: time must not grow with the damage.
_MOST_FAILURES = 20
# What may stand behind the end of a file: some disks leave zeros.
_BLANK = b"\x00 \t\r\n"
# A file has one list of events; more than this are not looked for.
_MOST_LISTS = 100
# Without these, an object with no events is no trace.
_KINETO_MEMBERS = frozenset(
    {"schemaVersion", "deviceProperties", "baseTimeNanoseconds", "distributedInfo", "displayTimeUnit", "traceName"}
)
# A member that stands alone on a line: a plain value, and nothing after it that a repair would be needed for.
_LINE = re.compile(r'"(\w[\w .]{0,100})"\s*:\s*("(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?|\[\]|true|false|null)\s*,?\s*(?=[\n}]|$)')


def read_source(source: sources.Source) -> Trace:
    """Read a Kineto or Chrome trace: an object with ``traceEvents`` or a bare list.

    What can be read is read. Faults are repaired or left out, and counted in ``trace.issues``; one warning names them.

    Raises:
        TraceError: the source holds no trace; the message says what it looks like.
    """
    return _read(source.blocks(), source.name, source.issues)


def read_chrome(path: str | os.PathLike[str]) -> Trace:
    """Read a Kineto or Chrome trace from a file, plain or compressed; see :func:`read_source`.

    Raises:
        FileNotFoundError: there is no such file.
        TraceError: the file holds no trace; the message says what it looks like.
    """
    return read_source(sources.Source(os.fspath(path)))


def parse_chrome(text: bytes, name: str) -> Trace:
    """Read a trace from the text of its file; ``name`` stands in messages. See :func:`read_source`."""
    return _read(iter([text]), name, Issues())


def parse_metadata(text: bytes, name: str) -> Metadata:
    """Read only what a file says about the whole trace, its events left unread; ``name`` stands in messages.

    Nothing of Polars is used.

    Raises:
        TraceError: the text holds no trace.
    """
    file = _File(iter([text]), name)
    file.read()
    metadata, _ = chrome_metadata.decode_members(file.members, file.issues)
    return chrome_metadata.with_names(metadata, file.builder.metadata_events, file.builder.ids)


def _read(blocks: Iterable[bytes], name: str, issues: Issues) -> Trace:
    with collector_paused():
        file = _File(iter(blocks), name)
        file.read()
        issues.take(file.issues)
        trace = _trace(file, issues)
    if trace.issues:
        listed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(trace.issues.items()))
        warn_user(f"{name}: read with faults: {listed}")
    return trace


def _trace(file: _File, issues: Issues) -> Trace:
    builder = file.builder
    metadata, own = chrome_metadata.decode_members(file.members, issues)
    metadata = chrome_metadata.with_names(metadata, builder.metadata_events, builder.ids)
    frame = builder.frame()
    if own.derived_flows:
        derived = pl.col("category").is_in(["ac2g", "fwdbwd"]).fill_null(False) & pl.col("phase").is_in(["s", "f"])
        frame = frame.filter(~derived)
        frame = frame.with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))
    if frame["phase"].is_in(["B", "E"]).any():
        frame = _join_halves(frame, issues)
    frame = finish(frame, _device_type(frame, metadata.options.get("use_device")), metadata.rank)
    frame = nested(frame)
    steps = metadata.steps or step_numbers(frame["name"])
    metadata = msgspec.structs.replace(metadata, text_ids=builder.ids.text_ids, steps=steps)
    if not frame.height:
        issues.found("no events")
    return Trace(frame, metadata, dict(issues))


def _device_type(frame: pl.DataFrame, use_device: Any) -> str:
    """The kind of device that a trace's device rows ran on; AMD's calls itself cuda in torch."""
    if isinstance(use_device, str):
        return use_device
    for category in frame["category"].drop_nulls().unique(maintain_order=True).to_list():
        kind = category.split("_")[0]
        if kind in ("mtia", "xpu", "hpu"):
            return str(kind)
        if kind == "privateuse1":
            return "privateuseone"
    return "cuda"


def _join_halves(frame: pl.DataFrame, issues: Issues) -> pl.DataFrame:
    """Make slices of begin and end events (``B``, ``E``), innermost first on each thread, as Chrome pairs them."""
    halves = frame.filter(pl.col("phase").is_in(["B", "E"])).sort("process", "thread", "start_ns", maintain_order=True)
    open_slices: list[tuple[int, int, str | None]] = []
    lane: tuple[Any, Any] | None = None
    durations: dict[int, int] = {}
    arguments: dict[int, str] = {}
    ended: set[int] = set()
    columns = ("id", "phase", "process", "thread", "start_ns", "args")
    for row, phase, process, thread, start, args in zip(*(halves[name].to_list() for name in columns), strict=True):
        if (process, thread) != lane:
            lane = (process, thread)
            open_slices.clear()
        if phase == "B":
            open_slices.append((row, start, args))
        elif open_slices:
            first, begin, begin_args = open_slices.pop()
            durations[first] = start - begin
            ended.add(row)
            if args:
                arguments[first] = _joined(begin_args, args)
    lonely = halves.height - 2 * len(durations)
    issues.found("begins without an end, ends without a begin", lonely)
    rows = frame["id"].to_list()
    frame = frame.with_columns(
        phase=pl.when(pl.col("id").is_in(list(durations))).then(pl.lit("X")).otherwise("phase"),
        duration_ns=pl.coalesce(pl.Series([durations.get(row) for row in rows], dtype=pl.Int64), "duration_ns"),
        args=pl.coalesce(pl.Series([arguments.get(row) for row in rows], dtype=pl.String), "args"),
    ).filter(~pl.col("id").is_in(list(ended)))
    return frame.with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))


def _joined(first: str | None, second: str) -> str:
    merged = _OBJECT.decode(first or "{}") | _OBJECT.decode(second)
    return msgspec.json.encode(merged).decode()


class _File:
    """Walks through the text: the members before the events, the events in pieces, the members after them."""

    def __init__(self, blocks: Iterator[bytes], name: str) -> None:
        self.blocks = blocks
        self.name = name
        self.builder = Builder()
        self.members: dict[str, Raw] = {}
        self.at_end = False

    @property
    def issues(self) -> Issues:
        return self.builder.issues

    def _more(self, text: bytes, wanted: int) -> bytes:
        """``text`` with what follows it, until it is ``wanted`` bytes long or the file ends."""
        parts = [text]
        size = len(text)
        while size < wanted:
            block = next(self.blocks, None)
            if block is None:
                self.at_end = True
                break
            parts.append(block)
            size += len(block)
        return b"".join(parts) if len(parts) > 1 else text

    def read(self) -> None:
        """Read the whole file.

        Raises:
            TraceError: there is no trace in it.
        """
        text = self._more(b"", 4096).removeprefix(b"\xef\xbb\xbf")
        start = text.lstrip()
        if start[:1] == b"[":
            rest = (self._events(start[1:], in_object=False) or b"").strip(_BLANK)
            if rest:
                self.issues.found("text after the end", place=_shown(rest))
            if not self.builder.pieces and not self.builder.metadata_events and self.issues["values that are no events"]:
                raise TraceError(f"{self.name} is a JSON list, but not of events: {_shown(start)}")
        elif start[:1] == b"{":
            self._object(text)
        else:
            raise TraceError(f"{self.name} holds no trace: {sources.describe(text)}")

    def _object(self, text: bytes) -> None:
        wanted = 1 << 16
        while True:
            found = list(islice(_EVENTS.finditer(text), 16))
            match = next((one for one in found if _is_member(text, one)), None)
            if match is None and found and (self.at_end or len(text) > found[0].end() + (1 << 17)):
                # The members before it cannot be read; they are repaired below.
                match = found[0]
            if match or self.at_end:
                break
            text = self._more(text, max(wanted, len(text) + 1))
            wanted *= 2
        if match is None:
            self._no_events(text)
            return
        self._members(text[: match.start()].rstrip().removesuffix(b",") + b"}")
        if match.group(1) == b"null":
            self._after(self._more(text, 1 << 40)[match.end() :], may_list=False)
            return
        text = text[match.end() :]
        for further in range(_MOST_LISTS + 1):
            after = self._events(text, in_object=True)
            rest = None if after is None else self._after(after, may_list=further < _MOST_LISTS)
            if rest is None:
                return
            self.issues.found("further lists of events", place=_shown(rest.strip()))
            text = rest

    def _no_events(self, text: bytes) -> None:
        self._members(text)
        if not self.members.keys() & _KINETO_MEMBERS:
            keys = ", ".join(list(self.members)[:8])
            what = (
                "an execution trace of torch" if "nodes" in self.members else f"a JSON object with {keys or 'nothing inside'}"
            )
            raise TraceError(f"{self.name} holds no trace events: it looks like {what}")

    def _members(self, text: bytes) -> None:
        """Take the top-level members of an object."""
        try:
            self.members.update(_OBJECT.decode(text))
            return
        except (msgspec.DecodeError, RecursionError):
            pass
        readable = self._utf8(text)
        repaired = repair_object(readable, readable.find("{"))
        if repaired is not None:
            try:
                self.members.update(_OBJECT.decode(repaired.text))
                self.issues.take(repaired.changes, "the members of the file")
                rest = readable[repaired.end :].strip(_BLANK.decode())
                if rest:
                    self.issues.found("text after the end", place=_shown(rest.encode()))
                return
            except (msgspec.DecodeError, RecursionError):
                pass
        self._lines(readable)

    def _lines(self, text: str) -> None:
        """Members of an object that is beyond repair: those that stand alone on a line, as Kineto writes them."""
        for match in _LINE.finditer(text):
            try:
                self.members[match.group(1)] = Raw(msgspec.json.encode(msgspec.json.decode(match.group(2))))
            except msgspec.DecodeError:
                continue
        self.issues.found("unreadable metadata", place="the members of the file")

    def _utf8(self, text: bytes) -> str:
        readable = text.decode("utf-8", "replace")
        added = readable.count("\ufffd") - text.count("\ufffd".encode())
        self.issues.found("invalid UTF-8", added, lambda: f"near {_around(readable)!r}")
        return readable

    def _after(self, text: bytes, may_list: bool) -> bytes | None:
        """Take the members after the events: ``, "key": value }``.

        Returns:
            What follows the bracket of a further list of events, if there is one: decoding would keep only the last.
        """
        if not text.strip(_BLANK):
            self.issues.found("truncated", place="after the events")
            return None
        body = b"{" + text.lstrip(b", \t\r\n")
        if body.strip(_BLANK) == b"{}":
            return None
        if may_list:
            lists = (one for one in islice(_EVENTS.finditer(body), 16) if one.group(1) == b"[")
            match = next((one for one in lists if _is_member(body, one)), None)
            if match is not None:
                self._members(body[: match.start()].rstrip().removesuffix(b",") + b"}")
                return body[match.end() :]
        self._members(body)
        return None

    def _events(self, text: bytes, in_object: bool) -> bytes | None:
        """Take the events of the list that ``text`` begins inside of.

        Returns:
            What follows the list; None if it never ends.
        """
        wanted = PIECE_BYTES
        while True:
            text = self._more(text, wanted)
            if self.at_end:
                end = self._last_piece(text, in_object)
                break
            end, place = self._piece(text, may_grow=wanted < 8 * PIECE_BYTES)
            if end is not None:
                break
            if place == 0:
                # No event ends in it, or none that can be told from what stands inside of one.
                if len(text) > LARGEST_EVENT_BYTES:
                    raise TraceError(f"{self.name} holds no trace: no event ends within {len(text) >> 20} MiB")
                wanted = 2 * len(text)
                continue
            wanted = PIECE_BYTES
            text = text[place:]
        if end is None:
            # The list never ends.
            self.issues.found("truncated", place=lambda: f"after {_shown(text[-60:].strip())}")
            return None
        return self._more(text[end:], 1 << 40)

    def _piece(self, text: bytes, may_grow: bool) -> tuple[int | None, int]:
        """Take as many events as can be told apart in a text that goes on.

        Returns:
            The place after the end of the list, None if the list goes on; and the place of the first event not taken.
        """
        cuts = _last_cuts(text)
        for stop, next_start in cuts:
            data = b"[" + text[:stop] + b"]"
            try:
                self.builder.add(self._decoded(data))
                return None, next_start
            except msgspec.DecodeError as error:
                end = _end_of_list(text, data, error)
                if end is not None:
                    return self._last_piece(text, in_object=True, end=end), 0
                if not _is_unfinished(data, error):
                    break
            except (UnicodeDecodeError, RecursionError):
                break
        else:
            # Every boundary tried lies inside an event.
            if may_grow or not cuts:
                return None, 0
        stop, next_start = cuts[0]
        return self._repaired(text[:stop], is_last=False), next_start

    def _last_piece(self, text: bytes, in_object: bool, end: int | None = None) -> int | None:
        """Take the events of a text that holds the end of the list, or of the file.

        Returns:
            The place after the end of the list, None if it was not found.
        """
        if end is None:
            end = _likely_end(text, in_object)
        while True:
            data = b"[" + (text if end is None else text[: end - 1]) + b"]"
            try:
                self.builder.add(self._decoded(data))
                return end
            except msgspec.DecodeError as error:
                before = _end_of_list(text, data, error)
                if before is not None and (end is None or before < end):
                    end = before
                    continue
            except (UnicodeDecodeError, RecursionError):
                pass
            return self._repaired(text, is_last=True)

    def _decoded(self, data: bytes) -> list[Event]:
        try:
            return _TYPED.decode(data)
        except msgspec.ValidationError:
            pass
        try:
            return [from_members(members) for members in _MEMBERS.decode(data)]
        except msgspec.ValidationError:
            events = []
            for raw in _VALUES.decode(data):
                try:
                    events.append(from_members(_OBJECT.decode(raw)))
                except msgspec.ValidationError:
                    self.issues.found("values that are no events", place=_shown(bytes(raw)))
            return events

    def _repaired(self, text: bytes, is_last: bool) -> int | None:
        """Take the events of a piece that is no valid JSON, one at a time."""
        readable = self._utf8(text)
        starts = _event_starts(readable)
        events: list[Event] = []
        place = 0
        end: int | None = None
        was_lost = False
        failures = 0
        for number, start in enumerate(starts):
            if start < place:
                # Inside an event that was taken already.
                continue
            between = "," if was_lost else readable[place:start].strip()
            was_lost = False
            if between not in ("", ",") or (between == "" and events):
                kind = "missing commas" if between == "" else "unreadable events"
                self.issues.found(kind, place=f"before {readable[start : start + 60]!r}")
            next_start = starts[number + 1] if number + 1 < len(starts) else len(readable)
            event, stop = self._event(readable, start, next_start)
            for further in (2, 3, 5, 9):
                # What looked like the next event may stand inside this one.
                if event is not None or failures > _MOST_FAILURES or number + further > len(starts):
                    break
                later = starts[number + further] if number + further < len(starts) else len(readable)
                event, stop = self._event(readable, start, later)
            if event is None:
                stop = next_start
                failures += 1
            if event is not None:
                events.append(event)
            elif is_last and next_start == len(readable):
                # Cut off in the middle: the list's end was not reached.
                self.issues.found("unreadable events", place=repr(readable[start : start + 60]))
                place = len(readable)
                break
            else:
                self.issues.found("unreadable events", place=repr(readable[start : start + 60]))
                was_lost = True
            place = stop
            after = readable[place : place + 4096].lstrip()
            if after[:1] == "]" and (is_last or not after[1:].lstrip(" \r\n\t").startswith(("{", ",{"))):
                end = readable.index("]", place) + 1
                break
        if is_last and end is None:
            close = re.compile(r"\s*,?\s*\]").match(readable, place)
            if close:
                end = close.end()
        self.builder.add(events)
        return None if end is None else len(readable[:end].encode()) if readable.isascii() else _byte_place(text, readable, end)

    def _event(self, text: str, start: int, stop: int) -> tuple[Event | None, int]:
        """The event at ``start``, looked for before ``stop``, and where it ends."""
        span = text[start:stop].rstrip().removesuffix(",")
        try:
            return self._one(span), start + len(span)
        except (msgspec.DecodeError, RecursionError):
            pass
        repaired = repair_object(span)
        if repaired is None:
            return None, stop
        try:
            event = self._one(repaired.text)
        except (msgspec.DecodeError, RecursionError):
            return None, stop
        self.issues.take(repaired.changes, repr(span[:100]))
        return event, start + repaired.end

    def _one(self, text: str) -> Event:
        try:
            return msgspec.json.decode(text, type=Event)
        except msgspec.ValidationError:
            return from_members(_OBJECT.decode(text))


def _byte_place(text: bytes, readable: str, end: int) -> int:
    """The place in the bytes of a place in the text, which may have replaced some of them."""
    bracket = readable[:end].count("]")
    place = -1
    for _ in range(bracket):
        place = text.index(b"]", place + 1)
    return place + 1


def _is_member(text: bytes, match: re.Match[bytes]) -> bool:
    """Tell whether ``"traceEvents"`` stands at the top level, not inside a member's value."""
    try:
        _OBJECT.decode(text[: match.start()] + b'"":0}')
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _end_of_list(text: bytes, data: bytes, error: msgspec.DecodeError) -> int | None:
    """The place after the bracket that ends the list, if decoding ``[`` + ``text`` failed because something follows it."""
    match = _TRAILING.search(str(error))
    if match is None:
        return None
    # Bytes are counted from one, and from the bracket put before.
    end = len(text[: int(match.group(1)) - 2].rstrip())
    return end if text[end - 1 : end] == b"]" and end < len(data) - 2 else None


def _is_unfinished(data: bytes, error: msgspec.DecodeError) -> bool:
    """Tell whether decoding failed only at the end: the text was cut inside an event, not faulty."""
    message = str(error)
    match = _PLACE.search(message)
    return "truncated" in message or (match is not None and int(match.group(1)) >= len(data) - 1)


def _last_cuts(text: bytes) -> list[tuple[int, int]]:
    """Boundaries between two events, the last first: the end of the one and the start of the other.

    Some may lie inside an event, in a list of objects or in a text.
    """
    for pattern in (_CUT, _ANY_CUT):
        window = 1 << 16
        while True:
            low = max(0, len(text) - window)
            found = [(match.start() + 1, match.end()) for match in pattern.finditer(text, low)]
            if found or low == 0:
                break
            window *= 8
        if found:
            return [found[-back] for back in (1, 2, 5, 20, 100, 500) if back <= len(found)]
    return []


def _likely_end(text: bytes, in_object: bool) -> int | None:
    """The place after the bracket that ends the list, if what follows it can be members or nothing."""
    place = text.rfind(b"]")
    if place < 0:
        return None
    if not in_object:
        return place + 1 if not text[place + 1 :].strip() else None
    tail = text[place + 1 :].strip()
    if tail == b"}":
        return place + 1
    if tail[:1] == b",":
        try:
            _OBJECT.decode(b"{" + tail[1:])
            return place + 1
        except (msgspec.DecodeError, RecursionError):
            return None
    return None


def _event_starts(text: str) -> list[int]:
    """Places where an event may begin: an object whose first member is one of an event's, and that is no member's value."""
    starts = []
    for match in _EVENT_START.finditer(text):
        place = match.start() - 1
        while place >= 0 and text[place] in " \t\r\n":
            place -= 1
        if place < 0 or text[place] != ":":
            starts.append(match.start())
    return starts


def _around(text: str) -> str:
    place = text.find("\ufffd")
    return text[max(0, place - 30) : place + 30]


def _shown(text: bytes) -> str:
    return repr(text[:60].decode("utf-8", "replace"))
