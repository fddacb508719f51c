"""Which rows of the averages a user wants, in which order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

import polars as pl

from kinetoscope.cli.console import CommandError
from kinetoscope.trace.vocabulary import ALL_STEPS, STEP_PATTERN

if TYPE_CHECKING:
    from kinetoscope.analyze.averages import Averages
    from kinetoscope.show.operator_columns import OperatorTable
    from kinetoscope.trace.trace import Trace

SORT_KEYS = (
    "self_cpu_time_total",
    "cpu_time_total",
    "cpu_time",
    "self_device_time_total",
    "device_time_total",
    "device_time",
    "count",
    "name",
    "min",
    "p50",
    "p95",
    "p99",
    "max",
    "self_cpu_memory_usage",
    "cpu_memory_usage",
    "self_device_memory_usage",
    "device_memory_usage",
    "flops",
)
"""What rows can be sorted by. ``cuda``, ``xpu``, ... may stand for ``device``, and ``_total`` may be left out."""

_DEVICES = ("cuda", "xpu", "mtia", "hpu", "privateuse1")


@dataclass(frozen=True)
class Selection:
    """What to show of a trace; see the options of ``kinetoscope summary``. A ``limit`` of None or 0 keeps all rows."""

    sort: str | None = None
    limit: int | None = None
    pattern: str | None = None
    categories: tuple[str, ...] = ()
    by_shape: bool = False
    by_stack: int = 0
    by_overload: bool = False


def sort_column(name: str) -> str:
    """The column of the averages that a sort key means.

    Raises:
        CommandError: it means none; the message lists those there are.
    """
    key = name.strip().lower().replace("-", "_")
    for device in _DEVICES:
        key = key.replace(device, "device")
    key = {"key": "name", "calls": "count"}.get(key, key)
    if key not in SORT_KEYS:
        key = f"{key}_total"
    if key not in SORT_KEYS:
        raise CommandError(f"--sort {name}: no such column; choose one of {', '.join(SORT_KEYS)}")
    return "key" if key == "name" else key


def pattern_of(text: str) -> re.Pattern[str]:
    """A regular expression that ignores case.

    Raises:
        CommandError: it is none; the message says where, and how the text itself would be written.
    """
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        escaped = re.escape(text)
        raise CommandError(f"--filter {text}: no regular expression ({error}); as plain text write {escaped}") from error


def check(selection: Selection) -> None:
    """Check what can be checked before a trace is read or recorded.

    Raises:
        CommandError: a sort key or a pattern is wrong.
    """
    if selection.sort is not None:
        sort_column(selection.sort)
    if selection.pattern is not None:
        pattern_of(selection.pattern)


def select(trace: Trace, selection: Selection, percentiles: bool = False, full_names: bool = False) -> OperatorTable:
    """Group, filter, sort and cut the operators of a trace.

    Rows are kept by category if an event of that name, on the host or on a device as the row, has one of the
    categories: times stay those of the whole trace.

    Raises:
        CommandError: a category is not in the trace; the message lists those there are.
    """
    from kinetoscope.show.operator_columns import OperatorTable
    from kinetoscope.show.text_table import columns_of

    check_categories(trace, selection.categories)
    averages: Averages = trace.key_averages(
        group_by_input_shape=selection.by_shape,
        group_by_stack_n=selection.by_stack,
        group_by_overload_name=selection.by_overload,
        include_python_functions="python_function" in selection.categories,
    )
    rows = averages.to_polars()
    on_device = columns_of(averages).counts_as_device
    self_device_total = float(sum(rows["self_device_time_total"].filter(pl.Series(on_device, dtype=pl.Boolean))))
    has_device = bool((rows["device_time_total"] > 0).any()) or averages.use_device is not None
    sort = sort_column(selection.sort or ("self_device_time_total" if self_device_total > 0 else "self_cpu_time_total"))
    self_cpu_total = float(rows["self_cpu_time_total"].sum())

    if selection.categories:
        rows = rows.filter(_in_categories(trace, rows, selection.categories))
    if selection.pattern is not None:
        matches = pattern_of(selection.pattern).search
        rows = rows.filter(pl.Series([matches(name) is not None for name in rows["key"]], dtype=pl.Boolean))
    rows = rows.sort(sort, descending=sort != "key", maintain_order=True)
    return OperatorTable(
        rows=rows.head(selection.limit) if selection.limit else rows,
        matching=len(rows),
        self_cpu_total=self_cpu_total,
        self_device_total=self_device_total,
        sorted_by=sort,
        device=(averages.use_device or "device") if has_device else None,
        memory=averages.profile_memory,
        percentiles=percentiles,
        full_names=full_names,
    )


def check_categories(trace: Trace, categories: tuple[str, ...]) -> None:
    """Check that a trace has rows of some categories.

    Raises:
        CommandError: it lacks one; the message lists those there are.
    """
    if not categories:
        return
    present = sorted(trace.events["category"].drop_nulls().unique().to_list())
    for category in categories:
        if category not in present:
            close = get_close_matches(category, present, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise CommandError(f"--category {category}: not in this trace; {hint}it has {', '.join(present) or 'none'}")


def _in_categories(trace: Trace, rows: pl.DataFrame, categories: tuple[str, ...]) -> pl.Series:
    chosen = trace.events.filter(pl.col("category").is_in(categories)).select(
        # Steps are shown as one row, as torch does.
        pl.col("name").str.replace(STEP_PATTERN, ALL_STEPS),
        pl.col("stream").is_not_null().alias("on_device"),
    )
    keys = set(chosen.unique().iter_rows())
    wanted = [(key, device != "cpu") in keys for key, device in zip(rows["key"], rows["device_type"], strict=True)]
    return pl.Series(wanted, dtype=pl.Boolean)
