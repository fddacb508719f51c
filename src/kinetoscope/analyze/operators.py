"""Operators as torch.profiler sees them: filtered, linked with kernels, nested, with memory and self times.

Everything that ``events()`` and ``key_averages()`` say comes from here, computed as arrays over all events at once.
The rules are torch's (``torch.autograd.profiler._parse_kineto_results`` and ``EventList._build_tree``), so that the
numbers are equal to the last bit; where torch adds floats in a certain order, so do we.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kinetoscope.analyze.python_callers import callers, callers_of_others
from kinetoscope.trace.devices import DEVICE_NUMBERS
from kinetoscope.trace.nesting import nest
from kinetoscope.trace.vocabulary import MEMORY_EVENT, MEMORY_EVENTS, OUT_OF_MEMORY_EVENT, shown_name

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Rows that torch leaves out of its lists: the profiler's own calls and cheap getters.
_LEFT_OUT = frozenset(
    {
        MEMORY_EVENT,
        OUT_OF_MEMORY_EVENT,
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    }
)

CPU = DEVICE_NUMBERS["cpu"]
# Whose bytes count as host memory and whose as device memory.
_HOST_MEMORY = [CPU, DEVICE_NUMBERS["mkldnn"], DEVICE_NUMBERS["ideep"]]
_DEVICE_MEMORY = [DEVICE_NUMBERS[name] for name in ("cuda", "privateuseone", "hip", "xpu")]
# Whose rows are attached as kernels to the operator that launched them.
_KERNEL_DEVICES = [DEVICE_NUMBERS[name] for name in ("cuda", "privateuseone", "xpu")]

BACKWARD_SCOPE = 1


@dataclass
class RawEvents:
    """The rows of a recording that operators are made from; arrays of one length, in the recording's order.

    Times are nanoseconds after the window's start. ``linked_id`` is the number of the operator that caused a row (0: none).

    What only some questions need (numbers, scopes, shapes, stacks) is read when it is first asked for: ``load`` gives
    columns by their names.
    """

    names: list[str]
    """Distinct names; ``name`` holds indices into it."""
    name: Ints
    start_ns: Ints
    end_ns: Ints
    thread: Ints
    device_type: Ints
    device: Ints
    linked_id: Ints
    is_async: Bools
    is_annotation: Bools
    is_python: Bools
    is_hidden: Bools
    is_overhead: Bools
    bytes: Ints
    fallback_device_us: Floats | None = None
    """Device time that torch measured itself, with events instead of kernels (no CUPTI); None where kernels are known."""
    flops: Ints | None = None
    """FLOPs that the recorder counted itself, 0 where it knows no formula; None: not asked for."""
    formula_flops: Ints | None = None
    """FLOPs by our own formulas, -1 where none applies; None: not asked for, or already within ``flops``."""
    columns: dict[str, Any] = field(default_factory=dict)
    """The columns of :data:`LATER` that are there already."""
    load: Callable[[Sequence[str]], dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.name)

    @property
    def is_memory_event(self) -> Bools:
        """Allocations, frees, and allocations that failed."""
        codes = [code for code, name in enumerate(self.names) if name in MEMORY_EVENTS]
        return np.asarray(np.isin(self.name, codes), dtype=np.bool_)

    def read(self, *columns: str) -> None:
        """Read some columns of :data:`LATER` together, which is cheaper than one after the other."""
        missing = [column for column in columns if column not in self.columns]
        if missing:
            self.columns.update(dict.fromkeys(missing) if self.load is None else self.load(missing))

    def _later(self, column: str) -> Any:
        self.read(column)
        return self.columns[column]

    @property
    def own_id(self) -> Ints:
        """torch's correlation id of each row."""
        return np.asarray(self._later("own_id"))

    @property
    def scope(self) -> Ints:
        """at::RecordScope."""
        return np.asarray(self._later("scope"))

    @property
    def sequence_number(self) -> Ints:
        """Joins forward and backward operators; -1 for none."""
        return np.asarray(self._later("sequence_number"))

    @property
    def forward_thread(self) -> Ints:
        """Thread of a backward row's forward operator, counted as ``thread`` counts."""
        return np.asarray(self._later("forward_thread"))

    @property
    def shapes(self) -> TextColumn | None:
        """Input shapes as text; None: not recorded."""
        return cast("TextColumn | None", self._later("shapes"))

    @property
    def overloads(self) -> TextColumn | None:
        """Overload names; None: not recorded."""
        return cast("TextColumn | None", self._later("overloads"))

    @property
    def stacks(self) -> TextColumn | None:
        """Recorded stacks, frames innermost first joined by newlines; None: derived from the Python rows."""
        return cast("TextColumn | None", self._later("stacks"))

    @property
    def script_stacks(self) -> TextColumn | None:
        """Stacks within TorchScript, which has no Python rows; the empty text elsewhere. None: there are none at all."""
        return cast("TextColumn | None", self._later("script_stacks"))


LATER_INTS = ("own_id", "scope", "sequence_number", "forward_thread")
LATER_TEXTS = ("shapes", "overloads", "stacks", "script_stacks")
LATER = (*LATER_INTS, *LATER_TEXTS)
"""Columns of :class:`RawEvents` that are read when they are asked for."""


@dataclass
class TextColumn:
    """A dictionary-encoded column: ``codes`` index into ``values``."""

    values: list[str]
    codes: Ints

    @classmethod
    def encode(cls, texts: Sequence[str]) -> TextColumn:
        """Encode a list of texts; codes number them by first appearance."""
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        codes = np.fromiter(map(numbers.__getitem__, texts), dtype=np.int64, count=len(texts))
        return cls(list(numbers), codes)

    def __getitem__(self, row: int) -> str:
        return self.values[int(self.codes[row])]


@dataclass
class Operators:
    """The list of events that torch.profiler would give, as arrays in its order (by start, longest first).

    ``row`` is each event's place in the raw events. ``parent`` is a position in this list, -1 at the top. Times are
    float microseconds, as torch's interface has them; bytes are integers.
    """

    raw: RawEvents
    use_device: str | None
    row: Ints
    is_memory: Bools
    """True for memory that no operator covers, listed as events of its own."""
    kept: Ints
    """Raw rows that became events or were merged into one."""
    memory_number: Ints
    """Place of each memory event among them, -1 for the rest."""
    name: Ints
    """Indices into ``names``."""
    names: list[str]
    """Distinct names, ``ProfilerStep#3`` replaced by ``ProfilerStep*``."""
    start_us: Floats
    end_us: Floats
    thread: Ints
    device_type: Ints
    is_async: Bools
    parent: Ints
    cpu_memory_usage: Ints
    device_memory_usage: Ints
    kernel_offsets: Ints
    """Kernels of event i: raw rows ``kernel_rows[kernel_offsets[i]:kernel_offsets[i + 1]]``."""
    kernel_rows: Ints
    python_parent: Ints
    """Raw row of the innermost Python call around each event, -1 if none; follow with ``python_caller``."""
    python_caller: dict[int, int] = field(default_factory=dict)
    parts: tuple[Operators, ...] = ()
    """The lists that this one was put together from, if it was."""
    _stack_cache: dict[int, list[str]] = field(default_factory=dict)
    stack_filter: Callable[[str], bool] = lambda frame: True

    def __len__(self) -> int:
        return len(self.row)

    # the tree

    @cached_property
    def children(self) -> tuple[Ints, Ints]:
        """Children of event i: ``children[1][children[0][i]:children[0][i + 1]]``, in order of start."""
        return _group(self.parent, len(self))

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
        time = _sums(microseconds[self.kernel_rows], self.kernel_offsets[:-1], self.kernel_offsets[1:])
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


def operators(
    raw: RawEvents,
    use_device: str | None = None,
    rename: Callable[[str], str] | None = None,
    stack_filter: Callable[[str], bool] | None = None,
    overhead_links: bool = False,
) -> Operators:
    """Make the list of operators from raw rows.

    Args:
        raw: the rows.
        use_device: name of the device that was profiled; without it device times are 0.
        rename: applied to each distinct name (torch demangles C++ names here).
        stack_filter: frames for which it returns False are left out of stacks.
        overhead_links: whether rows of the profiler's own overhead may own kernels (torch before 2.14).
    """
    left_out = np.fromiter((name in _LEFT_OUT for name in raw.names), dtype=bool, count=len(raw.names))
    kept = np.flatnonzero(~left_out[raw.name] & ~raw.is_hidden) if len(raw) else np.zeros(0, dtype=np.int64)
    memory_rows, out_of_memory_rows = (np.flatnonzero(_named(raw, name)) for name in (MEMORY_EVENT, OUT_OF_MEMORY_EVENT))

    thread = raw.thread.copy()
    owner, kernel = _launch_links(raw, kept, thread, overhead_links)
    host_bytes, device_bytes, uncovered = _memory_of(raw, kept, memory_rows)

    alone = np.concatenate([memory_rows[uncovered], out_of_memory_rows])
    row = np.concatenate([kept, alone])
    is_memory = np.arange(len(row)) >= len(kept)
    start_ns = raw.start_ns[row]
    end_ns = np.where(is_memory, start_ns, raw.end_ns[row])

    order = np.lexsort((-end_ns, start_ns))
    place = np.empty(len(row), dtype=np.int64)
    place[order] = np.arange(len(row))

    listed = Operators(
        raw=raw,
        use_device=use_device,
        row=row[order],
        is_memory=is_memory[order],
        kept=kept,
        memory_number=np.where(is_memory, np.arange(len(row)) - len(kept), -1)[order],
        name=raw.name[row][order],
        names=raw.names,
        start_us=start_ns[order] / 1000,
        end_us=end_ns[order] / 1000,
        thread=thread[row][order],
        device_type=np.where(is_memory, CPU, raw.device_type[row])[order],
        is_async=np.where(is_memory, False, raw.is_async[row])[order],
        parent=np.full(len(row), -1, dtype=np.int64),
        cpu_memory_usage=np.concatenate([host_bytes, _bytes_on(raw, alone, _HOST_MEMORY)])[order],
        device_memory_usage=np.concatenate([device_bytes, _bytes_on(raw, alone, _DEVICE_MEMORY)])[order],
        kernel_offsets=np.zeros(len(row) + 1, dtype=np.int64),
        kernel_rows=np.zeros(0, dtype=np.int64),
        python_parent=np.full(len(row), -1, dtype=np.int64),
    )
    if stack_filter is not None:
        listed.stack_filter = stack_filter
    _rename(listed, rename)
    owner_position = np.full(len(raw), -1, dtype=np.int64)
    owner_position[kept] = place[: len(kept)]
    _nest(listed, start_ns[order], end_ns[order])
    _find_python_callers(listed)
    return _merge_nested_namesakes(listed, owner_position[owner], kernel)


def concatenate(parts: Sequence[Operators]) -> Operators:
    """One list after another, as torch accumulates the events of several windows; nothing nests across them."""
    if len(parts) == 1:
        return parts[0]
    raw = _concatenate_raw([part.raw for part in parts])
    rows = np.cumsum([0, *(len(part.raw) for part in parts)])
    places = np.cumsum([0, *(len(part) for part in parts)])
    kernels = np.cumsum([0, *(len(part.kernel_rows) for part in parts)])
    names = TextColumn.encode([name for part in parts for name in part.names])
    name_starts = np.cumsum([0, *(len(part.names) for part in parts)])

    def joined(column: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(part, column) for part in parts])

    def shifted(column: str, by: npt.NDArray[np.int64]) -> Ints:
        arrays = [getattr(part, column) for part in parts]
        return np.concatenate([np.where(a >= 0, a + first, -1) for a, first in zip(arrays, by.tolist(), strict=False)])

    offsets = [part.kernel_offsets[1:] + first for part, first in zip(parts, kernels.tolist(), strict=False)]
    return Operators(
        raw=raw,
        use_device=parts[0].use_device,
        row=shifted("row", rows),
        kept=shifted("kept", rows),
        name=names.codes[shifted("name", name_starts)],
        names=names.values,
        parent=shifted("parent", places),
        kernel_offsets=np.concatenate([[0], *offsets]),
        kernel_rows=shifted("kernel_rows", rows),
        python_parent=shifted("python_parent", rows),
        python_caller={
            callee + first: caller + first if caller >= 0 else -1
            for part, first in zip(parts, rows.tolist(), strict=False)
            for callee, caller in part.python_caller.items()
        },
        stack_filter=parts[0].stack_filter,
        parts=tuple(parts),
        is_memory=joined("is_memory"),
        memory_number=joined("memory_number"),
        start_us=joined("start_us"),
        end_us=joined("end_us"),
        thread=joined("thread"),
        device_type=joined("device_type"),
        is_async=joined("is_async"),
        cpu_memory_usage=joined("cpu_memory_usage"),
        device_memory_usage=joined("device_memory_usage"),
    )


def _concatenate_raw(parts: Sequence[RawEvents]) -> RawEvents:
    def text(columns: Sequence[TextColumn | None]) -> TextColumn | None:
        if any(column is None for column in columns):
            return None
        known = [column for column in columns if column is not None]
        starts = np.cumsum([0, *(len(column.values) for column in known)]).tolist()
        merged = TextColumn.encode([value for column in known for value in column.values])
        codes = [merged.codes[column.codes + first] for column, first in zip(known, starts, strict=False) if len(column.codes)]
        return TextColumn(merged.values, np.concatenate(codes) if codes else np.zeros(0, dtype=np.int64))

    def load(wanted: Sequence[str]) -> dict[str, Any]:
        for part in parts:
            part.read(*wanted)
        values = {column: [getattr(part, column) for part in parts] for column in wanted}
        return {name: text(value) if name in LATER_TEXTS else np.concatenate(value) for name, value in values.items()}

    columns: dict[str, Any] = {}
    for column in fields(RawEvents):
        values = [getattr(part, column.name) for part in parts]
        if column.name not in ("names", "name", "columns", "load"):
            columns[column.name] = None if any(value is None for value in values) else np.concatenate(values)
    names = text([TextColumn(part.names, part.name) for part in parts])
    assert names is not None
    return RawEvents(names=names.values, name=names.codes, load=load, **columns)


def _named(raw: RawEvents, name: str) -> Bools:
    if name not in raw.names:
        return np.zeros(len(raw), dtype=bool)
    return np.asarray(raw.name == raw.names.index(name), dtype=np.bool_)


def _rename(listed: Operators, rename: Callable[[str], str] | None) -> None:
    names = [name if rename is None or len(name) < 2 else rename(name) for name in listed.names]
    encoded = TextColumn.encode([shown_name(name) for name in names])
    listed.names = encoded.values
    listed.name = encoded.codes[listed.name] if len(listed) else listed.name


def _launch_links(raw: RawEvents, kept: Ints, thread: Ints, overhead_links: bool) -> tuple[Ints, Ints]:
    """Pairs (raw row of an operator, raw row of a kernel it launched); moves runtime rows to their operator's thread."""
    linked = kept[raw.linked_id[kept] > 0]
    none = np.zeros(0, dtype=np.int64)
    if not len(linked):
        return none, none
    may_own = (raw.linked_id[kept] == 0) & (raw.device_type[kept] == CPU) & ~raw.is_async[kept]
    if not overhead_links:
        may_own &= ~raw.is_overhead[kept]
    owners = kept[may_own]
    by_link = linked[np.argsort(raw.linked_id[linked], kind="stable")]
    ids = raw.linked_id[by_link]
    low = np.searchsorted(ids, raw.own_id[owners], side="left")
    size = np.searchsorted(ids, raw.own_id[owners], side="right") - low
    owner = np.repeat(owners, size)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)
    caused = by_link[np.repeat(low, size) + within]
    on_host = raw.device_type[caused] == CPU
    # Runtime rows count as children of their operator even when the system saw them on another thread.
    thread[caused[on_host]] = thread[owner[on_host]]
    on_device = np.isin(raw.device_type[caused], _KERNEL_DEVICES)
    return owner[on_device], caused[on_device]


def _bytes_on(raw: RawEvents, rows: Ints, devices: list[int]) -> Ints:
    return np.where(np.isin(raw.device_type[rows], devices), raw.bytes[rows], 0)


def _memory_of(raw: RawEvents, kept: Ints, memory_rows: Ints) -> tuple[Ints, Ints, Bools]:
    """Host and device bytes within each kept row's time (on any thread), and which memory rows no host row covers."""
    host = np.zeros(len(kept), dtype=np.int64)
    device = np.zeros(len(kept), dtype=np.int64)
    by_time = np.argsort(raw.start_ns[memory_rows], kind="stable")
    times = raw.start_ns[memory_rows][by_time]
    on_host = raw.device_type[kept] == CPU
    low = np.searchsorted(times, raw.start_ns[kept][on_host], side="left")
    high = np.maximum(np.searchsorted(times, raw.end_ns[kept][on_host], side="right"), low)
    for target, devices in ((host, _HOST_MEMORY), (device, _DEVICE_MEMORY)):
        running = np.concatenate([[0], np.cumsum(_bytes_on(raw, memory_rows, devices)[by_time])])
        target[on_host] = running[high] - running[low]
    edges = np.zeros(len(memory_rows) + 1, dtype=np.int64)
    np.add.at(edges, low, 1)
    np.add.at(edges, high, -1)
    uncovered = np.ones(len(memory_rows), dtype=bool)
    uncovered[by_time] = np.cumsum(edges[:-1]) == 0
    return host, device, uncovered


def _nest(listed: Operators, start_ns: Ints, end_ns: Ints) -> None:
    nested = np.flatnonzero(listed.counts_on_host)
    parent, _ = nest(listed.thread[nested], start_ns[nested], end_ns[nested] - start_ns[nested])
    inside = parent >= 0
    listed.parent[nested[inside]] = nested[parent[inside]]


def _find_python_callers(listed: Operators) -> None:
    raw, row = listed.raw, listed.row
    is_python = raw.is_python[row] & ~listed.is_memory
    calls = row[is_python]
    if not len(calls):
        return
    thread, start = raw.thread[calls], raw.start_ns[calls]
    caller, closed = callers(thread, start, raw.end_ns[calls])
    others = row[~is_python]
    around = callers_of_others(thread, start, closed, caller, raw.thread[others], raw.start_ns[others])
    caller_row = np.where(caller >= 0, calls[caller], -1)
    listed.python_parent[is_python] = caller_row
    listed.python_parent[~is_python] = np.where(around >= 0, calls[around], -1)
    listed.python_parent[listed.is_memory] = -1
    listed.python_caller = dict(zip(calls.tolist(), caller_row.tolist(), strict=True))


def _merge_nested_namesakes(listed: Operators, owner: Ints, kernel: Ints) -> Operators:
    """Drop events that are the only child of an event of the same name; their kernels and children move up to it."""
    parent = listed.parent
    inside = parent >= 0
    size = np.bincount(parent[inside], minlength=len(listed))
    dropped = np.zeros(len(listed), dtype=bool)
    dropped[inside] = (size[parent[inside]] == 1) & (listed.name[parent[inside]] == listed.name[inside])
    keeper_of_kernels = np.arange(len(listed))
    if dropped.any():
        top = np.arange(len(listed))
        while (moving := dropped[top]).any():
            top[moving] = parent[top[moving]]
        # The kernels of the innermost namesake replace those of the outer ones.
        chain = np.flatnonzero(dropped)
        innermost = np.arange(len(listed))
        innermost[top[chain]] = chain
        keeper_of_kernels = np.where(dropped | (innermost != np.arange(len(listed))), -1, keeper_of_kernels)
        keeper_of_kernels[innermost[top[chain]]] = top[chain]
        parent = np.where(inside, top[parent], -1)
        keep = np.flatnonzero(~dropped)
        new_place = np.full(len(listed) + 1, -1, dtype=np.int64)
        new_place[keep] = np.arange(len(keep))
        parent = new_place[parent[keep]]
        keeper_of_kernels = new_place[keeper_of_kernels]
        for column in ("row", "is_memory", "memory_number", "name", "start_us", "end_us", "thread", "device_type", "is_async",
                       "cpu_memory_usage", "device_memory_usage", "python_parent"):  # fmt: skip
            setattr(listed, column, getattr(listed, column)[keep])
        listed.parent = parent
        for cached in ("counts_on_host",):
            listed.__dict__.pop(cached, None)
    home = keeper_of_kernels[owner]
    listed.kernel_offsets, index = _group(home, len(listed))
    listed.kernel_rows = kernel[index]
    return listed


def _group(owner: Ints, count: int) -> tuple[Ints, Ints]:
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
