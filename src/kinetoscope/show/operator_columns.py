"""The columns of a table of operators: what each says, and which give way where there is no room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from kinetoscope.show.controls import without_controls
from kinetoscope.show.kernel_names import short_kernel_name
from kinetoscope.show.text_table import format_memory, format_time

NAME = "shown_name"
"""Column of the rows that holds the name as it is shown."""


@dataclass(frozen=True)
class OperatorTable:
    """Rows to show, and what the whole they were taken from adds up to. Times are microseconds.

    ``rows`` is a frame with the columns of :meth:`kinetoscope.analyze.averages.Averages.to_polars`, sorted and cut already.
    """

    rows: pl.DataFrame
    matching: int
    """Rows before the limit cut them."""
    self_cpu_total: float
    self_device_total: float
    sorted_by: str
    device: str | None = None
    memory: bool = False
    percentiles: bool = False
    full_names: bool = False
    """Names whole, however wide the table becomes; else kernels by their meaning, and cut where they do not fit."""


@dataclass(frozen=True)
class Column:
    """One column: its header and what stands in it."""

    header: str
    cell: Callable[[dict[str, Any]], str]
    weight: int
    """Columns of the least weight go first where there is no room; 9 stays."""
    share: Callable[[dict[str, Any]], float] | None = None
    """Part of the whole, 0 to 1: drawn as a bar."""
    text: bool = False
    sort: str = ""
    """Column of the rows that is shown, for what they are sorted by."""


def shown_rows(table: OperatorTable) -> pl.DataFrame:
    """The rows with their names as they are shown, in the column :data:`NAME`.

    Kernels are named by their meaning. A name that stands on the host and on a device (an annotation, a step) says at the
    device's row which that is.
    """
    keys = table.rows["key"].to_list()
    kinds = table.rows["device_type"].to_list() if "device_type" in table.rows.columns else ["cpu"] * len(keys)
    on_host = {key for key, kind in zip(keys, kinds, strict=True) if kind == "cpu"}
    names = []
    for key, kind in zip(keys, kinds, strict=True):
        name = key if kind == "cpu" or table.full_names else short_kernel_name(key)
        names.append(without_controls(f"{name} [{kind.upper()}]" if kind != "cpu" and key in on_host else name))
    return table.rows.with_columns(pl.Series(NAME, names, dtype=pl.String))


def columns_of(table: OperatorTable) -> list[Column]:
    """All columns that the rows have something to say in."""
    rows = table.rows
    columns = [Column("Name", lambda row: row[NAME], 9, text=True, sort="key")]
    if _any_text(rows, "overload_name"):
        columns.append(Column("Overload", lambda row: row["overload_name"], 8, text=True))
    columns.append(Column("Calls", lambda row: f"{row['count']:,}", 7, sort="count"))
    columns += _times("CPU", "cpu", table.self_cpu_total)
    if table.device is not None:
        columns += _times(table.device.upper(), "device", table.self_device_total)
    if table.percentiles:
        columns += [
            Column(name, lambda row, name=name: format_time(row[name]), 6, sort=name)  # type: ignore[misc]
            for name in ("min", "p50", "p95", "p99", "max")
        ]
    if table.memory:
        columns += _memory("CPU", "cpu")
        if table.device is not None:
            columns += _memory(table.device.upper(), "device")
    if len(rows) and rows["flops"].max():
        columns.append(Column("FLOPs", lambda row: _flops(row["flops"]), 5, sort="flops"))
    if _any_text(rows, "input_shapes"):
        columns.append(Column("Input shapes", lambda row: row["input_shapes"], 8, text=True))
    if len(rows) and rows["stack"].list.len().max():
        columns.append(Column("Stack, innermost first", lambda row: " < ".join(row["stack"]), 8, text=True))
    return columns


def _any_text(rows: pl.DataFrame, name: str) -> bool:
    return bool((rows[name].fill_null("") != "").any())


def _times(title: str, name: str, whole: float) -> list[Column]:
    own, total, mean = f"self_{name}_time_total", f"{name}_time_total", f"{name}_time"

    def share(row: dict[str, Any]) -> float:
        return row[own] / whole if whole > 0 else 0.0

    return [
        Column(f"Self {title} %", lambda row: f"{share(row) * 100:.1f}%", 7, share=share, sort=own),
        Column(f"Self {title}", lambda row: format_time(row[own]), 9, sort=own),
        Column(f"{title} total", lambda row: format_time(row[total]), 6, sort=total),
        Column(f"{title} avg", lambda row: format_time(row[mean]), 3, sort=mean),
    ]


def _memory(title: str, name: str) -> list[Column]:
    own, total = f"self_{name}_memory_usage", f"{name}_memory_usage"
    return [
        Column(f"{title} mem", lambda row: format_memory(row[total]), 4, sort=total),
        Column(f"Self {title} mem", lambda row: format_memory(row[own]), 5, sort=own),
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
