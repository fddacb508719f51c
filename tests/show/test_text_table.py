"""torch's table, laid out without torch; that it equals torch's own text is held by tests/differential."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kinetoscope.show.frame_table import frame_table
from kinetoscope.show.text_table import UnknownSortKey, build_table, columns_of, format_memory, format_time


def row(key: str, **values: Any) -> Any:
    plain = {
        "key": key, "count": 1, "self_cpu_time_total": 0.0, "cpu_time_total": 0.0, "self_device_time_total": 0.0,
        "device_time_total": 0.0, "cpu_memory_usage": 0, "self_cpu_memory_usage": 0, "device_memory_usage": 0,
        "self_device_memory_usage": 0, "flops": 0, "input_shapes": "", "overload_name": "", "stack": [], "is_async": False,
        "is_legacy": False, "is_user_annotation": False, "device_type": "cpu",
    }  # fmt: skip
    return SimpleNamespace(**{**plain, **values})


def table(*rows: Any, use_device: str | None = None, memory: bool = False, flops: bool = False, **layout: Any) -> list[str]:
    text = build_table(columns_of(rows), use_device=use_device, profile_memory=memory, with_flops=flops, **layout)
    return text.splitlines()


def cells(line: str) -> list[str]:
    return [cell for cell in line.split("  ") if cell.strip()]


MM = row("aten::mm", count=2, self_cpu_time_total=300.0, cpu_time_total=400.0)
ADD = row("aten::add", self_cpu_time_total=100.0, cpu_time_total=100.0)


def test_times_and_shares() -> None:
    rule, header, _, first, second, _, total = table(MM, ADD)
    assert set(rule) == {"-", " "}
    assert [cell.strip() for cell in cells(header)] == [
        "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls",
    ]  # fmt: skip
    assert first.split() == ["aten::mm", "75.00%", "300.000us", "100.00%", "400.000us", "200.000us", "2"]
    assert second.split() == ["aten::add", "25.00%", "100.000us", "25.00%", "100.000us", "100.000us", "1"]
    assert total == "Self CPU time total: 400.000us"
    assert len(rule) == len(header) == len(first)


def test_sorting_limits_header_and_unit() -> None:
    lines = table(ADD, MM, sort_by="cpu_time_total", row_limit=1, header="what ran", time_unit="ms")
    assert lines[1] == "what ran"
    assert [line.split()[0] for line in lines[5:6]] == ["aten::mm"]
    assert "0.300ms" in lines[5]
    assert not any("aten::add" in line for line in lines)
    with pytest.raises(UnknownSortKey, match="self_cpu_time_total"):
        table(MM, sort_by="speed")


def test_what_was_recorded_has_columns() -> None:
    kernel = row("gemm", device_type="cuda", self_device_time_total=50.0, device_time_total=50.0, self_device_memory_usage=4,
                 device_memory_usage=2048, flops=3_000_000, input_shapes="[[2, 2]]", overload_name="out")  # fmt: skip
    header = table(MM, kernel, use_device="cuda", memory=True, flops=True)[1]
    for name in ("Self CUDA %", "CUDA time avg", "CPU Mem", "Self CUDA Mem", "Overload Name", "Input Shapes", "Total MFLOPs"):
        assert name in header
    assert "CUDA" not in table(MM)[1] and "Mem" not in table(MM)[1]
    with pytest.raises(RuntimeError, match="no device was profiled"):
        table(kernel)


def test_annotations_of_the_device_are_not_in_its_total() -> None:
    kernel = row("gemm", device_type="cuda", self_device_time_total=50.0, device_time_total=50.0)
    mark = row("step", device_type="cuda", self_device_time_total=80.0, device_time_total=80.0, is_user_annotation=True)
    assert table(kernel, mark, use_device="cuda")[-1] == "Self CUDA time total: 50.000us"


def test_a_stack_has_a_line_a_frame() -> None:
    lines = table(row("aten::mm", stack=["inner.py(3): f", "main.py(1): g"]))
    assert [line.split()[-2:] for line in lines[3:5]] == [["inner.py(3):", "f"], ["main.py(1):", "g"]]


def test_long_names_are_cut() -> None:
    line = table(row("x" * 80), max_name_column_width=20)[3]
    assert line.split()[0] == "x" * 17 + "..."


def test_no_rows_no_table() -> None:
    assert table() == []


@pytest.mark.parametrize(
    ("microseconds", "text"), [(0, "0.000us"), (999.9994, "999.999us"), (1500, "1.500ms"), (2_000_000, "2.000s")]
)
def test_times_in_the_largest_unit_that_fits(microseconds: float, text: str) -> None:
    assert format_time(microseconds) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (-512, "-512 B"), (2048, "2.00 KB"), (3 * 2**30, "3.00 GB")])
def test_bytes_in_the_largest_unit_that_fits(size: int, text: str) -> None:
    assert format_memory(size) == text


def test_any_frame_as_text() -> None:
    text = frame_table(pl.DataFrame({"name": ["a\x1b", "b"], "ns": [1, 20]}), limit=1)
    assert "a\\x1b" in text and "\x1b" not in text
    assert text.endswith("... 1 more rows\n")
    assert frame_table(pl.DataFrame()) == "no columns\n"
