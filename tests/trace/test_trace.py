"""Traces do not change."""

from __future__ import annotations

import polars as pl
import pytest

from kinetoscope.trace.metadata import Metadata
from kinetoscope.trace.trace import Trace


def stepped() -> Trace:
    rows = {"name": ["ProfilerStep#4", "ProfilerStep#5"], "phase": "X", "category": "user_annotation", "start_ns": [0, 10],
            "duration_ns": [10, 10], "process": 1, "thread": 1}  # fmt: skip
    return Trace(pl.DataFrame(rows), Metadata(steps=[4, 5], user={"run": {"name": "first"}}), {"no events": 1})


def test_metadata_is_frozen() -> None:
    with pytest.raises(AttributeError):
        stepped().metadata.steps = [1]  # type: ignore[misc]
    with pytest.raises(AttributeError):
        stepped().metadata = Metadata()  # type: ignore[misc]


def test_a_part_leaves_its_source_as_it_was() -> None:
    trace = stepped()
    part = trace.part(steps=[(4, 4)])
    assert part.metadata.steps == [4]
    part.metadata.user["run"]["name"] = "changed"
    part.issues["no events"] = 7
    whole = trace.part(steps=[(4, 9)])
    assert len(whole) == len(trace)
    whole.metadata.steps.append(9)
    assert trace.metadata.steps == [4, 5]
    assert trace.metadata.user == {"run": {"name": "first"}}
    assert trace.issues == {"no events": 1}
