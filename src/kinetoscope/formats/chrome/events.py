"""One event as it stands in the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Raw = msgspec.Raw
Id = int | str | float | None

ABSENT = Raw()


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
