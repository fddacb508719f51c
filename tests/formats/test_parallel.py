"""Pieces decoded side by side give the table that one process gives, and any trouble is left to it."""

from __future__ import annotations

import json
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import kinetoscope
from kinetoscope.formats.chrome import parallel, walk
from kinetoscope.formats.chrome.parallel import Workers, chunk_of, worker_count
from kinetoscope.trace.trace import Trace
from tests.shared_traces import NAMES, TRACES


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers begin after a few events, with small chunks."""
    monkeypatch.setattr(walk, "WORTH_BYTES", 1 << 12)
    monkeypatch.setattr(walk, "CHUNK_BYTES", 1 << 18)
    monkeypatch.setattr(walk, "PIECE_BYTES", 1 << 17)
    monkeypatch.setenv("KINETOSCOPE_WORKERS", "2")


def alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    with monkeypatch.context() as patched:
        patched.setenv("KINETOSCOPE_WORKERS", "0")
        return kinetoscope.read(path)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_table_as_one_process_gives(name: str, soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = TRACES / name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = alone(path, monkeypatch), kinetoscope.read(path)
    assert_frame_equal(got.events, expected.events)
    assert got.metadata == expected.metadata
    assert got.issues == expected.issues


def events(count: int) -> list[dict[str, Any]]:
    return [
        {"ph": "X", "cat": "cpu_op", "name": f"op {number % 7} \u00e9", "pid": "main" if number % 3 else number, "tid": 1,
         "ts": number, "dur": 1, "args": {"External id": number, "odd": [number]}}
        for number in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("fault", ["none", "quote", "cut", "metadata", "negative"])
def test_faults_far_into_the_file(fault: str, soon: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = events(9000)
    if fault == "metadata":
        listed.insert(7000, {"ph": "M", "name": "process_name", "pid": "main", "tid": 0, "args": {"name": "python"}})
    if fault == "negative":
        listed[8000]["dur"] = -5
    text = json.dumps({"traceEvents": listed, "deviceProperties": []})
    if fault == "quote":
        place = text.index('"ts": 8000,')
        text = text[:place] + '"name": "a "quoted" name", ' + text[place:]
    if fault == "cut":
        text = text[: len(text) - 200_000]
    path = tmp_path / "t.json"
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = alone(path, monkeypatch), kinetoscope.read(path)
    assert_frame_equal(got.events, expected.events)
    assert got.metadata == expected.metadata
    assert got.issues == expected.issues
    assert len(got) > 5000


def test_a_worker_that_dies_loses_nothing(soon: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = 0
    give = Workers.give

    def give_and_kill(self: Workers, text: bytes) -> None:
        nonlocal given
        given += 1
        if given == 2:
            for worker in self._all:
                os.kill(worker._process.pid, signal.SIGKILL)
        give(self, text)

    monkeypatch.setattr(Workers, "give", give_and_kill)
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events(50_000)))
    got = kinetoscope.read(path)
    assert given >= 2
    assert got.events["external_id"].to_list() == list(range(50_000))
    assert got.issues == {}


def test_no_process_is_left_over(soon: None, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events(9000)))
    kinetoscope.read(path)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if children.exists():
        running = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children.read_text().split()]
        assert not any(b"parallel" in command for command in running)


def test_a_chunk_that_is_not_as_it_should_be_is_none() -> None:
    good = json.dumps(events(3))[1:-1]
    chunk = chunk_of(good.encode() + b", ")
    assert chunk is not None
    assert sum(len(piece["start_ns"]) for piece in chunk.pieces) == 3
    for bad in (good[:-5], good.replace('"ts": 1', '"ts": nan'), good.replace('"dur": 1', '"dur": -1'), "7, 8", good + "]"):
        assert chunk_of(bad.encode()) is None, bad


def test_how_many_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETOSCOPE_WORKERS", "3")
    assert worker_count() == 3
    monkeypatch.setenv("KINETOSCOPE_WORKERS", "1000")
    assert worker_count() == parallel.MOST_WORKERS
    monkeypatch.delenv("KINETOSCOPE_WORKERS")
    monkeypatch.setattr("sys.executable", "/usr/bin/blender")
    assert worker_count() == 0
