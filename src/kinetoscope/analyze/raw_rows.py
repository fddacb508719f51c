"""From a trace's table to the rows that operators are made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl

from kinetoscope.analyze.operator_list import concatenate, operators
from kinetoscope.analyze.operators import Operators
from kinetoscope.analyze.raw_events import CPU, Ints, RawEvents, TextColumn
from kinetoscope.trace import links
from kinetoscope.trace.devices import DEVICE_NAMES, DEVICE_NUMBERS
from kinetoscope.trace.vocabulary import ANNOTATION_CATEGORIES, FRAME_CATEGORIES, MEMORY_EVENTS

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace

# Rows that are operators themselves: their external id is their own number, not that of the operator behind them.
OWN_CATEGORIES = ("cpu_op", "user_annotation", "python_function", "cpu_instant_event", "overhead")


def operators_of(trace: Trace) -> Operators:
    """The operators of a trace, those of one rank after those of the other: nothing is linked or nested across ranks."""
    events = links.ranked(trace.events)
    ranks = events["rank"].unique(maintain_order=True).to_list() or [links.NO_RANK]
    raws = [raw_events(events.filter(pl.col("rank") == rank) if len(ranks) > 1 else events) for rank in ranks]
    use_device = _use_device(trace, raws)
    return concatenate([operators(raw, use_device) for raw in raws])


def raw_events(events: pl.DataFrame) -> RawEvents:
    """Rows of one rank in the form that :func:`kinetoscope.analyze.operator_list.operators` takes.

    Taken are slices and memory events, not flows, counters and the viewer's frames.
    """
    events = events.filter(
        (pl.col("duration_ns").is_not_null() | pl.col("name").is_in(MEMORY_EVENTS))
        & ~pl.col("category").is_in(FRAME_CATEGORIES).fill_null(False)
    )
    own = pl.col("category").is_in(OWN_CATEGORIES).fill_null(False)
    events = events.with_columns(
        own_id=pl.when(own).then("external_id").otherwise("correlation").fill_null(0),
        linked_id=pl.when(own).then(0).otherwise(pl.col("external_id").fill_null(0)),
        lane=pl.coalesce("record_thread", "thread"),
        number=pl.col("device_type").replace_strict(DEVICE_NUMBERS, default=CPU, return_dtype=pl.Int64).fill_null(CPU),
    )
    real_threads = events["record_thread"].null_count() == 0
    names = TextColumn.encode(events["name"].fill_null("").to_list())
    start = _ints(events["start_ns"])
    memory = events["name"].is_in(MEMORY_EVENTS).fill_null(False).to_numpy()
    device_type = _ints(events["number"])
    is_python = (events["category"] == "python_function").fill_null(False).to_numpy()
    stacks = _text(events["stack"], "")
    return RawEvents(
        names=names.values,
        name=names.codes,
        start_ns=start - (start.min() if len(start) else 0),
        end_ns=start - (start.min() if len(start) else 0) + _ints(events["duration_ns"]),
        # Real thread numbers where the trace has them: forward_thread counts in those.
        thread=_ints(events["record_thread"]) if real_threads else links.lane_numbers(events, "lane"),
        device_type=device_type,
        device=_ints(events["device"]),
        linked_id=_ints(events["linked_id"]),
        is_async=events["is_async"].fill_null(False).to_numpy(),
        is_annotation=events["category"].is_in(ANNOTATION_CATEGORIES).fill_null(False).to_numpy(),
        is_python=is_python,
        is_hidden=np.zeros(events.height, dtype=bool),
        is_overhead=(events["category"] == "overhead").fill_null(False).to_numpy(),
        bytes=np.where(memory, _ints(events["bytes"]), 0),
        flops=_ints(events["flops"]) if events["flops"].null_count() < events.height else None,
        columns={
            "own_id": _ints(events["own_id"]),
            "scope": _ints(events["scope"]),
            # Next to Python rows, which give stacks themselves, only what has none of them comes with a stack.
            "stacks": None if is_python.any() else stacks,
            "script_stacks": stacks if is_python.any() else None,
            "sequence_number": _ints(events["sequence_number"], -1),
            "forward_thread": _ints(events["forward_thread"]),
            "shapes": _text(events["input_shapes"], "[]"),
            "overloads": _text(events["overload_name"], ""),
        },
    )


def _use_device(trace: Trace, raws: Sequence[RawEvents]) -> str | None:
    """Name of the device that was profiled, or that most rows ran on; None where none did."""
    told = trace.metadata.options.get("use_device")
    if told is not None:
        return str(told)
    kinds = np.concatenate([raw.device_type[(raw.device_type != CPU) & ~raw.is_memory_event] for raw in raws])
    if not len(kinds):
        return None
    numbers, counts = np.unique(kinds, return_counts=True)
    return DEVICE_NAMES[int(numbers[counts.argmax()])]


def flat_shapes(shapes: TextColumn) -> TextColumn:
    """Input shapes as torch's tables show them: a list of tensors counts as ``[]``."""
    decoded = [_flat(text) for text in shapes.values]
    flat = TextColumn.encode(decoded)
    return TextColumn(flat.values, flat.codes[shapes.codes] if len(shapes.codes) else shapes.codes)


def _flat(text: str) -> str:
    # Nested lists are rare; most texts need no decoding.
    if "[[[" not in text and ", [[" not in text and ",[[" not in text:
        return text
    try:
        inputs: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return str([[] if any(isinstance(size, list) for size in one) else one for one in inputs if isinstance(one, list)])


def _ints(series: pl.Series, missing: int = 0) -> Ints:
    return np.asarray(series.fill_null(missing).cast(pl.Int64).to_numpy(), dtype=np.int64)


def _text(series: pl.Series, missing: str) -> TextColumn | None:
    if series.null_count() == series.len():
        return None
    return TextColumn.encode(series.fill_null(missing).to_list())
