"""How the coloured table fits a terminal: names give way, numbers never."""

from __future__ import annotations

import io

import polars as pl
import pytest
from rich.console import Console

from kinetoscope.show.operator_columns import OperatorTable
from kinetoscope.show.operator_table import NAME_WIDTH, coloured

LONG = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"


def operators() -> OperatorTable:
    rows = pl.DataFrame({
        "key": ["aten::mm", LONG],
        "overload_name": ["", ""],
        "count": [12_345, 7],
        "self_cpu_time_total": [640_000.0, 160_000.0],
        "cpu_time_total": [700_000.0, 170_000.0],
        "cpu_time": [56.7, 24_285.714],
        "cpu_memory_usage": [1024, -2048],
        "self_cpu_memory_usage": [1024, -2048],
        "flops": [0, 0],
        "input_shapes": ["", ""],
        "stack": [[], []],
    }, schema_overrides={"stack": pl.List(pl.String)})  # fmt: skip
    return OperatorTable(rows, 2, self_cpu_total=800_000.0, self_device_total=0.0, sorted_by="self_cpu_time_total", memory=True)


def drawn(width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(coloured(operators(), console))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [64, 80, 100, 120, 160, 240])
def test_no_number_and_no_header_is_cut(width: int) -> None:
    lines = drawn(width)
    assert max(map(len, lines)) <= width
    header, first, second = lines[1], lines[3], lines[4]
    assert "…" not in header
    assert "…" not in first
    assert "640.000ms" in first
    assert "160.000ms" in second
    assert "Self CPU %" in header
    assert LONG[: NAME_WIDTH - 1] in second


def test_a_name_is_whole_where_there_is_room_and_cut_only_where_there_is_not() -> None:
    assert LONG in drawn(240)[4]
    assert "…" in drawn(80)[4]
    assert "columns hidden" not in " ".join(drawn(240))
    assert "columns hidden: CPU total, CPU avg, CPU mem, Self CPU mem" in " ".join(drawn(80))


def test_bars_begin_in_one_column() -> None:
    _, _, _, first, second, *_ = drawn(120)
    assert " 80.0% ██████▍ " in first
    assert first.index("%") == second.index("%")
    assert first.index("█") == second.index("█")
