"""A part of a trace that is a trace again: its rows numbered and nested anew."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from kinetoscope.trace.nesting import nested
from kinetoscope.trace.trace import Trace

STEP_MARK = r"^ProfilerStep#(\d+)$"
"""The annotation that a profiler with a schedule puts around a step."""

_LAUNCHES = r"_(?:runtime|driver)$"


def keep(trace: Trace, rows: pl.Series) -> Trace:
    """The rows for which a mask is true.

    ``id`` counts the rows that are left, ``parent`` and ``depth`` are those among them. Everything else, the metadata and
    the counts of what reading found, stays.

    Args:
        trace: the whole trace.
        rows: booleans, one a row of ``trace.events``; null counts as false.
    """
    kept = rows.fill_null(False)
    if kept.all():
        return trace
    frame = trace.events.filter(kept).with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))
    return Trace(nested(frame), trace.metadata, trace.issues)


def where(trace: Trace, condition: str) -> Trace:
    """The rows that a SQL condition over the columns holds for, such as ``category = 'kernel' and duration_ns > 1000``.

    Raises:
        polars.exceptions.PolarsError: it is no condition, or names a column that there is not.
    """
    return keep(trace, trace.events.select(pl.sql_expr(condition).cast(pl.Boolean)).to_series())


def categories(trace: Trace, names: Sequence[str]) -> Trace:
    """The rows of some categories."""
    return keep(trace, trace.events["category"].is_in(list(names)))


def rank(trace: Trace, number: int) -> Trace:
    """The rows of one rank."""
    return keep(trace, trace.events["rank"] == number)


def step_numbers(text: str) -> list[tuple[int, int]]:
    """Ranges of steps from text such as ``3``, ``3-5`` or ``1,4-6``; both ends belong to a range.

    Raises:
        ValueError: the text is something else.
    """
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,15})\s*(?:-\s*(\d{1,15})\s*)?", part)
        if match is None:
            raise ValueError(f"{text!r} names no steps: write 3, 3-5 or 1,4-6")
        first = int(match.group(1))
        last = int(match.group(2) or first)
        if last < first:
            raise ValueError(f"{text!r} names no steps: {first} comes after {last}")
        ranges.append((first, last))
    return ranges


def steps(trace: Trace, ranges: Sequence[tuple[int, int]]) -> Trace:
    """The rows of some steps of the program.

    A row on the host belongs to a step if it begins within the step's annotation, of its own rank. Device work belongs to
    the step that launched it, wherever it ran; where no launch is known, its start decides. An arrow belongs where it
    begins.

    Raises:
        ValueError: the trace has none of the steps; the message lists those there are.
    """
    events = trace.events.with_columns(rank=pl.col("rank").fill_null(-1))
    marks = events.filter(
        pl.col("name").str.contains(STEP_MARK) & pl.col("duration_ns").is_not_null() & pl.col("stream").is_null()
    ).select("rank", "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"),
             step=pl.col("name").str.extract(STEP_MARK).cast(pl.Int64, strict=False))  # fmt: skip
    wanted = pl.any_horizontal(pl.lit(False), *(pl.col("step").is_between(first, last) for first, last in ranges))
    chosen = marks.filter(wanted)
    if not chosen.height:
        present = sorted(set(marks["step"].drop_nulls().to_list()))
        raise ValueError(f"no such step in the trace; it has {_listed(present) or 'none'}")
    within = _within(events, chosen)
    launches = events.select("rank", "correlation", "category", within=within).filter(
        pl.col("category").str.contains(_LAUNCHES) & (pl.col("correlation") > 0)
    )
    launched = events.select("rank", "correlation").join(
        launches.unique(["rank", "correlation"], keep="first"), on=["rank", "correlation"], how="left", maintain_order="left"
    )["within"]
    on_device = events["stream"].is_not_null()
    begins = events.filter(within & (pl.col("phase") == "s")).select("rank", "category", "flow_id").unique()
    arrows = events.select("rank", "category", "flow_id").join(
        begins.with_columns(begins=True), on=["rank", "category", "flow_id"], how="left", maintain_order="left"
    )["begins"].fill_null(False)  # fmt: skip
    is_arrow = events["phase"].is_in(["s", "t", "f"])
    mask = pl.select(
        pl.when(is_arrow).then(arrows).when(on_device & launched.is_not_null()).then(launched).otherwise(within)
    ).to_series()
    part = keep(trace, mask)
    numbers = set(chosen["step"].to_list())
    part.metadata = msgspec.structs.replace(
        part.metadata, steps=[step for step in trace.metadata.steps if step in numbers] or sorted(numbers)
    )
    return part


def _within(events: pl.DataFrame, intervals: pl.DataFrame) -> pl.Series:
    """Whether each row begins in one of the intervals of its rank; the end of an interval does not belong to it."""
    found = np.zeros(events.height, dtype=bool)
    ranks, starts = events["rank"].to_numpy(), events["start_ns"].to_numpy()
    for (number,), own in intervals.group_by("rank"):
        rows = np.flatnonzero(ranks == number)
        for first, end in own.select("start_ns", "end_ns").iter_rows():
            found[rows] |= (starts[rows] >= first) & (starts[rows] < end)
    return pl.Series(found)


def _listed(numbers: Sequence[int]) -> str:
    """Numbers with runs written as ranges: 1-3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
