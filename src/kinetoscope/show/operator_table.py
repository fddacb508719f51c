"""A table of operators: coloured with bars for a terminal, or plain for pipes and files, in the width that there is.

Names come from traces, so nothing of them is taken as markup or as a control sequence of the terminal.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinetoscope.show.controls import without_controls
from kinetoscope.show.operator_columns import Column, OperatorTable, columns_of, shown_rows
from kinetoscope.show.text_table import format_time

BAR_WIDTH = 8
NAME_WIDTH = 24
"""Least width that names get, and a third of the whole where that is more; columns of less weight are hidden for it."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def plain(table: OperatorTable, width: int) -> str:
    """The table as aligned text.

    Args:
        table: what is shown; with ``full_names`` it is as wide as it gets.
        width: columns of text at most, as far as the numbers allow it.
    """
    layout = _layout(table, width, gap=2, edges=0, bars=False)
    lines = []
    for cells in ([column.header for column in layout.columns], *layout.cells):
        aligned = (
            _cut(cell, room, "...").ljust(room) if column.text else cell.rjust(room)
            for cell, room, column in zip(cells, layout.widths, layout.columns, strict=True)
        )
        lines.append("  ".join(aligned).rstrip())
    lines.insert(1, "  ".join("-" * room for room in layout.widths))
    for remark in _remarks(table, layout):
        lines += textwrap.wrap(remark, max(width, 20), break_long_words=False)
    return "\n".join(lines) + "\n"


def coloured(table: OperatorTable, console: Console) -> Table:
    """The table for a terminal of the console's width: shares as bars, names cut where they do not fit."""
    unicode = (console.encoding or "").lower().startswith("utf")
    layout = _layout(table, console.width, gap=3, edges=3, bars=unicode)
    drawn = Table(
        box=box.SIMPLE_HEAD if unicode else box.ASCII2,
        header_style="bold",
        caption="\n".join(_remarks(table, layout)),
        caption_justify="left",
        caption_style="dim",
        pad_edge=False,
        expand=False,
    )
    for column, room in zip(layout.columns, layout.widths, strict=True):
        style = "cyan" if column.header == "Name" else "bold" if column.sort == table.sorted_by else None
        drawn.add_column(
            column.header,
            # rich cuts the blanks behind a bar when it aligns to the right.
            justify="left" if column.text or (column.share is not None and unicode) else "right",
            no_wrap=True,
            overflow="ellipsis",
            style=style,
            width=room,
        )
    for row, cells in zip(layout.rows, layout.cells, strict=True):
        texts = []
        for column, cell, room in zip(layout.columns, cells, layout.widths, strict=True):
            text = Text(_cut(cell, room, "…" if unicode else "...") if column.text else cell)
            if column.share is not None and unicode:
                text = Text.assemble(f"{cell:>6} ", (_bar(column.share(row)), "green"))
            texts.append(text)
        drawn.add_row(*texts)
    return drawn


@dataclass(frozen=True)
class _Layout:
    """What is shown in the width that there is."""

    rows: list[dict[str, Any]]
    columns: list[Column]
    hidden: list[Column]
    widths: list[int]
    cells: list[list[str]]
    """One list a row, one text a column."""


def _layout(table: OperatorTable, width: int, gap: int, edges: int, bars: bool) -> _Layout:
    """Choose columns and their widths. What is sorted by stays, as the name does; a number is never cut."""
    rows = list(shown_rows(table).iter_rows(named=True))
    columns = columns_of(table)
    cells = {column.header: [without_controls(column.cell(row)) for row in rows] for column in columns}
    full = {column.header: _full_width(column, cells[column.header], bars) for column in columns}
    kept = list(columns)
    name_width = max(NAME_WIDTH, width // 3)
    if not table.full_names:
        while sum(_least_width(column, full[column.header], name_width) + gap for column in kept) - gap + edges > width:
            loose = [column for column in kept if column.weight < 9 and column.sort != table.sorted_by]
            if not loose:
                break
            least = min(column.weight for column in loose)
            kept.remove([column for column in loose if column.weight == least][-1])
    widths = [full[column.header] for column in kept]
    if not table.full_names:
        widths = _given_way(kept, widths, width - edges - gap * (len(kept) - 1), name_width)
    return _Layout(
        rows=rows,
        columns=kept,
        hidden=[column for column in columns if column not in kept],
        widths=widths,
        cells=[list(row) for row in zip(*(cells[column.header] for column in kept), strict=True)],
    )


def _given_way(columns: list[Column], widths: list[int], room: int, name_width: int) -> list[int]:
    """Widths that fit the room: texts give way as far as they may, the longest first."""
    widths = list(widths)
    least = [_least_width(column, width, name_width) for column, width in zip(columns, widths, strict=True)]
    excess = sum(widths) - room
    for place in sorted(range(len(columns)), key=lambda place: least[place] - widths[place]):
        given = max(0, min(excess, widths[place] - least[place]))
        widths[place] -= given
        excess -= given
    return widths


def _full_width(column: Column, cells: list[str], bars: bool) -> int:
    return max([len(column.header), *map(len, cells)]) + (BAR_WIDTH + 1 if column.share is not None and bars else 0)


def _least_width(column: Column, full: int, name_width: int) -> int:
    if column.header == "Name":
        return min(full, name_width)
    return min(full, 2 * NAME_WIDTH) if column.text else full


def _cut(text: str, width: int, ellipsis: str) -> str:
    """The text, or as much of it as fits; what stands in square brackets at its end, the device, stays."""
    if len(text) <= width:
        return text
    end = text[text.rfind(" [") :] if text.endswith("]") and " [" in text[-16:] else ""
    return text[: width - len(ellipsis) - len(end)] + ellipsis + end


def _bar(share: float) -> str:
    eighths = round(max(0.0, min(1.0, share)) * BAR_WIDTH * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(BAR_WIDTH)


def _remarks(table: OperatorTable, layout: _Layout) -> list[str]:
    totals = f"Self CPU time total: {format_time(table.self_cpu_total)}"
    if table.device is not None:
        totals += f", self {table.device.upper()} time total: {format_time(table.self_device_total)}"
    remarks = [totals]
    rest = table.matching - len(table.rows)
    if rest > 0:
        remarks.append(f"{rest:,} more rows; --limit 0 shows all")
    if layout.hidden:
        remarks.append(f"columns hidden: {', '.join(column.header for column in layout.hidden)}")
    return remarks
