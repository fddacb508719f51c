"""Operators as torch.profiler lists them: nested, with kernels, memory, self times and stacks.

Everything that ``events()`` and ``key_averages()`` say comes from here, computed as arrays over all events at once. Where torch
adds floats in a certain order, so do we: the numbers are equal to the last bit. :mod:`kinetoscope.analyze.operator_list` makes
the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kinetoscope.analyze.operator_columns import OperatorColumns
from kinetoscope.analyze.raw_events import CPU, Bools, Floats, Ints, RawEvents

BACKWARD_SCOPE = 1


@dataclass(frozen=True)
class Kernels:
    """Which kernels each event launched: raw rows ``rows[offsets[i]:offsets[i + 1]]`` for event i."""

    offsets: Ints
    rows: Ints


@dataclass(frozen=True, kw_only=True)
class Operators(OperatorColumns):
    """The list of events that torch.profiler would give, in its order (by start, longest first).

    Times are float microseconds, as torch's interface has them; bytes are integers.
    """

    raw: RawEvents
    use_device: str | None
    names: list[str]
    """Distinct names, all steps as one."""
    kept: Ints
    """Raw rows that became events or were merged into one."""
    kernels: Kernels
    python_caller: Mapping[int, int] = field(default_factory=dict)
    """Raw row of a Python call -> that of its caller, -1 at the top."""
    parts: tuple[Operators, ...] = ()
    """The lists that this one was put together from, if it was."""
    stack_filter: Callable[[str], bool] = lambda frame: True
    _stack_cache: dict[int, list[str]] = field(default_factory=dict, repr=False, compare=False)

    # the tree

    @cached_property
    def children(self) -> tuple[Ints, Ints]:
        """Children of event i: ``children[1][children[0][i]:children[0][i + 1]]``, in order of start."""
        return grouped(self.parent, len(self))

    # times

    @cached_property
    def elapsed_us(self) -> Floats:
        """End minus start of each event."""
        return self.end_us - self.start_us

    @cached_property
    def counts_on_host(self) -> Bools:
        """Events that have self values: host events that ended where they began."""
        return np.asarray((self.device_type == CPU) & ~self.is_async, dtype=np.bool_)

    @cached_property
    def cpu_time_total(self) -> Floats:
        """Duration of host events, 0 for device events."""
        return np.where(self.device_type == CPU, self.elapsed_us, 0.0)

    @cached_property
    def self_cpu_time_total(self) -> Floats:
        """Duration less the children's; 0 for async and device events."""
        return np.where(self.counts_on_host, self.cpu_time_total - self._over_children(self.cpu_time_total), 0.0)

    @cached_property
    def self_cpu_memory_usage(self) -> Ints:
        """Host bytes allocated less freed, without the children's."""
        return self._without_children(self.cpu_memory_usage)

    @cached_property
    def self_device_memory_usage(self) -> Ints:
        """Device bytes allocated less freed, without the children's."""
        return self._without_children(self.device_memory_usage)

    @cached_property
    def is_fallback(self) -> Bools:
        """Events whose device time torch measured itself instead of by kernels (torch calls them legacy)."""
        fallback = self.raw.fallback_device_us
        if fallback is None:
            return np.zeros(len(self), dtype=bool)
        return (fallback[self.row] > 0) & self.counts_on_host & ~self.is_memory

    @cached_property
    def device_time_total(self) -> Floats:
        """Time of the kernels of an operator and its children; duration for device events."""
        total = np.zeros(len(self))
        if not self.use_device:
            return total
        on_host = self.device_type == CPU
        total = np.where(on_host, self._kernel_time(), self.elapsed_us)
        # Children come after their parents, so the deepest level is complete when the one above it needs it.
        depth = self._depth
        offsets, children = self.children
        sizes = np.diff(offsets)
        for level in range(int(depth.max(initial=0)), -1, -1):
            parents = np.flatnonzero((depth == level) & (sizes > 0) & ~self.is_fallback)
            ends = np.cumsum(sizes[parents])
            below = np.arange(ends[-1] if len(ends) else 0) + np.repeat(
                offsets[parents] - ends + sizes[parents], sizes[parents]
            )
            total[parents] += _sums(total[children[below]], ends - sizes[parents], ends)
        total[self.is_async] = 0.0
        return total

    @cached_property
    def self_device_time_total(self) -> Floats:
        """Device time of an operator's own kernels; duration for device events."""
        if not self.use_device:
            return np.zeros(len(self))
        own = self.device_time_total - self._over_children(self.device_time_total)
        return np.where(self.is_async, 0.0, np.where(self.device_type == CPU, own, self.device_time_total))

    @cached_property
    def flops(self) -> Ints:
        """FLOPs of each event, counted once: at the outermost operator that has a formula, and not below it."""
        raw = self.raw
        if raw.flops is None:
            return np.zeros(len(self), dtype=np.int64)
        counted = np.where(self.is_memory, 0, raw.flops[self.row])
        if raw.formula_flops is None:
            return counted
        formula = np.where(self.is_memory, -1, raw.formula_flops[self.row])
        has_formula = (formula >= 0).tolist()
        below: list[bool] = []
        # Parents come before their children: one pass over plain lists, 0.1 us an event.
        for above in self.parent.tolist():
            below.append(above >= 0 and (below[above] or has_formula[above]))
        return np.where(below, 0, np.where(formula >= 0, formula, counted))

    def _kernel_time(self) -> Floats:
        raw = self.raw
        # The difference of float microseconds, not the float of the difference: torch's order of operations.
        microseconds = raw.end_ns / 1000 - raw.start_ns / 1000
        time = _sums(microseconds[self.kernels.rows], self.kernels.offsets[:-1], self.kernels.offsets[1:])
        if raw.fallback_device_us is not None:
            time = np.where(self.is_fallback, time + raw.fallback_device_us[self.row], time)
        return time

    @cached_property
    def _depth(self) -> Ints:
        depth = np.zeros(len(self), dtype=np.int64)
        above = self.parent.copy()
        while (inside := above >= 0).any():
            depth[inside] += 1
            above[inside] = self.parent[above[inside]]
        return depth

    def _over_children(self, values: Floats) -> Floats:
        offsets, children = self.children
        return _sums(values[children], offsets[:-1], offsets[1:])

    def _without_children(self, values: Ints) -> Ints:
        inside = self.parent >= 0
        below = np.zeros(len(self), dtype=np.int64)
        np.add.at(below, self.parent[inside], values[inside])
        return np.where(self.counts_on_host, values - below, 0)

    @cached_property
    def id(self) -> Ints:
        """torch's number of each event; memory events are numbered after all others."""
        if self.parts:
            return np.concatenate([part.id for part in self.parts])
        first_free = int(self.raw.own_id[self.kept].max(initial=0)) + 1
        return np.where(self.is_memory, first_free + self.memory_number, self.raw.own_id[self.row])

    # texts

    @cached_property
    def stack_key(self) -> Ints:
        """Which stack each event has: the Python call around it; backward operators take their forward operator's.

        -1 is the empty stack, below it are the stacks of TorchScript. Decoded by :meth:`stack`.
        """
        key = self.python_parent if self.raw.stacks is None else np.where(self.is_memory, -1, self.raw.stacks.codes[self.row])
        scripts = self.raw.script_stacks
        if scripts is not None:
            empty = scripts.values.index("") if "" in scripts.values else -1
            code = np.where(self.is_memory, empty, scripts.codes[self.row])
            key = np.where(code == empty, key, -2 - code)
        if not (key != -1).any():
            return key
        return self._forward_stacks(key)

    def _forward_stacks(self, key: Ints) -> Ints:
        scope = np.where(self.is_memory, 0, self.raw.scope[self.row]).tolist()
        sequence = np.where(self.is_memory, -1, self.raw.sequence_number[self.row]).tolist()
        forward_thread = np.where(self.is_memory, self.thread, self.raw.forward_thread[self.row]).tolist()
        thread, parent, keys = self.thread.tolist(), self.parent.tolist(), key.tolist()
        backward: list[int] = []
        forward_stack: dict[tuple[int, int], int] = {}
        # One pass over plain lists, about 0.3 us an event; parents come before their children.
        for position, above in enumerate(parent):
            node = position if scope[position] == BACKWARD_SCOPE else backward[above] if above >= 0 else -1
            backward.append(node)
            if node < 0:
                forward_stack.setdefault((sequence[position], thread[position]), keys[position])
        for position, node in enumerate(backward):
            if node >= 0:
                keys[position] = forward_stack.get((sequence[node], forward_thread[node]), -1)
        return np.array(keys, dtype=np.int64)

    def stack(self, key: int) -> list[str]:
        """Frames of a stack, innermost first."""
        frames = self._stack_cache.get(key)
        if frames is None:
            frames = self._stack_cache[key] = [frame for frame in self._frames(key) if self.stack_filter(frame)]
        return frames

    def _frames(self, key: int) -> list[str]:
        if key == -1:
            return []
        if key < -1:
            assert self.raw.script_stacks is not None
            return self.raw.script_stacks.values[-2 - key].split("\n")
        if self.raw.stacks is not None:
            text = self.raw.stacks.values[key]
            return text.split("\n") if text else []
        frames = []
        while key >= 0:
            frames.append(self.raw.names[self.raw.name[key]])
            key = self.python_caller.get(key, -1)
        return frames


def grouped(owner: Ints, count: int) -> tuple[Ints, Ints]:
    """Offsets and members: members of group g are ``members[offsets[g]:offsets[g + 1]]``; owner -1 belongs to none."""
    members = np.flatnonzero(owner >= 0)
    sizes = np.bincount(owner[members], minlength=count)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return offsets, members[np.argsort(owner[members], kind="stable")]


def _sums(values: Floats, low: Ints, high: Ints) -> Floats:
    """Sum of ``values[low[i]:high[i]]`` for each i, as Python's ``sum`` gives it.

    Python adds floats from left to right, and since 3.12 with compensation; numpy adds pairwise. The last bit differs,
    and with it now and then the last digit of a table, so groups of more than two go through ``sum`` itself.
    """
    size = high - low
    result = np.zeros(len(low))
    one = size == 1
    result[one] = values[low[one]]
    two = size == 2
    result[two] = values[low[two]] + values[low[two] + 1]
    many = np.flatnonzero(size > 2)
    if len(many):
        plain = values.tolist()
        slices = zip(low[many].tolist(), high[many].tolist(), strict=True)
        result[many] = [sum(plain[first:last]) for first, last in slices]
    return result
