"""Events of a text that is no valid JSON, one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kinetoscope.formats.chrome.events import Event, from_members
from kinetoscope.formats.chrome.repair import repair_object
from kinetoscope.trace.issues import Issues

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EVENT_START = re.compile(r'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:')
_END = re.compile(r"\s*,?\s*\]")
# After so many lost events in a piece, less is tried for each further one: time must not grow with the damage.
_MOST_FAILURES = 20
# What looks like the next event may stand inside this one: how many such beginnings are tried as its end.
_FURTHER = (2, 3, 5, 9)


@dataclass(frozen=True)
class Found:
    """What was found next in a damaged text."""

    event: Event | None
    """The event, repaired if it had to be."""
    lost: bool = False
    """An event stood there that cannot be read."""
    end: int | None = None
    """Position after the bracket that ends the list, if it does here."""


def damaged_events(text: str, is_last: bool, issues: Issues) -> Iterator[Found]:
    """Look for events in a text of a list of events that is no valid JSON.

    Args:
        text: the text, from within the list.
        is_last: nothing follows the text; else it goes on with another event.
        issues: counts what was repaired and what was lost.
    """
    starts = _event_starts(text)
    place = 0
    any_found = was_lost = False
    failures = 0
    for number, start in enumerate(starts):
        if start < place:
            continue  # inside an event that was taken already
        between = "," if was_lost else text[place:start].strip()
        if between not in ("", ",") or (between == "" and any_found):
            kind = "missing commas" if between == "" else "unreadable events"
            issues.found(kind, where=f"before {text[start : start + 60]!r}")
        following = [*starts[number + 1 :][:1], len(text)][0]
        event, place = _first_readable(text, starts, number, issues, thorough=failures <= _MOST_FAILURES)
        was_lost = event is None
        if event is None:
            failures += 1
            issues.found("unreadable events", where=repr(text[start : start + 60]))
            if is_last and following == len(text):
                # Cut off in the middle: the list's end was not reached.
                yield Found(None, lost=True)
                return
            place = following
        any_found = any_found or event is not None
        end = _end_after(text, place, is_last)
        yield Found(event, lost=event is None, end=end)
        if end is not None:
            return
    if is_last and (close := _END.match(text, place)):
        yield Found(None, end=close.end())


def _first_readable(text: str, starts: list[int], number: int, issues: Issues, thorough: bool) -> tuple[Event | None, int]:
    """The event that begins at one of the starts, and where it ends."""
    bounds = [*starts, len(text)]
    for further in (1, *(_FURTHER if thorough else ())):
        if number + further >= len(bounds):
            break
        event, stop = _event(text, starts[number], bounds[number + further], issues)
        if event is not None:
            return event, stop
    return None, starts[number]


def _end_after(text: str, place: int, is_last: bool) -> int | None:
    """Position after the bracket that ends the list, if it stands right behind an event."""
    after = text[place : place + 4096].lstrip()
    if after[:1] == "]" and (is_last or not after[1:].lstrip(" \r\n\t").startswith(("{", ",{"))):
        return text.index("]", place) + 1
    return None


def _event(text: str, start: int, stop: int, issues: Issues) -> tuple[Event | None, int]:
    """The event at ``start``, looked for before ``stop``, and where it ends."""
    span = text[start:stop].rstrip().removesuffix(",")
    try:
        return _one(span), start + len(span)
    except (msgspec.DecodeError, RecursionError):
        pass
    repaired = repair_object(span)
    if repaired is None:
        return None, stop
    try:
        event = _one(repaired.text)
    except (msgspec.DecodeError, RecursionError):
        return None, stop
    issues.take(repaired.changes, repr(span[:100]))
    return event, start + repaired.end


def _one(text: str) -> Event:
    try:
        return msgspec.json.decode(text, type=Event)
    except msgspec.ValidationError:
        return from_members(_OBJECT.decode(text))


def _event_starts(text: str) -> list[int]:
    """Positions where an event may begin: an object whose first member is one of an event's, and that is no member's value."""
    starts = []
    for match in _EVENT_START.finditer(text):
        place = match.start() - 1
        while place >= 0 and text[place] in " \t\r\n":
            place -= 1
        if place < 0 or text[place] != ":":
            starts.append(match.start())
    return starts
