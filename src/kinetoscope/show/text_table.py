"""The text of ``table()``: the same columns, widths and digits that torch.profiler prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
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
    limits = _Limits(max_name_column_width, max_src_column_width, max_shapes_column_width)
    table = _Table(columns, order, use_device, profile_memory, with_flops, limits, time_unit)
    lines: list[str] = []
    if header is not None:
        lines += ["=" * table.line_width, header]
    if top_level_events_only:
        lines += ["=" * table.line_width, "This report only display top-level ops statistics"]
    lines += [table.rule, table.line([column.header for column in table.shown]), table.rule]
    shown = (row for row in order if not (top_level_events_only and columns.is_nested[row]))
    for position, row in enumerate(shown):
        if position == row_limit:
            break
        lines += table.event_lines(row)
    lines += [table.rule, *table.totals()]
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


@dataclass(frozen=True)
class _Limits:
    """Widths that texts are cut to; None for no limit."""

    name: int | None
    source: int | None
    shapes: int | None


@dataclass(frozen=True)
class _Column:
    """One column of the table: its header, its width, and what stands in it for a row."""

    header: str
    width: int
    cell: Callable[[int], Any]
    align: str = ">"


class _Table:
    """The columns that are shown, and how lines are made of them."""

    def __init__(
        self,
        columns: TableColumns,
        order: Sequence[int],
        use_device: str | None,
        profile_memory: bool,
        with_flops: bool,
        limits: _Limits,
        time_unit: str | None,
    ) -> None:
        self.columns = columns
        self.limits = limits
        self.time_unit = time_unit
        self.has_device_time = any(time > 0 for time in columns.self_device_times)
        if self.has_device_time and not use_device:
            raise RuntimeError("There is device time in the events, but no device was profiled.")
        self.device = use_device.upper() if use_device else "None"
        self.has_stacks = any(columns.stacks)
        widest_frame = max((len(frame) for stack in columns.stacks for frame in stack), default=-1)
        self.source_width = _limited(widest_frame + 4, limits.source)
        # Floats are added in the order of the table, as torch does: another order may change the last digit.
        self.total_self_cpu: float = 0
        self.total_self_device: float = 0
        for place in order:
            self.total_self_cpu += columns.self_cpu_times[place]
            if columns.counts_as_device[place]:
                self.total_self_device += columns.self_device_times[place]
        self.shown = [
            *self._texts(),
            *self._host_times(),
            *(self._device_times() if self.has_device_time else []),
            *(self._memory(use_device) if profile_memory else []),
            _Column("# of Calls", _NUMBER_WIDTH, lambda row: columns.counts[row]),
            *self._node_ids(),
            *self._shapes(),
            *self._flops_and_stacks(with_flops),
        ]
        gap = " " * _GAP
        self._format = "".join(f"{{: {column.align}{column.width}}}{gap}" for column in self.shown)
        self.rule = "".join("-" * column.width + gap for column in self.shown)
        self.line_width = sum(column.width for column in self.shown) + _GAP * (len(self.shown) - 1)

    def line(self, cells: Sequence[Any]) -> str:
        """One line of the table."""
        return self._format.format(*cells)

    def event_lines(self, row: int) -> list[str]:
        """The line of an event, with one more for each further frame of its stack."""
        lines = [self.line([column.cell(row) for column in self.shown])]
        if self.has_stacks:
            blank = [""] * (len(self.shown) - 1)
            lines += [self.line([*blank, self._source(frame)]) for frame in self.columns.stacks[row][1:]]
            lines.append(self.line([*blank, ""]))
        return lines

    def totals(self) -> list[str]:
        """The lines below the table."""
        lines = [f"Self CPU time total: {self._time(self.total_self_cpu)}"]
        if self.has_device_time:
            lines.append(f"Self {self.device} time total: {self._time(self.total_self_device)}")
        return lines

    # columns

    def _texts(self) -> list[_Column]:
        columns = self.columns
        width = _limited(max(map(len, columns.keys)) + 4, self.limits.name)
        texts = [_Column("Name", width, lambda row: self._name(columns.keys[row]))]
        if any(columns.overloads):
            texts.append(_Column("Overload Name", width, lambda row: self._name(columns.overloads[row] or "")))
        return texts

    def _host_times(self) -> list[_Column]:
        columns = self.columns
        return self._numbers(
            ("Self CPU %", lambda row: format_share(columns.self_cpu_times[row], self.total_self_cpu)),
            ("Self CPU", lambda row: self._time(columns.self_cpu_times[row])),
            (
                "CPU total %",
                lambda row: 0 if columns.is_async[row] else format_share(columns.cpu_times[row], self.total_self_cpu),
            ),
            ("CPU total", lambda row: self._time(columns.cpu_times[row])),
            ("CPU time avg", lambda row: self._time(_mean(columns.cpu_times[row], columns.counts[row]))),
        )

    def _device_times(self) -> list[_Column]:
        columns, device = self.columns, self.device
        return self._numbers(
            (f"Self {device}", lambda row: self._time(columns.self_device_times[row])),
            (f"Self {device} %", lambda row: format_share(columns.self_device_times[row], self.total_self_device)),
            (f"{device} total", lambda row: self._time(columns.device_times[row])),
            (f"{device} time avg", lambda row: self._time(_mean(columns.device_times[row], columns.counts[row]))),
        )

    def _memory(self, use_device: str | None) -> list[_Column]:
        columns, device = self.columns, self.device
        memory = self._numbers(
            ("CPU Mem", lambda row: format_memory(columns.cpu_memory[row])),
            ("Self CPU Mem", lambda row: format_memory(columns.self_cpu_memory[row])),
        )
        if use_device and any(size > 0 for size in columns.self_device_memory):
            memory += self._numbers(
                (f"{device} Mem", lambda row: format_memory(columns.device_memory[row])),
                (f"Self {device} Mem", lambda row: format_memory(columns.self_device_memory[row])),
            )
        return memory

    def _node_ids(self) -> list[_Column]:
        nodes = self.columns.node_ids
        return self._numbers(("Node ID", lambda row: nodes[row])) if any(node != -1 for node in nodes) else []

    def _shapes(self) -> list[_Column]:
        shapes = self.columns.shapes
        width = _limited(max(map(len, shapes)) + 4, self.limits.shapes)
        return [_Column("Input Shapes", width, lambda row: shapes[row][:width])] if any(self.columns.has_shapes) else []

    def _flops_and_stacks(self, with_flops: bool) -> list[_Column]:
        columns = self.columns
        some = [flops for flops in columns.flops if flops and flops > 0] if with_flops else []
        power = _flop_power(min(some)) if some else 0

        def flops_of(row: int) -> str:
            count = columns.flops[row] or 0
            return f"{count * pow(10, power * -3.0):8.3f}" if count > 0 else "--"

        def source_of(row: int) -> str:
            return self._source(columns.stacks[row][0]) if columns.stacks[row] else ""

        flops_header = f"Total {_FLOP_UNITS[power]}"
        if not self.has_stacks:
            return self._numbers((flops_header, flops_of)) if some else []
        if not some:
            return [_Column("Source Location", self.source_width, source_of, "<")]
        # torch declares the source column before that of FLOPs, but fills them in the other order.
        return [
            _Column("Source Location", self.source_width, flops_of, "<"),
            _Column(flops_header, _NUMBER_WIDTH, source_of),
        ]

    @staticmethod
    def _numbers(*columns: tuple[str, Callable[[int], Any]]) -> list[_Column]:
        return [_Column(header, _NUMBER_WIDTH, cell) for header, cell in columns]

    # cells

    def _time(self, microseconds: float) -> str:
        return format_time_in(microseconds, self.time_unit)

    def _name(self, name: str) -> str:
        limit = self.limits.name
        return name[: limit - 3] + "..." if limit is not None and len(name) >= limit - 3 else name

    def _source(self, frame: str) -> str:
        """The end of a source location that is too long: the file and line are there."""
        if len(frame) <= self.source_width:
            return frame
        end = frame[len(frame) - self.source_width :]
        return "..." + end[3:] if len(end) > 3 else end


def _flop_power(smallest: int) -> int:
    """Unit of the FLOPs column: the power of 1000 that fits the smallest value."""
    return int(max(0.0, min(math.log10(smallest) / 3, float(len(_FLOP_UNITS) - 1))))


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
