"""What a trace is, in a few lines for people."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from kinetoscope.show.controls import without_controls
from kinetoscope.show.text_table import format_memory, format_time
from kinetoscope.trace.trace import Trace

_RECORD_OPTIONS = {
    "record_shapes": "shapes",
    "profile_memory": "memory",
    "with_stack": "stacks",
    "with_modules": "modules",
    "with_flops": "flops",
}


def facts(trace: Trace, path: str | os.PathLike[str] | None = None) -> list[tuple[str, str]]:
    """What a trace is, in a few pairs of a label and a line of text."""
    summary, metadata = trace.summary(), trace.metadata
    result: list[tuple[str, str]] = []
    if path is not None:
        size = f" ({format_memory(Path(path).stat().st_size)})" if os.path.isfile(path) else ""  # not of a URL
        result.append(("trace", f"{os.fspath(path)}{size}"))
    counts = ", ".join(f"{name or 'other'} {count:,}" for name, count in list(summary["categories"].items())[:6])
    result.append(("events", f"{summary['events']:,}" + (f": {counts}" if counts else "")))
    span = format_time(summary["span_ns"] / 1000)
    steps = summary["steps"]
    result.append(("span", f"{span}, {_steps(steps)}" if steps else span))
    where = [_count(summary["threads"], "thread")]
    if summary["devices"]:
        where.append(_count(summary["devices"], "device"))
    world = (metadata.distributed or {}).get("world_size")
    if summary["rank"] is not None:
        where.append(f"rank {summary['rank']}" + (f" of {world}" if world is not None else ""))
    backend = (metadata.distributed or {}).get("backend")
    if backend:
        where.append(str(backend))
    if metadata.host_name:
        where.append(f"host {metadata.host_name}")
    result.append(("where", ", ".join(where)))
    if metadata.versions:
        result.append(("versions", ", ".join(f"{name} {version}" for name, version in metadata.versions.items())))
    recorded = recorded_options(metadata.options)
    if recorded:
        result.append(("recorded", ", ".join(recorded)))
    if trace.issues:
        faults = ", ".join(f"{count:,} {fault}" for fault, count in trace.issues.items())
        result.append(("faults", faults))
    return [(label, without_controls(text)) for label, text in result]


def recorded_options(options: dict[str, Any]) -> list[str]:
    """What a trace was recorded with: its activities and the options that were on."""
    activities = options.get("activities")
    names = [str(name).lower() for name in activities] if isinstance(activities, (list, tuple)) else []
    return names + [name for option, name in _RECORD_OPTIONS.items() if options.get(option)]


def _steps(steps: list[int]) -> str:
    if len(steps) == 1:
        return f"step {steps[0]}"
    return f"{len(steps)} steps ({min(steps)} to {max(steps)})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def pairs(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Print labels and texts below each other, the labels dimmed on a terminal."""
    lines = list(lines)
    indent = max((len(label) for label, _ in lines), default=0) + 2
    for label, text in lines:
        # Broken between words only: a path or a number in two pieces is of no use.
        wrapped = textwrap.wrap(text, max(console.width - indent, 20), break_long_words=False, break_on_hyphens=False) or [""]
        for number, line in enumerate(wrapped):
            console.print(Text.assemble((("" if number else label).ljust(indent), "dim"), line), soft_wrap=True)
