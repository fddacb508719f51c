"""What only the whole table can tell: slices of two halves, and where each row lies."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl

from kinetoscope.trace.issues import Issues
from kinetoscope.trace.links import LANE
from kinetoscope.trace.vocabulary import DEVICE_CATEGORIES, FRAME_CATEGORIES, MEMORY_CATEGORY

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def finish(frame: pl.DataFrame, device_type: str, rank: int | None) -> pl.DataFrame:
    """Fill what follows from other columns: where a row lies, and its rank."""
    on_device = pl.col("category").is_in(DEVICE_CATEGORIES).fill_null(False) & pl.col("phase").is_in(["X", "i"])
    is_memory = (pl.col("category") == MEMORY_CATEGORY).fill_null(False)
    on_host = pl.col("phase").is_in(["X", "i", "C"]) & ~pl.col("category").is_in(FRAME_CATEGORIES).fill_null(False)
    asked = pl.col("args").fill_null("")
    number = pl.col("process").cast(pl.Int32, strict=False)
    return frame.with_columns(
        device_type=pl.when(on_device)
        .then(pl.lit(device_type))
        .when(is_memory)
        .then("device_type")
        .when(on_host & pl.col("category").is_not_null())
        .then(pl.lit("cpu")),
        # Rows drawn for a device say so only by where they stand.
        device=pl.when(on_device & ~asked.str.contains('"device":', literal=True))
        .then(pl.coalesce("device", pl.when(number >= 0).then(number)))
        .when(on_device | (pl.col("device") >= 0))
        .then("device"),
        stream=pl.when(on_device & ~asked.str.contains('"stream":', literal=True))
        .then(pl.coalesce("stream", pl.when(pl.col("thread") >= 0).then("thread")))
        .otherwise("stream"),
        rank=pl.lit(rank, dtype=pl.Int32) if frame["rank"].null_count() == frame.height else pl.col("rank"),
    )


def device_type(frame: pl.DataFrame, use_device: Any) -> str:
    """The kind of device that a trace's device rows ran on; AMD's calls itself cuda in torch."""
    if isinstance(use_device, str):
        return use_device
    for category in frame["category"].drop_nulls().unique(maintain_order=True).to_list():
        kind = category.split("_")[0]
        if kind in ("mtia", "xpu", "hpu"):
            return str(kind)
        if kind == "privateuse1":
            return "privateuseone"
    return "cuda"


def join_halves(frame: pl.DataFrame, issues: Issues) -> pl.DataFrame:
    """Make slices of begin and end events (``B``, ``E``), innermost first on each thread, as Chrome pairs them."""
    halves = frame.filter(pl.col("phase").is_in(["B", "E"])).sort(*LANE, "start_ns", maintain_order=True)
    open_slices: list[tuple[int, int, str | None]] = []
    lane: tuple[Any, Any, Any] | None = None
    durations: dict[int, int] = {}
    arguments: dict[int, str] = {}
    ended: set[int] = set()
    columns = ("id", "phase", *LANE, "start_ns", "args")
    for row, phase, rank, process, thread, start, args in zip(*(halves[name].to_list() for name in columns), strict=True):
        if (rank, process, thread) != lane:
            lane = (rank, process, thread)
            open_slices.clear()
        if phase == "B":
            open_slices.append((row, start, args))
        elif open_slices:
            first, begin, begin_args = open_slices.pop()
            durations[first] = start - begin
            ended.add(row)
            if args:
                arguments[first] = _joined(begin_args, args)
    lonely = halves.height - 2 * len(durations)
    issues.found("begins without an end, ends without a begin", lonely)
    rows = frame["id"].to_list()
    frame = frame.with_columns(
        phase=pl.when(pl.col("id").is_in(list(durations))).then(pl.lit("X")).otherwise("phase"),
        duration_ns=pl.coalesce(pl.Series([durations.get(row) for row in rows], dtype=pl.Int64), "duration_ns"),
        args=pl.coalesce(pl.Series([arguments.get(row) for row in rows], dtype=pl.String), "args"),
    ).filter(~pl.col("id").is_in(list(ended)))
    return frame.with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))


def _joined(first: str | None, second: str) -> str:
    merged = _OBJECT.decode(first or "{}") | _OBJECT.decode(second)
    return msgspec.json.encode(merged).decode()
