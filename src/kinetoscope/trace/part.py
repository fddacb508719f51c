"""Parts of a table of events: which of its rows belong to some steps, and the table that is left."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import polars as pl

from kinetoscope.trace import links
from kinetoscope.trace.nesting import nested


def keep(events: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """The rows for which a mask is true, numbered and nested anew.

    Args:
        events: a whole table.
        rows: booleans, one a row; null counts as false.
    """
    kept = rows.fill_null(False)
    if kept.all():
        return events
    return nested(events.filter(kept).with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64)))


def step_ranges(text: str) -> list[tuple[int, int]]:
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


def of_steps(events: pl.DataFrame, ranges: Sequence[tuple[int, int]]) -> tuple[pl.Series, list[int]]:
    """Which rows belong to some steps of the program.

    A row on the host belongs to a step if it begins within the step's annotation, of its own rank. Device activity belongs
    to the step that launched it, wherever it ran; where no launch is known, its start decides. A flow belongs where it
    begins.

    Returns:
        A mask over the rows, and the numbers of the steps that were found.

    Raises:
        ValueError: the trace has none of the steps; the message lists those there are.
    """
    marks = links.steps(events)
    wanted = pl.any_horizontal(pl.lit(False), *(pl.col("step").is_between(first, last) for first, last in ranges))
    chosen = marks.filter(wanted)
    if not chosen.height:
        present = sorted(set(marks["step"].drop_nulls().to_list()))
        raise ValueError(f"no such step in the trace; it has {_listed(present) or 'none'}")
    within = _within(links.ranked(events), chosen)
    launch = links.launch_ids(events)
    launched = pl.select(pl.when(launch.is_not_null()).then(within.gather(_rows_of(events, launch)))).to_series()
    flows = links.ranked(events).select("rank", "category", "flow_id")
    begins = flows.filter(within & (events["phase"] == "s")).unique().with_columns(begins=True)
    in_flow = flows.join(begins, on=flows.columns, how="left", maintain_order="left")["begins"].fill_null(False)
    is_flow = events["phase"].is_in(["s", "t", "f"])
    mask = pl.select(pl.when(is_flow).then(in_flow).when(launch.is_not_null()).then(launched).otherwise(within)).to_series()
    return mask, sorted(set(chosen["step"].to_list()))


def _rows_of(events: pl.DataFrame, ids: pl.Series) -> pl.Series:
    """Positions of ids in the table; 0 for null, whose answer nobody reads."""
    if events["id"].equals(pl.int_range(events.height, eager=True)):
        return ids.fill_null(0)
    places = events.select("id", row=pl.int_range(pl.len()))
    return pl.DataFrame({"id": ids}).join(places, on="id", how="left", maintain_order="left")["row"].fill_null(0)


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
