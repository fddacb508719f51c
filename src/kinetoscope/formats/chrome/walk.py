"""The walk through a file: the members before the events, the events in pieces, the members after them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from kinetoscope.formats.chrome.columns import Builder
from kinetoscope.formats.chrome.damaged import damaged_events
from kinetoscope.formats.chrome.events import Event
from kinetoscope.formats.chrome.parallel import CHUNK_BYTES, WORTH_BYTES, worker_count, workers
from kinetoscope.formats.chrome.pieces import decoded, end_of_list, is_unfinished, last_cuts, likely_end, shown
from kinetoscope.formats.chrome.repair import repair_object
from kinetoscope.formats.sources import describe
from kinetoscope.trace.errors import TraceError
from kinetoscope.trace.issues import Issues

Raw = msgspec.Raw

PIECE_BYTES = 2 << 20
"""Text that is decoded at a time, once some has been read: enough to make columns cheaply, little enough for memory caches."""

FIRST_PIECE_BYTES = 1 << 19
"""Text that is decoded first: a small file must not take memory for a large piece of it, ten times the text."""

LARGEST_EVENT_BYTES = 1 << 29
"""No event is longer; what seems so is no trace."""

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_EVENTS = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*(\[|null)')
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


class FileWalk:
    """Walks through the text: the members before the events, the events in pieces, the members after them."""

    def __init__(self, blocks: Iterator[bytes], name: str, on_piece: Callable[[Builder], None] | None = None) -> None:
        """Walk through blocks of text.

        Args:
            blocks: the text.
            name: stands in messages.
            on_piece: called after each piece, and may take away what the builder holds.
        """
        self.on_piece = on_piece
        self.blocks = blocks
        self.name = name
        self.builder = Builder()
        self.members: dict[str, Raw] = {}
        self.at_end = False
        self._block, self._used = b"", 0

    @property
    def issues(self) -> Issues:
        """What was found wrong."""
        return self.builder.issues

    def _more(self, text: bytes, wanted: int) -> bytes:
        """``text`` with what follows it, until it is ``wanted`` bytes long or the file ends."""
        parts = [text]
        size = len(text)
        while size < wanted:
            if self._used == len(self._block):
                self._block, self._used = next(self.blocks, b""), 0
                if not self._block:
                    self.at_end = True
                    break
            # A block may be much more than is wanted, even the whole text.
            part = self._block[self._used : self._used + wanted - size]
            self._used += len(part)
            parts.append(part)
            size += len(part)
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
                self.issues.found("text after the end", where=shown(rest))
            if not self.builder.pieces and not self.builder.metadata_events and self.issues["values that are no events"]:
                raise TraceError(f"{self.name} is a JSON list, but not of events: {shown(start)}")
        elif start[:1] == b"{":
            self._object(text)
        else:
            raise TraceError(f"{self.name} holds no trace: {describe(text)}")

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
            self.issues.found("further lists of events", where=shown(rest.strip()))
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
                    self.issues.found("text after the end", where=shown(rest.encode()))
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
        self.issues.found("unreadable metadata", where="the members of the file")

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
            self.issues.found("truncated", where="after the events")
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
        wanted = min(FIRST_PIECE_BYTES, PIECE_BYTES)
        count = worker_count()
        alone = 0
        while True:
            if count and alone > WORTH_BYTES:
                text, alone = self._in_parallel(text, count), 0
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
            text = text[place:]
            alone += place
            self._tell()
            wanted = min(PIECE_BYTES, max(FIRST_PIECE_BYTES, alone // 4))
        if end is None:
            # The list never ends.
            self.issues.found("truncated", where=lambda: f"after {shown(text[-60:].strip())}")
            return None
        return self._more(text[end:], 1 << 40)

    def _in_parallel(self, text: bytes, count: int) -> bytes:
        """Take events on several cores as long as all is as it should be; return the text from where it is not."""
        with workers(count) as started:
            while True:
                text = self._more(text, CHUNK_BYTES)
                cuts = [] if self.at_end else last_cuts(text)
                if cuts:
                    _, next_start = cuts[0]
                    started.give(text[:next_start])
                    text = text[next_start:]
                for chunk_text, chunk in started.done(wait=not cuts):
                    if chunk is None or not self.builder.ids.take(chunk.text_ids):
                        return b"".join([chunk_text, *(waiting for waiting, _ in started.done(wait=True)), text])
                    self.builder.take(chunk.pieces, chunk.texts)
                    self.builder.metadata_events += chunk.metadata_events
                    self._tell()
                if not cuts:
                    return text

    def _tell(self) -> None:
        if self.on_piece is not None:
            self.on_piece(self.builder)

    def _piece(self, text: bytes, may_grow: bool) -> tuple[int | None, int]:
        """Take as many events as can be told apart in a text that goes on.

        Returns:
            The position after the end of the list, None if the list goes on; and the position of the first event not taken.
        """
        cuts = last_cuts(text)
        for stop, next_start in cuts:
            data = b"[" + text[:stop] + b"]"
            try:
                self.builder.add(decoded(data, self.issues))
                return None, next_start
            except msgspec.DecodeError as error:
                end = end_of_list(text, data, error)
                if end is not None:
                    return self._last_piece(text, in_object=True, end=end), 0
                if not is_unfinished(data, error):
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
            The position after the end of the list, None if it was not found.
        """
        if end is None:
            end = likely_end(text, in_object)
        while True:
            data = b"[" + (text if end is None else text[: end - 1]) + b"]"
            try:
                self.builder.add(decoded(data, self.issues))
                return end
            except msgspec.DecodeError as error:
                before = end_of_list(text, data, error)
                if before is not None and (end is None or before < end):
                    end = before
                    continue
            except (UnicodeDecodeError, RecursionError):
                pass
            return self._repaired(text, is_last=True)

    def _repaired(self, text: bytes, is_last: bool) -> int | None:
        """Take the events of a piece that is no valid JSON, one at a time."""
        readable = self._utf8(text)
        events: list[Event] = []
        end: int | None = None
        for found in damaged_events(readable, is_last, self.issues):
            if found.event is not None:
                events.append(found.event)
            end = found.end
        self.builder.add(events)
        return None if end is None else len(readable[:end].encode()) if readable.isascii() else _byte_place(text, readable, end)


def _byte_place(text: bytes, readable: str, end: int) -> int:
    """The position in the bytes of a position in the text, which may have replaced some of them."""
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


def _around(text: str) -> str:
    place = text.find("\ufffd")
    return text[max(0, place - 30) : place + 30]


def _shown(text: bytes) -> str:
    return repr(text[:60].decode("utf-8", "replace"))
