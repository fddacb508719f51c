"""What the reader must give, said plainly: one event at a time, with Python's own json module."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from kinetoscope.formats.chrome.names import MEMBERS, TODAYS_CATEGORIES, arguments_of


def nanoseconds(number: Any) -> int:
    """Microseconds as nanoseconds, halves to the even number."""
    return int((Decimal(number) * 1000).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def rows(text: str) -> list[dict[str, Any]]:
    """Expected columns of the events of a sound trace, in the file's order, without what follows from other rows."""
    data = json.loads(text, parse_float=Decimal)
    events = data["traceEvents"] if isinstance(data, dict) else data
    result = []
    for event in events:
        if event["ph"] == "M":
            continue
        category = TODAYS_CATEGORIES.get(event.get("cat"), event.get("cat"))
        row = {"phase": event["ph"], "name": event.get("name"), "category": category, "start_ns": nanoseconds(event["ts"])}
        if event["ph"] == "X":
            row["duration_ns"] = nanoseconds(event["dur"])
        known = arguments_of(category)
        rest = {}
        for key, value in event.get("args", {}).items():
            argument = known.get(key)
            if argument is None:
                rest[key] = value
            elif (argument.kind == "int" and isinstance(value, int) and abs(value) < 2**63) or (
                argument.kind == "list" and isinstance(value, list)
            ):
                row[argument.column] = value
            elif argument.kind in ("text", "stack", "device_type"):
                continue
            else:
                rest[key] = value
        row["args"] = rest
        result.append(row)
    return result


def arguments(text: str | None) -> dict[str, Any]:
    """The column ``args`` as values, without what the reader adds."""
    values: dict[str, Any] = json.loads(text, parse_float=Decimal) if text else {}
    values.pop(MEMBERS, None)
    values.pop("Original category", None)
    return values
