"""Kineto's own JSON of a window: kept compressed, and written out again as it is where it can be trusted.

To make the table of it and JSON of the table takes several times as long as Kineto takes to write. So an export of a
window whose table nobody has asked for yet passes Kineto's events through, under our metadata; unless Kineto garbled
them, which the table repairs.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from isal import isal_zlib

from kinetoscope.record.extract import collector_paused

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
# Kineto writes "unknown" for names that it cannot write, and a slash for a backslash.
_GARBLED_NAME = re.compile(rb'"name": "unknown"|"cat": "user_annotation", "name": "[^"]*/')


class _Event(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The members that Kineto writes: with any other one, a quote in a name has ended the name."""

    ph: msgspec.Raw
    name: str
    pid: msgspec.Raw
    tid: msgspec.Raw
    ts: float
    cat: str = ""
    dur: float = 0.0
    args: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    bp: msgspec.Raw = msgspec.Raw()
    s: msgspec.Raw = msgspec.Raw()


_DECODER = msgspec.json.Decoder(list[_Event])


class KinetoText:
    """What Kineto wrote: the events, compressed, and what stands around them."""

    def __init__(self, text: bytes) -> None:
        """Take the whole document."""
        start, end = _EVENTS.search(text), text.rfind(b"]")
        split = (start.end(), end) if start is not None and start.end() <= end else (len(text), len(text))
        self.frame = text[: split[0]], text[split[1] :]
        events = text[split[0] : split[1]]
        self.is_sound = start is not None and _is_sound(events)
        """Whether the events are valid JSON with names that Kineto could write."""
        self._packed = isal_zlib.compress(events, 1)

    @property
    def events(self) -> bytes:
        """The text between the brackets of ``traceEvents``."""
        return isal_zlib.decompress(self._packed)

    @property
    def document(self) -> bytes:
        """The whole document, as Kineto wrote it."""
        return self.events.join(self.frame)

    @cached_property
    def without_events(self) -> bytes:
        """The document with an empty list of events."""
        return b"".join(self.frame)


def saved(save: Callable[[str], Any]) -> KinetoText:
    """Have Kineto write its JSON, and take it.

    Raises:
        RuntimeError: Kineto has written it before.
        OSError: there is no room for it.
    """
    with tempfile.TemporaryDirectory(prefix="kinetoscope-") as folder:
        path = os.path.join(folder, "kineto.json")
        save(path)
        return KinetoText(Path(path).read_bytes())


def _is_sound(events: bytes) -> bool:
    if _GARBLED_NAME.search(events):
        return False
    try:
        with collector_paused():
            _DECODER.decode(b"[" + events + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
