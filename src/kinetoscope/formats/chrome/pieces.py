"""Pieces of a list of events: where a text may be cut, where the list ends, and the events of what was cut out."""

from __future__ import annotations

import re

import msgspec

from kinetoscope.formats.chrome.events import Event, from_members
from kinetoscope.trace.issues import Issues

Raw = msgspec.Raw

_TYPED = msgspec.json.Decoder(list[Event])
_MEMBERS = msgspec.json.Decoder(list[dict[str, Raw]])
_VALUES = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])

_EVENT_KEY = rb'"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:'
_CUT = re.compile(rb"\}\s*,\s*(?=\{\s*" + _EVENT_KEY + rb")")
_ANY_CUT = re.compile(rb"\}\s*,\s*(?=\{)")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_BYTE = re.compile(r"\(byte (\d+)\)")


def decoded(data: bytes, issues: Issues) -> list[Event]:
    """The events of a JSON list; values that are none are counted.

    Raises:
        msgspec.DecodeError: the text is no JSON list.
        UnicodeDecodeError, RecursionError: it holds bytes that are no text, or nests too deep.
    """
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
                issues.found("values that are no events", where=shown(bytes(raw)))
        return events


def end_of_list(text: bytes, data: bytes, error: msgspec.DecodeError) -> int | None:
    """The position after the bracket that ends the list, if decoding ``[`` + ``text`` failed because something follows it."""
    match = _TRAILING.search(str(error))
    if match is None:
        return None
    # Bytes are counted from one, and from the bracket put before.
    end = len(text[: int(match.group(1)) - 2].rstrip())
    return end if text[end - 1 : end] == b"]" and end < len(data) - 2 else None


def is_unfinished(data: bytes, error: msgspec.DecodeError) -> bool:
    """Tell whether decoding failed only at the end: the text was cut inside an event, not faulty."""
    message = str(error)
    match = _BYTE.search(message)
    return "truncated" in message or (match is not None and int(match.group(1)) >= len(data) - 1)


def last_cuts(text: bytes) -> list[tuple[int, int]]:
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


def likely_end(text: bytes, in_object: bool) -> int | None:
    """The position after the bracket that ends the list, if what follows it can be members or nothing."""
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


def shown(text: bytes) -> str:
    """The beginning of a text, for messages."""
    return repr(text[:60].decode("utf-8", "replace"))
