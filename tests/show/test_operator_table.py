"""Tables of operators as they are seen: held by snapshots, and by what must hold at every width.

``KINETOSCOPE_UPDATE_SNAPSHOTS=1 pytest tests/show`` writes the snapshots anew; look at the difference before you commit it.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

import kinetoscope
from kinetoscope.cli.selection import Selection, select
from kinetoscope.show.facts import facts, pairs
from kinetoscope.show.operator_columns import OperatorTable
from kinetoscope.show.operator_table import coloured, plain
from tests.shared_traces import TRACES

SNAPSHOTS = Path(__file__).parent / "snapshots"
WIDTHS = (60, 100, 160)
# A device with kernels of C++ names and annotations on both sides; shapes, memory and FLOPs; the host alone.
SEEN = {
    "h100_qwen_0.5b.json.gz": Selection(limit=12),
    "gpu_user_annotations.json.gz": Selection(limit=8, by_shape=True),
    "cpu_only_small.json.gz": Selection(limit=8),
}


def table(name: str, full_names: bool = False) -> OperatorTable:
    return select(kinetoscope.read(TRACES / name), SEEN[name], full_names=full_names)


def console(width: int, terminal: bool) -> Console:
    return Console(width=width, file=io.StringIO(), force_terminal=terminal, color_system=None, highlight=False, markup=False)


def held(name: str, text: str) -> None:
    path = SNAPSHOTS / name
    if os.environ.get("KINETOSCOPE_UPDATE_SNAPSHOTS") == "1":
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} looks different now"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SEEN)
def test_plain_tables_look_as_they_did(name: str, width: int) -> None:
    text = plain(table(name), width)
    assert max(map(len, text.splitlines())) <= width
    held(f"{name.split('.')[0]}.plain.{width}.txt", text)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SEEN)
def test_tables_on_a_terminal_look_as_they_did(name: str, width: int) -> None:
    shown = console(width, terminal=True)
    shown.print(coloured(table(name), shown))
    lines = [line.rstrip() for line in shown.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    held(f"{name.split('.')[0]}.terminal.{width}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SEEN)
def test_facts_keep_to_the_width(name: str, width: int) -> None:
    shown = console(width, terminal=False)
    pairs(shown, facts(kinetoscope.read(TRACES / name)))
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    held(f"{name.split('.')[0]}.facts.{width}.txt", text)


def test_full_names_are_whole_and_no_column_is_hidden() -> None:
    seen = table("h100_qwen_0.5b.json.gz", full_names=True)
    text = plain(seen, 60)
    for name in seen.rows["key"]:
        assert name in text
    assert "columns hidden" not in text
    assert "CUDA avg" in text


def test_a_name_on_host_and_device_says_which_is_which() -> None:
    text = plain(table("h100_qwen_0.5b.json.gz"), 160)
    lines = [line for line in text.splitlines() if "ProfilerStep*" in line]
    assert [line.split("  ")[0] for line in lines] == ["ProfilerStep*", "ProfilerStep* [CUDA]"]


@pytest.mark.parametrize("width", [20, 40, 60])
def test_the_mark_of_the_device_is_never_cut(width: int) -> None:
    rows = kinetoscope.read(TRACES / "h100_qwen_0.5b.json.gz").key_averages().to_polars()
    long = "a range with quite a long name that somebody marked"
    twice = rows.filter(pl.col("key") == "ProfilerStep*").with_columns(key=pl.lit(long))
    text = plain(OperatorTable(twice, 2, 1.0, 1.0, "self_device_time_total", device="cuda"), width)
    assert text.splitlines()[3].split("  ")[0].endswith("... [CUDA]")


def test_hostile_names_print_as_text() -> None:
    rows = kinetoscope.read(TRACES / "cpu_only_small.json.gz").key_averages().to_polars().head(1)
    hostile = "[bold]red[/bold]\x1b[31m\n\x07 \u202e end"
    shown = console(120, terminal=True)
    seen = OperatorTable(rows.with_columns(key=pl.lit(hostile)), 1, 1.0, 0.0, "count")
    shown.print(coloured(seen, shown))
    for text in (shown.file.getvalue(), plain(seen, 120)):  # type: ignore[attr-defined]
        assert "[bold]red[/bold]" in text
        assert "\x1b" not in text and "\x07" not in text
    assert len(plain(seen, 120).splitlines()) == 4
