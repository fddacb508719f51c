"""What the program says about its own trace: keys with JSON values, always valid."""

from __future__ import annotations

import json
from typing import Any

from kinetoscope.common.user_warning import warn_user
from kinetoscope.record.distributed import json_safe


class UserMetadata:
    """Values that the program attached to one window, as JSON values by key.

    A window keeps its object, so what is added after the window was closed is in the exports that follow.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.values: dict[str, Any] = {}

    def add(self, key: str, value: Any) -> None:
        """Attach a value that is JSON already or becomes its text."""
        self.values[str(key)] = json_safe(value)

    def add_json(self, key: str, text: str) -> None:
        """Attach a value given as JSON text; what is no JSON is kept as text, with a warning."""
        try:
            self.values[str(key)] = json.loads(text, parse_constant=str)
        except (TypeError, ValueError, RecursionError) as error:
            warn_user(f"The metadata {key!r} is no valid JSON ({error}); it is kept as text")
            self.values[str(key)] = str(text)

    def current(self) -> dict[str, Any]:
        """A copy of the values."""
        return dict(self.values)
