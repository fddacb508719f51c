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
from pathlib import Path
from typing import Any

import msgspec

from kinetoscope.common.collector import collector_paused
from kinetoscope.formats.chrome.deflated import Deflated

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
# What Kineto writes for a name that it cannot write; and how an annotation begins, in whose name it turns a backslash
# into a slash.
_UNNAMED = b'"name": "unknown"'
_ANNOTATION = b'"cat": "user_annotation", "name": "'


# A name that a quote ended early: Kineto ends the line after it.
_CUT_NAME = re.compile(rb'"name": "[^"]*"(?!,?\n)')

_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


class KinetoText:
    """What Kineto wrote: the events, compressed, and what stands around them."""

    def __init__(self, text: bytes) -> None:
        """Take the whole document."""
        begin = _EVENTS.search(text)
        end = text.rfind(b"]")
        known = begin is not None and begin.end() <= end
        start = begin.end() if begin is not None and known else len(text)
        end = end if known else len(text)
        self.frame = text[:start], text[end:]
        self.is_sound = known and _is_sound(text, start, end)
        """Whether the events are valid JSON with names that Kineto could write."""
        self.events = Deflated(memoryview(text)[start:end])
        """The text between the brackets of ``traceEvents``."""

    @property
    def document(self) -> bytes:
        """The whole document, as Kineto wrote it."""
        return self.events.text.join(self.frame)

    @property
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


def _is_sound(text: bytes, start: int, end: int) -> bool:
    """Check the events, which lie between the brackets just outside of ``start`` and ``end``."""
    if not text.isascii() or text.find(_UNNAMED, start, end) >= 0 or _annotations_have_slashes(text, start, end):
        return False
    if _CUT_NAME.search(text, start, end):
        return False
    try:
        with collector_paused():
            _DECODER.decode(memoryview(text)[start - 1 : end + 1])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _annotations_have_slashes(text: bytes, start: int, end: int) -> bool:
    place = text.find(_ANNOTATION, start, end)
    while place >= 0:
        first = place + len(_ANNOTATION)
        last = text.find(b'"', first, end)
        if last < 0 or text.find(b"/", first, last) >= 0:
            return True
        place = text.find(_ANNOTATION, last, end)
    return False
