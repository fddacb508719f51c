"""Making the list of operators: raw rows filtered, linked with kernels, nested and merged, each step from columns to columns.

The rules are torch's (``torch.autograd.profiler._parse_kineto_results`` and ``EventList._build_tree``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from kinetoscope.analyze.operator_columns import OperatorColumns, joined_columns, shifted
from kinetoscope.analyze.operators import Kernels, Operators, grouped
from kinetoscope.analyze.python_callers import callers, callers_of_others
from kinetoscope.analyze.raw_events import CPU, Bools, Ints, RawEvents, TextColumn, concatenate_raw
from kinetoscope.trace.devices import DEVICE_NUMBERS
from kinetoscope.trace.nesting import nest
from kinetoscope.trace.vocabulary import MEMORY_EVENT, OUT_OF_MEMORY_EVENT, shown_name

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

# Whose bytes count as host memory and whose as device memory.
_HOST_MEMORY = [CPU, DEVICE_NUMBERS["mkldnn"], DEVICE_NUMBERS["ideep"]]
_DEVICE_MEMORY = [DEVICE_NUMBERS[name] for name in ("cuda", "privateuseone", "hip", "xpu")]
# Whose rows are attached as kernels to the operator that launched them.
_KERNEL_DEVICES = [DEVICE_NUMBERS[name] for name in ("cuda", "privateuseone", "xpu")]


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
    owner, kernel, thread = _launch_links(raw, kept, overhead_links)
    names, name = _shown_names(raw, rename)
    columns, position_of_row = _listed(raw, kept, thread, name)
    columns = replace(columns, parent=_parents(raw, columns))
    python_parent, python_caller = _python_parents(raw, columns)
    columns, keeper_of_kernels = _merged_namesakes(replace(columns, python_parent=python_parent))
    offsets, index = grouped(keeper_of_kernels[position_of_row[owner]], len(columns))
    return Operators(
        **columns.columns(),
        raw=raw,
        use_device=use_device,
        names=names,
        kept=kept,
        kernels=Kernels(offsets, kernel[index]),
        python_caller=python_caller,
        stack_filter=stack_filter or (lambda frame: True),
    )


def concatenate(parts: Sequence[Operators]) -> Operators:
    """One list after another, as torch accumulates the events of several windows; nothing nests across them."""
    if len(parts) == 1:
        return parts[0]
    raw_sizes = [len(part.raw) for part in parts]
    raw_starts = np.cumsum([0, *raw_sizes]).tolist()
    kernel_starts = np.cumsum([0, *(len(part.kernels.rows) for part in parts)]).tolist()
    names = TextColumn.encode([name for part in parts for name in part.names])
    name_bounds = np.cumsum([0, *(len(part.names) for part in parts)]).tolist()
    renumbered = [names.codes[low:high] for low, high in pairwise(name_bounds)]
    offsets = [part.kernels.offsets[1:] + start for part, start in zip(parts, kernel_starts, strict=False)]
    return Operators(
        **joined_columns(parts, renumbered, raw_sizes),
        raw=concatenate_raw([part.raw for part in parts]),
        use_device=parts[0].use_device,
        names=names.values,
        kept=np.concatenate([shifted(part.kept, start) for part, start in zip(parts, raw_starts, strict=False)]),
        kernels=Kernels(
            np.concatenate([[0], *offsets]),
            np.concatenate([shifted(part.kernels.rows, start) for part, start in zip(parts, raw_starts, strict=False)]),
        ),
        python_caller={
            callee + start: caller + start if caller >= 0 else -1
            for part, start in zip(parts, raw_starts, strict=False)
            for callee, caller in part.python_caller.items()
        },
        stack_filter=parts[0].stack_filter,
        parts=tuple(parts),
    )


def _listed(raw: RawEvents, kept: Ints, thread: Ints, name: Ints) -> tuple[OperatorColumns, Ints]:
    """The kept rows, and memory that none of them covers, in the order of the list; and the position of each raw row."""
    memory_rows, out_of_memory_rows = (np.flatnonzero(_named(raw, event)) for event in (MEMORY_EVENT, OUT_OF_MEMORY_EVENT))
    host_bytes, device_bytes, uncovered = _memory_of(raw, kept, memory_rows)
    alone = np.concatenate([memory_rows[uncovered], out_of_memory_rows])
    row = np.concatenate([kept, alone])
    is_memory = np.arange(len(row)) >= len(kept)
    start_ns = raw.start_ns[row]
    end_ns = np.where(is_memory, start_ns, raw.end_ns[row])
    order = np.lexsort((-end_ns, start_ns))
    place = np.empty(len(row), dtype=np.int64)
    place[order] = np.arange(len(row))
    position_of_row = np.full(len(raw), -1, dtype=np.int64)
    position_of_row[kept] = place[: len(kept)]
    none = np.full(len(row), -1, dtype=np.int64)
    columns = OperatorColumns(
        row=row[order],
        name=name[row][order],
        is_memory=is_memory[order],
        memory_number=np.where(is_memory, np.arange(len(row)) - len(kept), -1)[order],
        start_us=start_ns[order] / 1000,
        end_us=end_ns[order] / 1000,
        thread=thread[row][order],
        device_type=np.where(is_memory, CPU, raw.device_type[row])[order],
        is_async=np.where(is_memory, False, raw.is_async[row])[order],
        cpu_memory_usage=np.concatenate([host_bytes, _bytes_on(raw, alone, _HOST_MEMORY)])[order],
        device_memory_usage=np.concatenate([device_bytes, _bytes_on(raw, alone, _DEVICE_MEMORY)])[order],
        parent=none,
        python_parent=none,
    )
    return columns, position_of_row


def _named(raw: RawEvents, name: str) -> Bools:
    if name not in raw.names:
        return np.zeros(len(raw), dtype=bool)
    return np.asarray(raw.name == raw.names.index(name), dtype=np.bool_)


def _shown_names(raw: RawEvents, rename: Callable[[str], str] | None) -> tuple[list[str], Ints]:
    """Distinct names as lists show them, and the index of each raw row's."""
    names = [name if rename is None or len(name) < 2 else rename(name) for name in raw.names]
    encoded = TextColumn.encode([shown_name(name) for name in names])
    return encoded.values, encoded.codes[raw.name] if len(raw) else raw.name


def _launch_links(raw: RawEvents, kept: Ints, overhead_links: bool) -> tuple[Ints, Ints, Ints]:
    """Raw rows of operators and of the kernels that they launched, in pairs; and the thread that each raw row counts for."""
    linked = kept[raw.linked_id[kept] > 0]
    none = np.zeros(0, dtype=np.int64)
    if not len(linked):
        return none, none, raw.thread
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
    thread = raw.thread.copy()
    thread[caused[on_host]] = thread[owner[on_host]]
    on_device = np.isin(raw.device_type[caused], _KERNEL_DEVICES)
    return owner[on_device], caused[on_device], thread


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


def _parents(raw: RawEvents, columns: OperatorColumns) -> Ints:
    """Position of the innermost event around each on its thread; host events that end where they began."""
    nested = np.flatnonzero((columns.device_type == CPU) & ~columns.is_async)
    start = raw.start_ns[columns.row]
    end = np.where(columns.is_memory, start, raw.end_ns[columns.row])
    found, _ = nest(columns.thread[nested], start[nested], end[nested] - start[nested])
    inside = found >= 0
    parent = np.full(len(columns), -1, dtype=np.int64)
    parent[nested[inside]] = nested[found[inside]]
    return parent


def _python_parents(raw: RawEvents, columns: OperatorColumns) -> tuple[Ints, Mapping[int, int]]:
    """Raw row of the Python call around each event, and of the caller of each Python call."""
    row = columns.row
    parent = np.full(len(columns), -1, dtype=np.int64)
    is_python = raw.is_python[row] & ~columns.is_memory
    calls = row[is_python]
    if not len(calls):
        return parent, {}
    thread, start = raw.thread[calls], raw.start_ns[calls]
    caller, closed = callers(thread, start, raw.end_ns[calls])
    others = row[~is_python]
    around = callers_of_others(thread, start, closed, caller, raw.thread[others], raw.start_ns[others])
    caller_row = np.where(caller >= 0, calls[caller], -1)
    parent[is_python] = caller_row
    parent[~is_python] = np.where(around >= 0, calls[around], -1)
    parent[columns.is_memory] = -1
    return parent, dict(zip(calls.tolist(), caller_row.tolist(), strict=True))


def _merged_namesakes(columns: OperatorColumns) -> tuple[OperatorColumns, Ints]:
    """Drop events that are the only child of an event of the same name; what is in them moves up to it.

    Returns:
        The events that are left, and for each event of before the position of the one that has its kernels, -1 for none.
    """
    count, parent = len(columns), columns.parent
    inside = parent >= 0
    size = np.bincount(parent[inside], minlength=count)
    dropped = np.zeros(count, dtype=bool)
    dropped[inside] = (size[parent[inside]] == 1) & (columns.name[parent[inside]] == columns.name[inside])
    keeper_of_kernels = np.arange(count)
    if not dropped.any():
        return columns, keeper_of_kernels
    top = np.arange(count)
    while (moving := dropped[top]).any():
        top[moving] = parent[top[moving]]
    # The kernels of the innermost namesake replace those of the outer ones.
    chain = np.flatnonzero(dropped)
    innermost = np.arange(count)
    innermost[top[chain]] = chain
    keeper_of_kernels = np.where(dropped | (innermost != np.arange(count)), -1, keeper_of_kernels)
    keeper_of_kernels[innermost[top[chain]]] = top[chain]
    above = np.where(inside, top[parent], -1)
    keep = np.flatnonzero(~dropped)
    new_position = np.full(count + 1, -1, dtype=np.int64)
    new_position[keep] = np.arange(len(keep))
    return columns.taken(keep, new_position[above[keep]]), new_position[keeper_of_kernels]
