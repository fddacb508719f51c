"""The text of ``table()``: the same columns, widths and digits that torch.profiler prints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_DEVICE_ALIASES = ("cuda", "xpu", "privateuse1", "mtia", "hpu")
_PLAIN_KEYS = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage")
_DEVICE_KEYS = tuple(key.replace("cpu", "device") for key in _PLAIN_KEYS)
SORT_KEYS = (
    *_PLAIN_KEYS,
    *_DEVICE_KEYS,
    *(key.replace("device", alias) for alias in _DEVICE_ALIASES for key in _DEVICE_KEYS),
    *("count", "flops", "key", "p50", "p95", "p99", "min", "max"),
)
"""What ``sort_by`` may say; cuda, xpu, mtia, hpu and privateuse1 all mean the device that was profiled."""

_GAP = 2
_NUMBER_WIDTH = 12
_FLOP_UNITS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
_MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0}


@dataclass
class TableColumns:
    """Everything the table shows, one list a column, one entry a row. Times are microseconds, memory bytes."""

    keys: Sequence[str]
    counts: Sequence[int]
    self_cpu_times: Sequence[float]
    cpu_times: Sequence[float]
    self_device_times: Sequence[float]
    device_times: Sequence[float]
    cpu_memory: Sequence[int]
    self_cpu_memory: Sequence[int]
    device_memory: Sequence[int]
    self_device_memory: Sequence[int]
    flops: Sequence[int | None]
    shapes: Sequence[str]
    """Text of the input shapes, as shown."""
    has_shapes: Sequence[bool]
    overloads: Sequence[str | None]
    stacks: Sequence[Sequence[str]]
    is_async: Sequence[bool]
    counts_as_device: Sequence[bool]
    """Rows whose self device time belongs to the device's total."""
    is_nested: Sequence[bool]
    """Rows that have a parent, left out of top-level tables."""
    node_ids: Sequence[int]
    sort_values: dict[str, Sequence[Any]] = field(default_factory=dict)
    """Further values that ``sort_by`` may name."""

    def __len__(self) -> int:
        return len(self.keys)


class UnknownSortKey(AttributeError, ValueError):
    """``sort_by`` names nothing that a table can be sorted by."""


def format_time(microseconds: float) -> str:
    """Microseconds in the largest unit that leaves a number of one or more, three digits after the point."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def format_time_in(microseconds: float, unit: str | None) -> str:
    """Microseconds in a unit (s, ms or us), or in the fitting one if the unit is None or unknown."""
    if unit not in _MICROSECONDS:
        return format_time(microseconds)
    return f"{microseconds / _MICROSECONDS[unit]:.3f}{unit}"


def format_share(part: float, whole: float) -> str:
    """A percentage with two digits; NaN where the whole is zero."""
    return f"{part * 100.0 / whole:.2f}%" if whole else "NaN"


def format_memory(size: int) -> str:
    """Bytes in the largest binary unit that leaves a number of one or more; plain bytes below 1 KB."""
    for unit, factor in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if abs(size) >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} B"


def sort_key(name: str) -> str:
    """The column that ``sort_by`` means.

    Raises:
        UnknownSortKey: it names none; the message lists those there are.
    """
    if not isinstance(name, str) or name not in SORT_KEYS:
        raise UnknownSortKey(f"sort_by={name!r} is not a column of the table; choose one of: {', '.join(SORT_KEYS)}")
    for alias in _DEVICE_ALIASES:
        name = name.replace(alias, "device")
    return name


def build_table(
    columns: TableColumns,
    *,
    use_device: str | None,
    profile_memory: bool,
    with_flops: bool,
    sort_by: str | None = None,
    row_limit: int = 100,
    max_src_column_width: int | None = 75,
    max_name_column_width: int | None = 55,
    max_shapes_column_width: int | None = 80,
    header: str | None = None,
    top_level_events_only: bool = False,
    time_unit: str | None = None,
) -> str:
    """Lay out the table as torch.profiler does.

    Args:
        columns: what is shown.
        use_device: the device that was profiled; device columns appear if a row has device time.
        profile_memory: show memory columns.
        with_flops: show FLOPs if a row has some.
        sort_by: one of :data:`SORT_KEYS`, largest first; None keeps the order.
        row_limit: rows at most; negative for all.
        max_src_column_width: cut source locations to this width; None for no limit.
        max_name_column_width: cut names to this width; None for no limit.
        max_shapes_column_width: cut shapes to this width; None for no limit.
        header: a line above the table.
        top_level_events_only: leave out events inside others.
        time_unit: "s", "ms" or "us" for all times; None chooses for each.

    Raises:
        UnknownSortKey: ``sort_by`` is none of the keys.
        RuntimeError: there is device time although no device was profiled.
    """
    order = list(_order(columns, sort_by))
    if not len(columns):
        return ""
    layout = _Layout(columns, order, use_device, profile_memory, with_flops, max_src_column_width, max_name_column_width,
                     max_shapes_column_width, time_unit)  # fmt: skip
    lines: list[str] = []
    if header is not None:
        lines += ["=" * layout.line_width, header]
    if top_level_events_only:
        lines += ["=" * layout.line_width, "This report only display top-level ops statistics"]
    lines += [layout.rule, layout.row(layout.headers), layout.rule]
    shown = (row for row in order if not (top_level_events_only and columns.is_nested[row]))
    for position, row in enumerate(shown):
        if position == row_limit:
            break
        lines += layout.event_lines(row)
    lines += [layout.rule, *layout.totals()]
    return "\n".join(lines) + "\n"


def _order(columns: TableColumns, sort_by: str | None) -> Iterable[int]:
    rows = range(len(columns))
    if sort_by is None:
        return rows
    values = _values(columns, sort_key(sort_by))
    return sorted(rows, key=values.__getitem__, reverse=True)


def _values(columns: TableColumns, key: str) -> Sequence[Any]:
    known: dict[str, Sequence[Any]] = {
        "cpu_time_total": columns.cpu_times,
        "self_cpu_time_total": columns.self_cpu_times,
        "device_time_total": columns.device_times,
        "self_device_time_total": columns.self_device_times,
        "cpu_memory_usage": columns.cpu_memory,
        "self_cpu_memory_usage": columns.self_cpu_memory,
        "device_memory_usage": columns.device_memory,
        "self_device_memory_usage": columns.self_device_memory,
        "count": columns.counts,
        "key": columns.keys,
    }
    if key in known:
        return known[key]
    if key == "flops":
        return [flops or 0 for flops in columns.flops]
    if key in ("cpu_time", "device_time"):
        totals = columns.cpu_times if key == "cpu_time" else columns.device_times
        return [_mean(total, count) for total, count in zip(totals, columns.counts, strict=True)]
    if key not in columns.sort_values:
        raise UnknownSortKey(f"sort_by={key!r} is known only for averages: sort key_averages().table() by it")
    return columns.sort_values[key]


def _mean(total: float, count: int) -> float:
    return total / count if count else 0.0


def _limited(width: int, limit: int | None) -> int:
    return width if limit is None else min(width, limit)


class _Layout:
    """Which columns there are, how wide, and how a row is written."""

    def __init__(
        self,
        columns: TableColumns,
        order: Sequence[int],
        use_device: str | None,
        profile_memory: bool,
        with_flops: bool,
        source_limit: int | None,
        name_limit: int | None,
        shapes_limit: int | None,
        time_unit: str | None,
    ) -> None:
        self.columns = columns
        self.time_unit = time_unit
        self.name_limit = name_limit
        self.has_device_time = any(time > 0 for time in columns.self_device_times)
        if self.has_device_time and not use_device:
            raise RuntimeError("There is device time in the events, but no device was profiled.")
        self.device = use_device.upper() if use_device else "None"
        self.profile_memory = profile_memory
        self.has_device_memory = bool(use_device) and any(size > 0 for size in columns.self_device_memory)
        self.has_shapes = any(columns.has_shapes)
        self.has_overloads = any(columns.overloads)
        self.has_node_ids = any(node != -1 for node in columns.node_ids)
        some_flops = [flops for flops in columns.flops if flops and flops > 0] if with_flops else []
        self.flop_power = self._power(min(some_flops)) if some_flops else None

        name_width = _limited(max(map(len, columns.keys)) + 4, name_limit)
        self.shapes_width = _limited(max(map(len, columns.shapes)) + 4, shapes_limit)
        widest_frame = max((len(frame) for stack in columns.stacks for frame in stack), default=-1)
        self.has_stacks = any(columns.stacks)
        self.source_width = _limited(widest_frame + 4, source_limit)

        self.headers = ["Name"]
        widths = [name_width]
        if self.has_overloads:
            self.headers.append("Overload Name")
            widths.append(name_width)
        numbers = self._number_headers()
        self.headers += numbers
        widths += [_NUMBER_WIDTH] * len(numbers)
        if self.has_shapes:
            self.headers.append("Input Shapes")
            widths.append(self.shapes_width)
        # torch declares the width of the source column before that of FLOPs, but fills them in the other order.
        alignments = [">"] * len(widths)
        if self.has_stacks:
            self.headers.append("Source Location")
            widths.append(self.source_width)
            alignments.append("<")
        if self.flop_power is not None:
            self.headers.append(f"Total {_FLOP_UNITS[self.flop_power]}")
            widths.append(_NUMBER_WIDTH)
            alignments.append(">")
        gap = " " * _GAP
        self._format = "".join(f"{{: {side}{width}}}{gap}" for side, width in zip(alignments, widths, strict=True))
        self.rule = "".join("-" * width + gap for width in widths)
        self.line_width = sum(widths) + _GAP * (len(widths) - 1)
        # Floats are added in the order of the table, as torch does: another order may change the last digit.
        self.total_self_cpu: float = 0
        self.total_self_device: float = 0
        for place in order:
            self.total_self_cpu += columns.self_cpu_times[place]
            if columns.counts_as_device[place]:
                self.total_self_device += columns.self_device_times[place]

    @staticmethod
    def _power(smallest: int) -> int:
        """Unit of the FLOPs column: the power of 1000 that fits the smallest value."""
        return int(max(0.0, min(math.log10(smallest) / 3, float(len(_FLOP_UNITS) - 1))))

    def _number_headers(self) -> list[str]:
        headers = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        if self.has_device_time:
            headers += [f"Self {self.device}", f"Self {self.device} %", f"{self.device} total", f"{self.device} time avg"]
        if self.profile_memory:
            headers += ["CPU Mem", "Self CPU Mem"]
            if self.has_device_memory:
                headers += [f"{self.device} Mem", f"Self {self.device} Mem"]
        headers.append("# of Calls")
        if self.has_node_ids:
            headers.append("Node ID")
        return headers

    def row(self, cells: Sequence[Any]) -> str:
        """One line of the table."""
        return self._format.format(*cells)

    def time(self, microseconds: float) -> str:
        """A time in the table's unit."""
        return format_time_in(microseconds, self.time_unit)

    def _name(self, name: str) -> str:
        if self.name_limit is not None and len(name) >= self.name_limit - 3:
            return name[: self.name_limit - 3] + "..."
        return name

    def _source(self, frame: str) -> str:
        """The end of a source location that is too long: the file and line are there."""
        if len(frame) <= self.source_width:
            return frame
        end = frame[len(frame) - self.source_width :]
        return "..." + end[3:] if len(end) > 3 else end

    def event_lines(self, row: int) -> list[str]:
        """The line of an event, with one more for each further frame of its stack."""
        columns = self.columns
        count = columns.counts[row]
        self_cpu, cpu = columns.self_cpu_times[row], columns.cpu_times[row]
        cells: list[Any] = [self._name(columns.keys[row])]
        if self.has_overloads:
            cells.append(self._name(columns.overloads[row] or ""))
        cells += [
            format_share(self_cpu, self.total_self_cpu),
            self.time(self_cpu),
            0 if columns.is_async[row] else format_share(cpu, self.total_self_cpu),
            self.time(cpu),
            self.time(_mean(cpu, count)),
        ]
        if self.has_device_time:
            self_device, device = columns.self_device_times[row], columns.device_times[row]
            share = format_share(self_device, self.total_self_device)
            cells += [self.time(self_device), share, self.time(device), self.time(_mean(device, count))]
        if self.profile_memory:
            cells += [format_memory(columns.cpu_memory[row]), format_memory(columns.self_cpu_memory[row])]
            if self.has_device_memory:
                cells += [format_memory(columns.device_memory[row]), format_memory(columns.self_device_memory[row])]
        cells.append(count)
        if self.has_node_ids:
            cells.append(columns.node_ids[row])
        if self.has_shapes:
            cells.append(columns.shapes[row][: self.shapes_width])
        if self.flop_power is not None:
            flops = columns.flops[row] or 0
            cells.append(f"{flops * pow(10, self.flop_power * -3.0):8.3f}" if flops > 0 else "--")
        if not self.has_stacks:
            return [self.row(cells)]
        stack = columns.stacks[row]
        lines = [self.row([*cells, self._source(stack[0]) if stack else ""])]
        blank = [""] * (len(self.headers) - 1)
        lines += [self.row([*blank, self._source(frame)]) for frame in stack[1:]]
        lines.append(self.row([*blank, ""]))
        return lines

    def totals(self) -> list[str]:
        """The lines below the table."""
        lines = [f"Self CPU time total: {self.time(self.total_self_cpu)}"]
        if self.has_device_time:
            lines.append(f"Self {self.device} time total: {self.time(self.total_self_device)}")
        return lines


def columns_of(rows: Sequence[Any]) -> TableColumns:
    """Table columns from objects with the attributes of torch's events or averages.

    Rows on devices count towards the device's total unless they are annotations; rows of the host never do, except
    those whose device time torch measured itself.
    """
    devices = [str(getattr(row.device_type, "name", row.device_type)).lower() for row in rows]
    in_total = {"cuda", "privateuse1", "privateuseone", "mtia", "xpu"}
    return TableColumns(
        keys=[row.key for row in rows],
        counts=[row.count for row in rows],
        self_cpu_times=[row.self_cpu_time_total for row in rows],
        cpu_times=[row.cpu_time_total for row in rows],
        self_device_times=[row.self_device_time_total for row in rows],
        device_times=[row.device_time_total for row in rows],
        cpu_memory=[row.cpu_memory_usage for row in rows],
        self_cpu_memory=[row.self_cpu_memory_usage for row in rows],
        device_memory=[row.device_memory_usage for row in rows],
        self_device_memory=[row.self_device_memory_usage for row in rows],
        flops=[row.flops for row in rows],
        shapes=[str(row.input_shapes) for row in rows],
        has_shapes=[bool(row.input_shapes) for row in rows],
        overloads=[row.overload_name for row in rows],
        stacks=[row.stack or [] for row in rows],
        is_async=[row.is_async for row in rows],
        counts_as_device=[
            row.is_legacy if device == "cpu" else device in in_total and not row.is_user_annotation
            for row, device in zip(rows, devices, strict=True)
        ],
        is_nested=[getattr(row, "cpu_parent", None) is not None for row in rows],
        node_ids=[getattr(row, "node_id", -1) for row in rows],
        sort_values={name: [getattr(row, name, 0.0) for row in rows] for name in ("p50", "p95", "p99", "min", "max")},
    )
