"""OperatorTable and facts of a trace for the terminal: coloured with bars, or plain for pipes and files.

Data comes in as Polars frames with the columns of :meth:`kinetoscope.analyze.averages.Averages.to_polars`, sorted and cut
already; here it only gets its looks. Names come from traces, so nothing of them is taken as markup or as a control
sequence of the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinetoscope.show.controls import without_controls
from kinetoscope.show.text_table import format_memory, format_time
from kinetoscope.trace.trace import Trace

BAR_WIDTH = 8
NAME_WIDTH = 24
"""Least width that names get on a terminal; columns of less weight are left out for it."""

_BETWEEN = 3
"""What rich puts between two columns."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_RECORD_OPTIONS = {
    "record_shapes": "shapes",
    "profile_memory": "memory",
    "with_stack": "stacks",
    "with_modules": "modules",
    "with_flops": "flops",
}


@dataclass(frozen=True)
class OperatorTable:
    """Rows to show, and what the whole they were taken from adds up to. Times are microseconds."""

    rows: pl.DataFrame
    matching: int
    """Rows before the limit cut them."""
    self_cpu_total: float
    self_device_total: float
    sorted_by: str
    device: str | None = None
    memory: bool = False
    percentiles: bool = False


@dataclass(frozen=True)
class _Column:
    header: str
    cell: Callable[[dict[str, Any]], str]
    weight: int
    """Columns of the least weight go first where the terminal is narrow; 9 stays."""
    share: Callable[[dict[str, Any]], float] | None = None
    """Part of the whole, 0 to 1: drawn as a bar."""
    text: bool = False
    sort: str = ""


def plain(operators: OperatorTable) -> str:
    """The table as aligned text, every column and every name in full."""
    columns = _columns(operators)
    rows = [[without_controls(column.cell(row)) for column in columns] for row in operators.rows.iter_rows(named=True)]
    cells = [[column.header for column in columns], *rows]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    lines = []
    for line in cells:
        aligned = (
            cell.ljust(width) if column.text else cell.rjust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        lines.append("  ".join(aligned).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, *_remarks(operators)]) + "\n"


def coloured(operators: OperatorTable, console: Console) -> Table:
    """The table for a terminal of the console's width: shares as bars, names cut where they do not fit."""
    columns, hidden = _fitting(_columns(operators), operators, console.width)
    unicode = (console.encoding or "").lower().startswith("utf")
    remarks = _remarks(operators)
    if hidden:
        remarks.append(f"not shown for want of width: {', '.join(column.header for column in hidden)}")
    table = Table(
        box=box.SIMPLE_HEAD if unicode else box.ASCII2,
        header_style="bold",
        caption="\n".join(remarks),
        caption_justify="left",
        caption_style="dim",
        pad_edge=False,
        expand=False,
    )
    for column, width in zip(columns, _widths(columns, operators, console.width), strict=True):
        style = "cyan" if column.header == "Name" else "bold" if column.sort == operators.sorted_by else None
        table.add_column(
            column.header,
            # rich cuts the blanks behind a bar when it aligns to the right.
            justify="left" if column.text or (column.share is not None and unicode) else "right",
            no_wrap=True,
            overflow="ellipsis",
            style=style,
            width=width,
        )
    for row in operators.rows.iter_rows(named=True):
        cells = []
        for column in columns:
            text = Text(without_controls(column.cell(row)))
            if column.share is not None and unicode:
                text = Text.assemble(f"{text.plain:>6} ", (_bar(column.share(row)), "green"))
            cells.append(text)
        table.add_row(*cells)
    return table


def _columns(operators: OperatorTable) -> list[_Column]:
    rows = operators.rows
    columns = [_Column("Name", lambda row: row["key"], 9, text=True, sort="key")]
    if _any_text(rows, "overload_name"):
        columns.append(_Column("Overload", lambda row: row["overload_name"], 8, text=True))
    columns.append(_Column("Calls", lambda row: f"{row['count']:,}", 7, sort="count"))
    columns += _times("CPU", "cpu", operators.self_cpu_total)
    if operators.device is not None:
        columns += _times(operators.device.upper(), "device", operators.self_device_total)
    if operators.percentiles:
        columns += [
            _Column(name, lambda row, name=name: format_time(row[name]), 6, sort=name)  # type: ignore[misc]
            for name in ("min", "p50", "p95", "p99", "max")
        ]
    if operators.memory:
        columns += _memory("CPU", "cpu")
        if operators.device is not None:
            columns += _memory(operators.device.upper(), "device")
    if len(rows) and rows["flops"].max():
        columns.append(_Column("FLOPs", lambda row: _flops(row["flops"]), 5, sort="flops"))
    if _any_text(rows, "input_shapes"):
        columns.append(_Column("Input shapes", lambda row: row["input_shapes"], 8, text=True))
    if len(rows) and rows["stack"].list.len().max():
        columns.append(_Column("Stack, innermost first", lambda row: " < ".join(row["stack"]), 8, text=True))
    return columns


def _any_text(rows: pl.DataFrame, name: str) -> bool:
    return bool((rows[name].fill_null("") != "").any())


def _times(title: str, name: str, whole: float) -> list[_Column]:
    own, total, mean = f"self_{name}_time_total", f"{name}_time_total", f"{name}_time"

    def share(row: dict[str, Any]) -> float:
        return row[own] / whole if whole > 0 else 0.0

    return [
        _Column(f"Self {title} %", lambda row: f"{share(row) * 100:.1f}%", 7, share=share, sort=own),
        _Column(f"Self {title}", lambda row: format_time(row[own]), 9, sort=own),
        _Column(f"{title} total", lambda row: format_time(row[total]), 6, sort=total),
        _Column(f"{title} avg", lambda row: format_time(row[mean]), 3, sort=mean),
    ]


def _memory(title: str, name: str) -> list[_Column]:
    own, total = f"self_{name}_memory_usage", f"{name}_memory_usage"
    return [
        _Column(f"{title} mem", lambda row: format_memory(row[total]), 4, sort=total),
        _Column(f"Self {title} mem", lambda row: format_memory(row[own]), 5, sort=own),
    ]


def _flops(count: int) -> str:
    if not count:
        return "-"
    value, unit = float(count), ""
    for prefix in ("k", "M", "G", "T", "P"):
        if value < 1000:
            break
        value, unit = value / 1000, prefix
    return f"{value:.4g} {unit}".rstrip()


def _fitting(columns: list[_Column], operators: OperatorTable, width: int) -> tuple[list[_Column], list[_Column]]:
    """Columns that fit the width, and those that do not. What is sorted by stays, as the name does."""
    taken = {id(column): _least_width(column, operators) + _BETWEEN for column in columns}
    kept = list(columns)
    while sum(taken[id(column)] for column in kept) > width:
        loose = [column for column in kept if column.weight < 9 and column.sort != operators.sorted_by]
        if not loose:
            break
        least = min(column.weight for column in loose)
        kept.remove([column for column in loose if column.weight == least][-1])
    return kept, [column for column in columns if column not in kept]


def _widths(columns: list[_Column], operators: OperatorTable, width: int) -> list[int]:
    """Width of each column: texts give way as far as they may, the longest first; a number that is cut says nothing."""
    widths = [_full_width(column, operators) for column in columns]
    least = [_least_width(column, operators) for column in columns]
    excess = sum(widths) + len(widths) * _BETWEEN - width
    for place in sorted(range(len(columns)), key=lambda place: least[place] - widths[place]):
        given = max(0, min(excess, widths[place] - least[place]))
        widths[place] -= given
        excess -= given
    return widths


def _full_width(column: _Column, operators: OperatorTable) -> int:
    cells = [len(without_controls(column.cell(row))) for row in operators.rows.iter_rows(named=True)]
    return max([len(column.header), *cells]) + (BAR_WIDTH + 1 if column.share is not None else 0)


def _least_width(column: _Column, operators: OperatorTable) -> int:
    width = _full_width(column, operators)
    if column.header == "Name":
        return min(width, NAME_WIDTH)
    return min(width, 2 * NAME_WIDTH) if column.text else width


def _bar(share: float) -> str:
    eighths = round(max(0.0, min(1.0, share)) * BAR_WIDTH * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(BAR_WIDTH)


def _remarks(operators: OperatorTable) -> list[str]:
    totals = f"Self CPU time total: {format_time(operators.self_cpu_total)}"
    if operators.device is not None:
        totals += f", self {operators.device.upper()} time total: {format_time(operators.self_device_total)}"
    rest = operators.matching - len(operators.rows)
    return [totals, f"{rest:,} more rows; --limit 0 shows all"] if rest > 0 else [totals]


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
        faults = ", ".join(f"{_count(count, 'place')} with {fault}" for fault, count in trace.issues.items())
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
    width = max((len(label) for label, _ in lines), default=0)
    for label, text in lines:
        console.print(Text.assemble((label.ljust(width), "dim"), "  ", text), soft_wrap=True)
