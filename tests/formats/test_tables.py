"""The table in other formats says the same."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from kinetoscope.formats.chrome.reader import read_chrome
from kinetoscope.trace import schema
from kinetoscope.trace.trace import Trace
from tests.shared_traces import TRACES, parse, slice_

NAMES = ["gpu_user_annotations.json.gz", "sglang_decode.json.gz"]


def nasty() -> Trace:
    names = ['a "b", c', "line\nbreak", "", "=1+1", "ü\t", "\x00", "null"]
    return parse([slice_(name, number + 0.001, 1, args={"x": name}) for number, name in enumerate(names)])


@pytest.fixture(params=[*NAMES, "nasty"])
def trace(request: pytest.FixtureRequest) -> Trace:
    return nasty() if request.param == "nasty" else read_chrome(TRACES / request.param)


def shown(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_csv(trace: Trace, tmp_path: Path) -> None:
    trace.write(tmp_path / "t.csv")
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as handle:
        lines = list(csv.reader(handle))
    assert lines[0] == list(schema.SCHEMA)
    assert lines[1:] == [[shown(value) for value in row] for row in trace.events.rows()]


@pytest.mark.parametrize("suffix", [".ndjson", ".jsonl"])
def test_ndjson(trace: Trace, suffix: str, tmp_path: Path) -> None:
    trace.write(tmp_path / f"t{suffix}")
    lines = (tmp_path / f"t{suffix}").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == trace.events.to_dicts()


@pytest.mark.parametrize("suffix", [".arrow", ".feather"])
def test_arrow(trace: Trace, suffix: str, tmp_path: Path) -> None:
    trace.write(tmp_path / f"t{suffix}")
    assert_frame_equal(pl.read_ipc(tmp_path / f"t{suffix}"), trace.events)
