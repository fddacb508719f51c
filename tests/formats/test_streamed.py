"""JSON that goes into Parquet in parts is the file that reading and writing it makes."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import kinetoscope
from kinetoscope.formats import registry
from kinetoscope.formats.chrome import streamed, walk
from kinetoscope.formats.chrome.columns import Builder
from tests.shared_traces import NAMES, TRACES


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few thousand rows."""
    monkeypatch.setattr(streamed, "ROWS_IN_MEMORY", 3000)
    monkeypatch.setattr(walk, "PIECE_BYTES", 1 << 18)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_as_reading_and_writing(name: str, in_parts: None, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = kinetoscope.read(TRACES / name)
        rows = registry.to_parquet(TRACES / name, tmp_path / "t.parquet")
    got = kinetoscope.read(tmp_path / "t.parquet")
    assert rows == len(expected)
    assert_frame_equal(got.events, expected.events)
    assert got.metadata == expected.metadata
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_flows_of_ours_that_follow_from_the_table_are_left_out(in_parts: None, tmp_path: Path) -> None:
    trace = kinetoscope.read(TRACES / "gpu_user_annotations.json.gz").part("phase = 'X'")
    trace.write(tmp_path / "ours.json")
    assert registry.to_parquet(tmp_path / "ours.json", tmp_path / "t.parquet") == len(trace)
    assert_frame_equal(kinetoscope.read(tmp_path / "t.parquet").events, trace.events)


def test_slices_of_two_halves_are_joined(in_parts: None, tmp_path: Path) -> None:
    events = []
    for number in range(2000):
        events.append({"ph": "B", "name": f"op{number}", "pid": 1, "tid": 1, "ts": 10 * number})
        events.append({"ph": "E", "pid": 1, "tid": 1, "ts": 10 * number + 5})
    (tmp_path / "t.json").write_text(json.dumps(events))
    assert registry.to_parquet(tmp_path / "t.json", tmp_path / "t.parquet") == 2000
    assert_frame_equal(kinetoscope.read(tmp_path / "t.parquet").events, kinetoscope.read(tmp_path / "t.json").events)


def test_faults_are_told_and_nothing_is_left_of_a_failure(in_parts: None, tmp_path: Path) -> None:
    events = [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": number, "dur": 1 if number else -1} for number in range(9000)]
    (tmp_path / "t.json").write_text(json.dumps(events))
    with pytest.warns(UserWarning, match=r"t\.json: read with faults: 1 slices with a negative duration"):
        assert registry.to_parquet(tmp_path / "t.json", tmp_path / "t.parquet") == 9000
    (tmp_path / "no.json").write_text('{"eggs": 6}')
    with pytest.raises(kinetoscope.TraceError, match="eggs"):
        registry.to_parquet(tmp_path / "no.json", tmp_path / "other.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["no.json", "t.json", "t.parquet"]


def test_no_more_rows_than_said_are_in_memory(in_parts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heights: list[int] = []
    keep = streamed._Parts.keep

    def watched(self: streamed._Parts, builder: Builder) -> None:
        heights.append(builder.height)
        keep(self, builder)

    monkeypatch.setattr(streamed._Parts, "keep", watched)
    rows = registry.to_parquet(TRACES / "nvidia_nccl_2ranks_rank0.json.gz", tmp_path / "t.parquet")
    assert rows > 40_000
    # As many as may be, and one piece more.
    assert 3000 <= max(heights) < 3000 + 1500
    assert heights.count(max(heights)) < len(heights)
