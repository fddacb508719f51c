"""Flows for tables that have none: from launch to kernel, from forward to backward operator."""

from __future__ import annotations

import polars as pl

from kinetoscope.trace import links, schema


def derive(events: pl.DataFrame) -> pl.DataFrame:
    """The flows that follow from a table, as rows of their own: a start (``s``) and an end (``f``) each.

    From a runtime or driver call to each slice on a device with its correlation id, of the same rank. From the last
    forward operator with a sequence number, on the thread that the backward operator names, to the first backward
    operator with that number.
    """
    slices = events.filter(pl.col("duration_ns").is_not_null())
    launches = _launches(slices)
    passes = _passes(slices)
    if not launches.height and not passes.height:
        return schema.empty()
    pairs = pl.concat([launches, passes])
    # Numbers of their own: correlation ids repeat in merged traces.
    pairs = pairs.with_columns(flow_id=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
    ends = [
        pairs.select(
            "flow_id",
            "category",
            name=pl.col("category"),
            phase=pl.lit(phase),
            rank=pl.when(pl.col("rank") != links.NO_RANK).then("rank"),
            process=f"process{suffix}",
            thread=f"thread{suffix}",
            start_ns=f"start_ns{suffix}",
        )
        for phase, suffix in (("s", ""), ("f", "_end"))
    ]
    return schema.conform(pl.concat(ends))


_ENDS = ["rank", "process", "thread", "start_ns", "process_end", "thread_end", "start_ns_end", "category"]


def _launches(slices: pl.DataFrame) -> pl.DataFrame:
    activity = links.ranked(slices.filter(links.is_device_activity()))
    activity = activity.with_columns(links.launch_ids(slices, activity))
    pairs = activity.join(slices, left_on="launch", right_on="id", suffix="_call", maintain_order="left")
    return pairs.select(
        "rank", process="process_call", thread="thread_call", start_ns="start_ns_call",
        process_end="process", thread_end="thread", start_ns_end="start_ns", category=pl.lit("ac2g"),
    ).select(_ENDS)  # fmt: skip


def _passes(slices: pl.DataFrame) -> pl.DataFrame:
    numbered = links.ranked(slices.filter((pl.col("sequence_number") >= 0) & (pl.col("category") == "cpu_op")))
    is_backward = (pl.col("forward_thread") > 0) | (pl.col("scope") == 1).fill_null(False)
    is_backward = is_backward.fill_null(False)
    keys = ["rank", "sequence_number"]
    if numbered["record_thread"].null_count() == 0:
        # Sequence numbers count by thread.
        numbered = numbered.with_columns(forward=pl.when(is_backward).then("forward_thread").otherwise("record_thread"))
        keys = [*keys, "forward"]
    numbered = numbered.sort("start_ns", maintain_order=True)
    forward = numbered.filter(~is_backward).unique(keys, keep="last", maintain_order=True)
    backward = numbered.filter(is_backward).unique(keys, keep="first", maintain_order=True)
    pairs = backward.join(forward, on=keys, suffix="_forward", maintain_order="left")
    pairs = pairs.filter(pl.col("start_ns_forward") <= pl.col("start_ns"))
    return pairs.select(
        "rank", process="process_forward", thread="thread_forward", start_ns="start_ns_forward",
        process_end="process", thread_end="thread", start_ns_end="start_ns", category=pl.lit("fwdbwd"),
    ).select(_ENDS)  # fmt: skip
