"""Who called what, added up: a tree of stacks with the time, device time, bytes and calls of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from kinetoscope.trace import links
from kinetoscope.trace.nesting import nest
from kinetoscope.trace.vocabulary import ALL_STEPS, DEVICE_CATEGORIES, FRAME_CATEGORIES, STEP_PATTERN

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace

Ints = npt.NDArray[np.int64]

METRICS = {"self_cpu_time_total": "cpu_ns", "self_device_time_total": "device_ns", "bytes": "bytes", "calls": "calls"}
"""Name of a metric -> column of the nodes. Times are written as whole microseconds in collapsed stacks."""


@dataclass(frozen=True)
class CallTree:
    """The stacks of a trace, those of equal frames put together.

    ``nodes`` has a row for each stack: ``node`` (its number, parents before children), ``parent`` (null at the root),
    ``frame`` (the innermost frame), ``cpu_ns`` (time on the host without that of the frames below), ``device_ns`` (time of
    the kernels and copies that it launched, on nodes of their own), ``bytes`` (allocated, without what was freed) and
    ``calls``.
    """

    nodes: pl.DataFrame

    def frames(self, node: int) -> list[str]:
        """The frames of a stack, the innermost first."""
        return self._walk(node, self.nodes["frame"].to_list(), self.nodes["parent"].to_list())

    def stacks(self) -> Iterator[list[str]]:
        """The frames of every node in turn, the innermost first: one stack at a time, since all of them would not fit."""
        frame, parent = self.nodes["frame"].to_list(), self.nodes["parent"].to_list()
        return (self._walk(node, frame, parent) for node in range(len(frame)))

    @staticmethod
    def _walk(node: int, frame: Sequence[str], parent: Sequence[int | None]) -> list[str]:
        found = []
        at: int | None = node
        while at is not None:
            found.append(frame[at])
            at = parent[at]
        return found


def call_tree(trace: Trace) -> CallTree:
    """Add up a trace by its stacks.

    A stack is the slices around a row on its own thread, Python calls among them where they were recorded; where the
    operators carry their stack as text instead, its frames come before the outermost of them. Steps count as one frame,
    ``ProfilerStep*``. Device activity stands below the call that launched it (by rank and correlation id), else below
    the operator that it names, else alone.
    """
    events = trace.events.with_columns(name=pl.col("name").fill_null("(no name)").str.replace(STEP_PATTERN, ALL_STEPS))
    is_slice = pl.col("duration_ns").is_not_null() & pl.col("start_ns").is_not_null()
    on_device = pl.col("category").is_in(DEVICE_CATEGORIES).fill_null(False)
    is_host = is_slice & ~on_device & ~pl.col("category").is_in(FRAME_CATEGORIES).fill_null(False)
    host = events.filter(is_host)
    activity = events.filter(is_slice & links.is_device_activity())
    memory = events.filter((pl.col("bytes") > 0) & pl.col("duration_ns").is_null() & pl.col("start_ns").is_not_null())

    lane = links.lane_numbers(pl.concat([host.select(links.LANE), memory.select(links.LANE)]))
    rows = host.height
    start, duration = host["start_ns"].to_numpy(), host["duration_ns"].to_numpy()
    both = np.concatenate([start, memory["start_ns"].to_numpy()])
    length = np.concatenate([duration, np.zeros(memory.height, dtype=np.int64)])
    parent, depth = nest(lane, both, length)
    inside = parent[:rows] >= 0
    self_time = duration.copy()
    np.subtract.at(self_time, parent[:rows][inside], duration[inside])

    tree = _Tree()
    node = tree.add_host(host, parent[:rows], depth[:rows])
    tree.count("cpu_ns", node, np.maximum(self_time, 0))
    tree.count("calls", node, np.ones(rows, dtype=np.int64))
    of_memory = tree.or_alone(_taken(node, parent[rows:]), tree.codes(memory["name"]))
    tree.count("bytes", of_memory, memory["bytes"].to_numpy())
    of_activity = tree.add(_taken(node, _launchers(host, activity)), tree.codes(activity["name"]))
    tree.count("device_ns", of_activity, activity["duration_ns"].to_numpy())
    tree.count("calls", of_activity, np.ones(activity.height, dtype=np.int64))
    return CallTree(tree.frame())


class _Tree:
    """Nodes by number, parents before children."""

    def __init__(self) -> None:
        self.parents: list[Ints] = []
        self.names: list[Ints] = []
        self.height = 0
        self.texts: dict[str, int] = {}
        self.counted: list[tuple[str, Ints, Ints]] = []

    def codes(self, names: pl.Series) -> Ints:
        """Numbers of texts."""
        distinct = names.unique(maintain_order=True)
        numbers = np.array([self.texts.setdefault(text, len(self.texts)) for text in distinct.to_list()], dtype=np.int64)
        places = names.cast(pl.Enum(distinct)).to_physical().cast(pl.Int64).to_numpy()
        codes: Ints = numbers[places] if len(numbers) else places
        return codes

    def add(self, parent: Ints, name: Ints) -> Ints:
        """The nodes of some rows, by the node above and the frame; made where there are none yet."""
        if not len(parent):
            return np.zeros(0, dtype=np.int64)
        pairs, place = np.unique(np.stack([parent, name]), axis=1, return_inverse=True)
        self.parents.append(pairs[0])
        self.names.append(pairs[1])
        nodes: Ints = self.height + place.reshape(-1)
        self.height += pairs.shape[1]
        return nodes

    def add_host(self, host: pl.DataFrame, parent: Ints, depth: Ints) -> Ints:
        """The nodes of nested rows, from the outermost inwards."""
        name = self.codes(host["name"])
        prefixes = self._prefixes(host)
        node = np.full(host.height, -1, dtype=np.int64)
        told = np.zeros(host.height, dtype=bool)
        order = np.argsort(depth, kind="stable")
        bounds = np.searchsorted(depth[order], np.arange(int(depth.max(initial=-1)) + 2))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = order[low:high]
            above = parent[rows]
            at = np.where(above >= 0, node[above], -1)
            told[rows] = (above >= 0) & told[above]
            if prefixes is not None:
                stack, frames = prefixes
                new = ~told[rows] & (stack[rows] >= 0)
                told[rows] |= new
                at[new] = self._below_stacks(at[new], stack[rows[new]], frames)
            node[rows] = self.add(at, name[rows])
        return node

    def _prefixes(self, host: pl.DataFrame) -> tuple[Ints, list[list[int]]] | None:
        """For each row the number of its stack as text, -1 for none, and the frames of each stack, the outermost first."""
        distinct = host["stack"].drop_nulls().unique(maintain_order=True)
        if not len(distinct):
            return None
        codes = host["stack"].cast(pl.Enum(distinct)).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        frames = [
            [self.texts.setdefault(frame, len(self.texts)) for frame in reversed(text.split("\n")) if frame]
            for text in distinct.to_list()
        ]
        return codes, frames

    def _below_stacks(self, at: Ints, stack: Ints, frames: list[list[int]]) -> Ints:
        """The nodes of rows' stacks below the nodes that they stand at, a frame of all of them at a time."""
        deepest = max((len(frames[number]) for number in np.unique(stack).tolist()), default=0)
        table = np.full((len(frames), deepest), -1, dtype=np.int64)
        for number in np.unique(stack).tolist():
            table[number, : len(frames[number])] = frames[number]
        for place in range(deepest):
            has = table[stack, place] >= 0
            at = at.copy()
            at[has] = self.add(at[has], table[stack[has], place])
        return at

    def or_alone(self, node: Ints, name: Ints) -> Ints:
        """The nodes themselves, and at the root a node of the given frame for what has none."""
        alone = node < 0
        node = node.copy()
        node[alone] = self.add(node[alone], name[alone])
        return node

    def count(self, column: str, node: Ints, value: Ints) -> None:
        """Add values to nodes."""
        self.counted.append((column, node, value))

    def frame(self) -> pl.DataFrame:
        """The nodes with their sums; equal stacks of different levels are one."""
        none = np.zeros(0, dtype=np.int64)
        parent, name = np.concatenate([none, *self.parents]), np.concatenate([none, *self.names])
        merged = _merge(parent, name)
        height = int(merged.max(initial=-1)) + 1
        first = np.zeros(height, dtype=np.int64)
        first[merged[::-1]] = np.arange(len(merged))[::-1]
        above = parent[first]
        sums = {column: np.zeros(height, dtype=np.int64) for column in METRICS.values()}
        for column, node, value in self.counted:
            np.add.at(sums[column], merged[node], value)
        texts = pl.Series(list(self.texts), dtype=pl.String)
        parents = pl.Series(np.where(above >= 0, merged[above], -1) if height else none)
        return pl.DataFrame(
            {
                "node": np.arange(height),
                "parent": pl.select(pl.when(parents >= 0).then(parents)).to_series(),
                "frame": texts.gather(name[first]) if height else pl.Series([], dtype=pl.String),
                **sums,
            }
        )


def _merge(parent: Ints, name: Ints) -> Ints:
    """The same number for nodes of the same stack; parents come before children, and keep to it."""
    known: dict[tuple[int, int], int] = {}
    merged = np.zeros(len(parent), dtype=np.int64)
    for place, (above, frame) in enumerate(zip(parent.tolist(), name.tolist(), strict=True)):
        merged[place] = known.setdefault((int(merged[above]) if above >= 0 else -1, frame), len(known))
    return merged


def _taken(node: Ints, place: Ints) -> Ints:
    """The nodes at some positions; -1 for none."""
    return np.append(node, -1)[place]


def _launchers(host: pl.DataFrame, activity: pl.DataFrame) -> Ints:
    """For each row of device activity the position of the host's row that launched it, -1 for none."""
    launcher = pl.select(pl.coalesce(links.launch_ids(host, activity), links.operator_ids(host, activity))).to_series()
    positions = host.select(launcher="id", position=pl.int_range(pl.len(), dtype=pl.Int64))
    found = launcher.alias("launcher").to_frame().join(positions, on="launcher", how="left", maintain_order="left")
    position: Ints = found["position"].fill_null(-1).to_numpy()
    return position
