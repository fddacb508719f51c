"""Which rows belong together: lanes, calls and what they launched, steps.

Ids count within one process of a job, so in a trace of several ranks the same number means different things. Whatever
joins rows by an id, or orders them by thread, takes its keys from here, where the rank is one of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from kinetoscope.trace.vocabulary import (
    ANNOTATION_CATEGORIES,
    DEVICE_ACTIVITY_CATEGORIES,
    DEVICE_CATEGORIES,
    LAUNCH_PATTERN,
    STEP_PATTERN,
)

Ints = npt.NDArray[np.int64]

LANE = ("rank", "process", "thread")
"""Columns that tell one thread or stream from another."""

NO_RANK = -1
"""Stands for an unknown rank, so that rows without one are joined too."""


def ranked(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with a rank that can be joined on: :data:`NO_RANK` where it is unknown."""
    return frame.with_columns(pl.col("rank").fill_null(NO_RANK))


def lane_numbers(frame: pl.DataFrame, thread: str = "thread") -> Ints:
    """A number from 0 for each thread or stream of each rank; unknown values count as one more.

    Args:
        frame: rows with the columns of :data:`LANE`.
        thread: column that is taken for the thread.
    """
    codes = np.zeros(frame.height, dtype=np.int64)
    for column in ("rank", "process", thread):
        ids = frame[column]
        distinct = np.sort(ids.drop_nulls().unique().to_numpy())
        code = np.where(ids.is_null(), len(distinct), np.searchsorted(distinct, ids.fill_null(0).to_numpy()))
        codes = codes * (len(distinct) + 1) + code
    # Products of three counts leave gaps, which would make larger products overflow.
    _, numbers = np.unique(codes, return_inverse=True)
    lanes: Ints = numbers.reshape(-1).astype(np.int64)
    return lanes


def is_launch() -> pl.Expr:
    """Rows that may have launched something: calls into a device's runtime or driver with a correlation id."""
    return pl.col("category").str.contains(LAUNCH_PATTERN).fill_null(False) & (pl.col("correlation") > 0)


def is_device_activity() -> pl.Expr:
    """Slices that a device executed."""
    return pl.col("category").is_in(DEVICE_ACTIVITY_CATEGORIES).fill_null(False) & pl.col("duration_ns").is_not_null()


def launches(events: pl.DataFrame) -> pl.DataFrame:
    """The calls that launch device activity, one for each rank and correlation id: the first in the table.

    Returns:
        The rows of the calls, with a rank that can be joined on.
    """
    calls = ranked(events.filter(is_launch() & pl.col("duration_ns").is_not_null()))
    return calls.unique(["rank", "correlation"], keep="first", maintain_order=True)


def launch_ids(events: pl.DataFrame, of: pl.DataFrame | None = None) -> pl.Series:
    """For each row on a device the ``id`` of the call that caused it; null elsewhere, and where no call of its rank did.

    A call and what it launched, or waited for, carry the same correlation id. Annotations on a device's rows come from no
    call.

    Args:
        events: rows among which the calls are looked for.
        of: rows that were launched; default: all of ``events``.
    """
    on_device = pl.col("stream").is_not_null() | pl.col("category").is_in(DEVICE_CATEGORIES).fill_null(False)
    is_annotation = pl.col("category").is_in(ANNOTATION_CATEGORIES).fill_null(False)
    rows = ranked(events if of is None else of).select("rank", "correlation", launched=on_device & ~is_annotation)
    calls = launches(events).select("rank", "correlation", call="id")
    found = rows.join(calls, on=["rank", "correlation"], how="left", maintain_order="left")
    return found.select(pl.when("launched").then("call")).to_series().alias("launch")


def operator_ids(events: pl.DataFrame, of: pl.DataFrame) -> pl.Series:
    """For each row of ``of`` the ``id`` of the operator of its rank that its external id names; null where none does."""
    keys = ["rank", "external_id"]
    operators = ranked(events.filter((pl.col("category") == "cpu_op") & (pl.col("external_id") > 0)))
    operators = operators.unique(keys, keep="first", maintain_order=True)
    found = ranked(of).select(keys).join(
        operators.select(*keys, operator="id"), on=keys, how="left", maintain_order="left"
    )  # fmt: skip
    return found["operator"]


def step_numbers(names: pl.Series) -> list[int]:
    """The numbers of the steps that are marked among some names, in ascending order."""
    numbers = names.str.extract(STEP_PATTERN).cast(pl.Int64, strict=False).drop_nulls().unique().sort()
    return list(map(int, numbers.to_list()))


def steps(events: pl.DataFrame) -> pl.DataFrame:
    """The steps of the program, as its host marked them: ``rank``, ``step``, ``start_ns`` and ``end_ns`` of each.

    The marks on a device's rows, which follow from those of the host, are left out.
    """
    marks = events.filter(
        pl.col("name").str.contains(STEP_PATTERN) & pl.col("duration_ns").is_not_null() & pl.col("stream").is_null()
    )
    return ranked(marks).select(
        "rank",
        pl.col("name").str.extract(STEP_PATTERN).cast(pl.Int64, strict=False).alias("step"),
        "start_ns",
        end_ns=pl.col("start_ns") + pl.col("duration_ns"),
    )
