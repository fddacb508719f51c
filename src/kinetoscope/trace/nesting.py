"""Which slice lies in which: the innermost slice of the same lane that encloses another wholly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from kinetoscope.trace.links import LANE, lane_numbers

Ints = npt.NDArray[np.int64]

_RUN = 1 << 16
# Layers that a slice is tried in: more are full of slices that never end.
_MOST_LAYERS = 200


def nest(lane: Ints, start: Ints, duration: Ints) -> tuple[Ints, Ints]:
    """Find the parent and the depth of every slice.

    Slices of a lane (a thread or a stream) are taken by start, the longer first, equal ones in the given order. A
    slice's parent is the latest slice before it, not ended when it starts, that does not end before it. So a slice of no
    length at the very end of another lies outside it, and slices that overlap without nesting are no relations.

    Args:
        lane: number of the lane, for each slice.
        start: start in nanoseconds.
        duration: length in nanoseconds.

    Returns:
        Index of each slice's parent, -1 at the top, and its depth, 0 at the top.
    """
    count = len(start)
    parent = np.full(count, -1, dtype=np.int64)
    depth = np.zeros(count, dtype=np.int64)
    if not count:
        return parent, depth
    end = start + duration
    order = np.lexsort((-end, start, lane))
    # A stack over plain lists: about 0.25 us a slice, which numpy cannot better since each step needs the one before.
    # Lists of Python integers take ten times the room of arrays, so a run of slices at a time.
    stack: list[int] = []
    ends_of_stack: list[int] = []
    current = None
    for low in range(0, count, _RUN):
        rows = order[low : low + _RUN]
        parents, depths = [-1] * len(rows), [0] * len(rows)
        runs = zip(start[rows].tolist(), end[rows].tolist(), lane[rows].tolist(), rows.tolist(), strict=True)
        for place, (first, last, own_lane, row) in enumerate(runs):
            if own_lane != current:
                current = own_lane
                stack.clear()
                ends_of_stack.clear()
            while stack and (first >= ends_of_stack[-1] or last > ends_of_stack[-1]):
                stack.pop()
                ends_of_stack.pop()
            if stack:
                parents[place] = stack[-1]
                depths[place] = len(stack)
            stack.append(row)
            ends_of_stack.append(last)
        parent[rows] = parents
        depth[rows] = depths
    return parent, depth


def innermost(lane: Ints, start: Ints, end: Ints, parent: Ints, of_lane: Ints, at: Ints) -> Ints:
    """Find the innermost slice that lies around each of some moments.

    A slice lies around the moment that it begins, not around the one that it ends.

    Args:
        lane: number of the lane, for each slice.
        start: start of each slice.
        end: end of each slice.
        parent: index of each slice's parent, -1 at the top.
        of_lane: lane of each moment.
        at: time of each moment.

    Returns:
        Index of a slice for each moment, -1 for none.
    """
    found = np.full(len(at), -1, dtype=np.int64)
    order = np.lexsort((-end, start, lane))
    bounds = np.searchsorted(lane[order], np.unique(of_lane), side="left")
    for number, low in zip(np.unique(of_lane).tolist(), bounds.tolist(), strict=True):
        own = order[low : np.searchsorted(lane[order], number, side="right")]
        moments = np.flatnonzero(of_lane == number)
        place = np.searchsorted(start[own], at[moments], side="right") - 1
        slices = np.where(place >= 0, own[place], -1) if len(own) else np.full(len(moments), -1)
        while len(over := np.flatnonzero((slices >= 0) & (end[slices] <= at[moments]))):
            slices[over] = parent[slices[over]]
        found[moments] = slices
    return found


def layers(lane: Ints, start: Ints, duration: Ints, parent: Ints) -> Ints:
    """Spread slices that overlap without nesting over layers, in each of which all slices of a lane nest.

    A slice goes into the first layer that it fits in, taken by start, the longer first; where all nest that is layer 0.

    Args:
        lane: number of the lane, for each slice.
        start: start in nanoseconds.
        duration: length in nanoseconds.
        parent: index of each slice's parent, -1 at the top, as :func:`nest` gives it.

    Returns:
        Number of each slice's layer, from 0.
    """
    layer = np.zeros(len(start), dtype=np.int64)
    end = start + duration
    order = np.lexsort((-end, start, lane))
    # Under one parent, a slice that begins before the one before it has ended: lying in it, it would be its child.
    siblings = order[np.lexsort((np.arange(len(order)), parent[order], lane[order]))]
    before, after = siblings[:-1], siblings[1:]
    overlaps = (lane[before] == lane[after]) & (parent[before] == parent[after]) & (start[after] < end[before])
    crossed = np.unique(lane[after[overlaps]])
    for number in crossed.tolist():
        rows = order[lane[order] == number]
        stacks: list[list[int]] = []
        place = []
        for first, last in zip(start[rows].tolist(), end[rows].tolist(), strict=True):
            for depth in range(max(0, len(stacks) - _MOST_LAYERS), len(stacks)):
                stack = stacks[depth]
                while stack and stack[-1] <= first:
                    stack.pop()
                if not stack or last <= stack[-1]:
                    break
            else:
                depth = len(stacks)
                stacks.append([])
            stacks[depth].append(last)
            place.append(depth)
        layer[rows] = place
    return layer


def nested(frame: pl.DataFrame) -> pl.DataFrame:
    """Fill ``parent`` and ``depth`` of a table whose ``id`` is the number of the row.

    Slices nest by rank, process and thread, and instants as slices of no length; other rows get null.
    """
    rows = frame.select("id", *LANE, "start_ns", "duration_ns", "phase").filter(
        pl.col("duration_ns").is_not_null() | (pl.col("phase") == "i")
    )
    lane = lane_numbers(rows)
    start = rows["start_ns"].to_numpy()
    parent, depth = nest(lane, start, rows["duration_ns"].fill_null(0).to_numpy())
    ids = rows["id"].to_numpy()
    parents = np.full(frame.height, -1, dtype=np.int64)
    depths = np.full(frame.height, -1, dtype=np.int32)
    parents[ids] = np.where(parent >= 0, ids[parent], -1) if len(ids) else -1
    depths[ids] = depth
    return frame.with_columns(
        parent=pl.when(pl.Series(parents) >= 0).then(pl.Series(parents)),
        depth=pl.when(pl.Series(depths) >= 0).then(pl.Series(depths)),
    )
