"""Collapsed stacks: one line a stack, as flamegraph.pl and speedscope read them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from kinetoscope.analyze.call_tree import METRICS, call_tree
from kinetoscope.common.atomic_path import atomic_path
from kinetoscope.trace.trace import Trace

_ALIASES = {"cpu": "self_cpu_time_total", "device": "self_device_time_total", "self_cuda_time_total": "self_device_time_total"}

# What separates frames and stacks; every other control character would only confuse a reader.
_BREAKS = re.compile("[;\x00-\x1f\x7f\x85\u2028\u2029]+")


def write_stacks(trace: Trace, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
    """Write one line a stack of a trace: frames from the root joined by ``;``, a space and the metric.

    Args:
        trace: the trace, added up as :func:`kinetoscope.analyze.call_tree.call_tree` says.
        path: the file.
        metric: one of :data:`kinetoscope.analyze.call_tree.METRICS`; times in whole microseconds.

    Raises:
        ValueError: no such metric; the message lists those there are.
        OSError: the file cannot be written.
    """
    column = METRICS.get(_ALIASES.get(metric, metric))
    if column is None:
        raise ValueError(f"{metric!r} is no metric of stacks; choose one of {', '.join(METRICS)}")
    tree = call_tree(trace)
    scale = 1000 if column.endswith("_ns") else 1
    values = zip(tree.stacks(), tree.nodes[column].to_list(), strict=True)
    rows = ((stack, round(value / scale)) for stack, value in values if value > 0)
    # The stacks of a tree differ from each other: each line is written as it comes.
    with atomic_path(path) as partial, _opened(partial) as out:
        out.writelines(f"{line} {value}\n" for line, value in _lines(rows))


def write_collapsed(path: str | os.PathLike[str], rows: Iterable[tuple[Sequence[str], int]]) -> None:
    """Write stacks with a whole number each; equal stacks are added up, in the order of their first appearance.

    Args:
        path: the file, which appears whole or not at all.
        rows: (frames, value) pairs, the innermost frame first. Values below one and stacks without frames are left out.
            In frames ``;`` becomes ``:`` and line breaks become spaces, since both separate.

    Raises:
        OSError: the file cannot be written.
    """
    totals: dict[str, int] = {}
    for line, value in _lines(rows):
        totals[line] = totals.get(line, 0) + value
    with atomic_path(path) as partial, _opened(partial) as out:
        out.writelines(f"{line} {value}\n" for line, value in totals.items())


def _opened(path: Path) -> TextIO:
    return open(path, "w", encoding="utf-8", errors="replace", newline="\n")


def _lines(rows: Iterable[tuple[Sequence[str], int]]) -> Iterator[tuple[str, int]]:
    frames: dict[str, str] = {}
    for stack, value in rows:
        if value <= 0 or not stack:
            continue
        for frame in stack:
            if frame not in frames:
                frames[frame] = _frame(frame)
        yield ";".join([frames[frame] for frame in reversed(stack)]), int(value)


def _frame(text: str) -> str:
    return _BREAKS.sub(lambda found: ":" if ";" in found.group() else " ", text).strip() or "(no name)"
