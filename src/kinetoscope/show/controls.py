"""Names from traces as text that no terminal obeys."""

from __future__ import annotations

ESCAPES = {chr(code): f"\\x{code:02x}" for code in [*range(0x20), *range(0x7F, 0xA0)]}
"""Control character -> how it is shown."""

_TABLE = str.maketrans(ESCAPES)


def without_controls(text: str) -> str:
    """The text with its control characters as escapes."""
    return text.translate(_TABLE)
