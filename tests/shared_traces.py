"""The real traces of ``tests/data/traces`` and small ones written by hand."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from kinetoscope.formats.chrome.reader import parse_chrome
from kinetoscope.trace.trace import Trace

TRACES = Path(__file__).parent / "data" / "traces"
FACTS: dict[str, dict[str, Any]] = json.loads((TRACES / "facts.json").read_text())
# The other files there are execution traces and a memory timeline.
NAMES = sorted(name for name, facts in FACTS.items() if "by_phase" in facts)

MEMBERS = ("ph", "cat", "name", "pid", "tid", "ts", "dur")


def slice_(name: str, ts: Any, dur: Any, **members: Any) -> dict[str, Any]:
    """A slice as Kineto writes it."""
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 2, "ts": ts, "dur": dur} | members


def quietly(text: bytes | str) -> Trace:
    """Parse a text that may be faulty, without its warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parse_chrome(text.encode() if isinstance(text, str) else text, "test")


def parse(events: list[dict[str, Any]], **members: Any) -> Trace:
    """Parse a sound trace of these events; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return parse_chrome(json.dumps({**members, "traceEvents": events}).encode(), "test")
