"""What a check says about a trace."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.formats.check import Finding, check, remarks
from kinetoscope.trace.errors import TraceError
from tests.formats.test_faults import AFTER, BEFORE, kineto, kineto_event
from tests.shared_traces import TRACES, parse, slice_


def test_a_sound_trace() -> None:
    report = check(TRACES / "cpu_only_small.json.gz")
    assert (report.events, report.faults, report.remarks, report.lost, report.is_sound) == (18, [], [], 0, True)
    assert str(report).endswith("cpu_only_small.json.gz: 18 events, sound")


def test_faults_with_their_first_place_and_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    events = [BEFORE, kineto_event('a "b" c', 4), kineto_event("bad", 5, '"x": ]'), kineto_event("tab\t", 6), AFTER]
    odd = json.dumps([slice_("minus", 7, -3), slice_("never", None, 1)])[1:-1]
    path.write_bytes(gzip.compress(kineto(*events, odd).encode()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = check(path)
    assert report.events == 5
    assert report.lost == 2
    assert not report.is_sound
    found = {finding.kind: (finding.count, finding.done) for finding in report.faults}
    assert found == {
        "unreadable events": (1, "lost"),
        "events without a time": (1, "lost"),
        "unescaped quotes": (2, "escaped"),
        "control characters": (1, "escaped"),
        "slices with a negative duration": (1, "kept without one, out of every sum; the number stays in args"),
    }
    first = {finding.kind: finding.first for finding in report.faults}
    assert 'a "b" c' in first["unescaped quotes"]
    assert first["slices with a negative duration"] == "'minus' at 7 us"
    assert first["events without a time"] == "'never' at null us"
    text = str(report)
    assert "5 events, 2 lost" in text
    assert "fault: 2 unescaped quotes: escaped (first: " in text


def by_kind(findings: list[Finding]) -> dict[str, tuple[int, str]]:
    return {finding.kind: (finding.count, finding.first) for finding in findings}


def launch(ts: float, correlation: int, **members: Any) -> dict[str, Any]:
    return slice_("cudaLaunchKernel", ts, 1, **{"cat": "cuda_runtime", "args": {"correlation": correlation}, **members})


def kernel(ts: float, correlation: int) -> dict[str, Any]:
    return {
        **slice_("kernel", ts, 1, args={"device": 0, "stream": 7, "correlation": correlation}),
        "cat": "kernel",
        "pid": 0,
        "tid": 7,
    }


def test_remarks_counted_by_hand() -> None:
    trace = parse([
        slice_("outer", 0, 10),
        slice_("crosses outer", 5, 10),
        slice_("inside the second", 6, 2),
        slice_("late", 3, 1, args={"finished": False}),
        slice_("twin", 40, 1),
        slice_("twin", 40, 1),
        launch(50, 1),
        kernel(51, 1),
        launch(60, 2),
        kernel(55, 2),
        kernel(70, 3),
    ])  # fmt: skip
    assert by_kind(remarks(trace)) == {
        "slices that overlap without nesting": (1, "row 1, 'crosses outer' at 5.000 us"),
        "duplicate slices": (1, "row 5, 'twin' at 40.000 us"),
        "slices out of order": (1, "row 3, 'late' at 3.000 us"),
        "device slices without their launch": (1, "row 10, 'kernel' at 70.000 us"),
        "device slices before their launch": (1, "row 9, 'kernel' at 55.000 us"),
        "operators not ended at the end": (1, "row 3, 'late' at 3.000 us"),
    }


def test_correlation_ids_count_by_rank() -> None:
    trace = parse([
        launch(1, 5, args={"correlation": 5, "Trace rank": 0}),
        {**kernel(2, 5), "args": {"device": 0, "stream": 7, "correlation": 5, "Trace rank": 1}},
    ])  # fmt: skip
    assert list(by_kind(remarks(trace))) == ["device slices without their launch"]


def test_parquet_and_what_is_no_trace(tmp_path: Path) -> None:
    trace = parse([slice_("a", 1, 1)])
    trace.write(tmp_path / "t.parquet")
    assert check(tmp_path / "t.parquet").events == 1
    (tmp_path / "t.txt").write_text("hello")
    with pytest.raises(TraceError, match="begins with 'hello'"):
        check(tmp_path / "t.txt")
