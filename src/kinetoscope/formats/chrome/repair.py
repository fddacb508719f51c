"""Invalid JSON, as profilers have written it, made valid: one object at a time, every change counted.

The repair is a tolerant reader that walks through the text once and writes it out again. What it cannot make sense of is
given up, and the caller counts it as lost.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

_SPACE = re.compile(r"\s*")
_STOP = re.compile(r'["\\\x00-\x1f]')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BARE = re.compile(r'[^\s,:\[\]{}"]+')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf(?:inity)?)(?:\(.*\))?", re.IGNORECASE)
_ENDS_KEY = re.compile(r'"\s*:')
_ENDS_VALUE = re.compile(r'"\s*(?:,\s*"[^"\n]{0,200}"\s*:|,?\s*\}\s*(?:[,\]}]|$)|[\r\n]\s*"[^"\n]{0,200}"\s*:|$)')
_ENDS_ITEM = re.compile(r'"\s*(?:,\s*["\d\-\[{tfnNiI]|,?\s*\]\s*(?:[,\]}"]|$)|$)')

# Deeper nesting than any argument has.
_DEEPEST = 200


@dataclass
class Repaired:
    """A valid object and what it took."""

    text: str
    end: int
    """Where the object ends in the faulty text."""
    changes: Counter[str] = field(default_factory=Counter)


def repair_object(text: str, start: int = 0) -> Repaired | None:
    """Make the JSON object that begins at ``start`` valid.

    Returns:
        The valid text, or None if no end of the object can be found.
    """
    # A backslash before a quote is an escape, unless reading it so leads nowhere: then it was one of a Windows path.
    for quote_escapes in (True, False):
        repaired = _Walk(text, start, quote_escapes).walk()
        if repaired is not None:
            return repaired
    return None


class _Walk:
    """One walk through the text. ``wants`` is what must come next: a key, a colon, a value or a comma."""

    def __init__(self, text: str, start: int, quote_escapes: bool) -> None:
        self.text = text
        self.place = start
        self.quote_escapes = quote_escapes
        self.out: list[str] = []
        self.changes: Counter[str] = Counter()
        self.stack: list[str] = []
        self.wants = "value"

    def walk(self) -> Repaired | None:
        steps = {"key": self._key, "colon": self._colon, "value": self._value, "comma": self._comma}
        while True:
            match = _SPACE.match(self.text, self.place)
            self.place = match.end() if match else self.place
            if self.place >= len(self.text):
                return None
            character = self.text[self.place]
            step = self._close if character in "}]" else steps[self.wants]
            if not step(character):
                return None
            if not self.stack:
                return Repaired("".join(self.out), self.place, self.changes)

    def _take(self, character: str, wants: str) -> bool:
        self.out.append(character)
        self.place += 1
        self.wants = wants
        return True

    def _close(self, character: str) -> bool:
        if not self.stack or self.stack[-1] != character or self.wants == "colon":
            return False
        if self.out[-1] == ",":
            self.out.pop()
            self.changes["trailing commas"] += 1
        elif self.wants == "value" and character == "}":
            self.out.append("null")
            self.changes["missing values"] += 1
        self.stack.pop()
        return self._take(character, "comma")

    def _comma(self, character: str) -> bool:
        wants = "key" if self.stack[-1] == "}" else "value"
        if character == ",":
            return self._take(",", wants)
        if character == ":":
            return False
        self.out.append(",")
        self.changes["missing commas"] += 1
        self.wants = wants
        return True

    def _key(self, character: str) -> bool:
        if character == ",":
            self.place += 1
            self.changes["trailing commas"] += 1
            return True
        if character != '"' or not self._string(_ENDS_KEY):
            return False
        self.wants = "colon"
        return True

    def _colon(self, character: str) -> bool:
        return character == ":" and self._take(":", "value")

    def _value(self, character: str) -> bool:
        if character in "{[":
            self.stack.append("}" if character == "{" else "]")
            return len(self.stack) <= _DEEPEST and self._take(character, "key" if character == "{" else "value")
        if not self.stack:
            return False
        in_object = self.stack[-1] == "}"
        if character == ",":
            return self._empty_place(in_object)
        if not (self._string(_ENDS_VALUE if in_object else _ENDS_ITEM) if character == '"' else self._bare()):
            return False
        self.wants = "comma"
        return True

    def _empty_place(self, in_object: bool) -> bool:
        """A comma where a value should stand: null in an object, nothing in a list."""
        if in_object:
            self.out.append("null")
            self.changes["missing values"] += 1
            self.wants = "comma"
        else:
            self.place += 1
            self.changes["trailing commas"] += 1
        return True

    def _bare(self) -> bool:
        match = _BARE.match(self.text, self.place)
        if match is None:
            return False
        word = match.group()
        self.place = match.end()
        if _NUMBER.fullmatch(word) or word in ("true", "false", "null"):
            self.out.append(word)
        else:
            # Kept as text: JSON has no number for it.
            self.changes["bare NaN or infinity" if _NOT_FINITE.fullmatch(word) else "bare words"] += 1
            self.out.append('"' + "".join(_escaped(c) if c < " " or c in '"\\' else c for c in word) + '"')
        return True

    def _string(self, ends: re.Pattern[str]) -> bool:
        text, out = self.text, self.out
        out.append('"')
        place = self.place + 1
        while True:
            match = _STOP.search(text, place)
            if match is None:
                return False
            out.append(text[place : match.start()])
            place = match.start()
            character = text[place]
            if character == '"':
                if ends.match(text, place):
                    out.append('"')
                    self.place = place + 1
                    return True
                out.append('\\"')
                self.changes["unescaped quotes"] += 1
                place += 1
            elif character == "\\":
                place = self._escape(place, ends)
            else:
                out.append(_escaped(character))
                self.changes["control characters"] += 1
                place += 1

    def _escape(self, place: int, ends: re.Pattern[str]) -> int:
        match = _ESCAPE.match(self.text, place)
        is_quote = match is not None and match.group() == '\\"'
        if match is None or (is_quote and not self.quote_escapes and ends.match(self.text, place + 1)):
            self.out.append("\\\\")
            self.changes["unescaped backslashes"] += 1
            return place + 1
        escape = match.group()
        if not _is_surrogate(escape, 0xD800, 0xE000):
            self.out.append(escape)
            return match.end()
        low = _ESCAPE.match(self.text, match.end())
        if low is not None and _is_surrogate(escape, 0xD800, 0xDC00) and _is_surrogate(low.group(), 0xDC00, 0xE000):
            self.out.append(escape + low.group())
            return low.end()
        # Half a surrogate pair is no character.
        self.out.append("\\ufffd")
        self.changes["lone surrogates"] += 1
        return match.end()


def _is_surrogate(escape: str, low: int, high: int) -> bool:
    return escape[1] == "u" and low <= int(escape[2:6], base=16) < high


def _escaped(character: str) -> str:
    return "\\" + character if character in '"\\' else f"\\u{ord(character):04x}"
