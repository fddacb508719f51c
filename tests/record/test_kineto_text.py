"""Which of Kineto's own texts may be passed on as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import kinetoscope
from kinetoscope import ProfilerActivity, profile
from kinetoscope.record.kineto.text import KinetoText

EVENT = (
    '{\n    "ph": "X",\n    "cat": "cpu_op", "name": "%s",\n    "pid": 1, "tid": 1, "ts": 1.5, "dur": 2.0, '
    '"args": {"name": "x"\n}}'
)


def document(*events: str) -> bytes:
    return ('{"schemaVersion": 1, "traceEvents": [\n' + ",\n".join(events) + '\n],"traceName": "[x]" }').encode()


def test_a_sound_document_comes_apart_and_together() -> None:
    text = KinetoText(document(EVENT % "aten::add", EVENT % "aten::mul"))
    # The last bracket is that of the trace's name: what stands behind the events must not pass for them.
    assert not text.is_sound
    text = KinetoText(document(EVENT % "aten::add", EVENT % "aten::mul").replace(b"[x]", b"x"))
    assert text.is_sound
    assert json.loads(text.without_events) == {"schemaVersion": 1, "traceEvents": [], "traceName": "x"}
    assert [event["name"] for event in json.loads(text.document)["traceEvents"]] == ["aten::add", "aten::mul"]


@pytest.mark.parametrize(
    "event",
    [
        EVENT % 'q"uote',
        EVENT % 'a", "name2": "b',
        EVENT % "unknown",
        EVENT % "naïve",
        EVENT % "tab\there",
        EVENT % "back\\slash",
        EVENT.replace("cpu_op", "user_annotation") % "was/backslash",
        EVENT.replace("2.0", "nan") % "x",
        EVENT[:-4],
        "",
    ],
)
def test_garbled_events_are_not_sound(event: str) -> None:
    assert not KinetoText(document(EVENT % "good", event).replace(b"[x]", b"x")).is_sound


def test_what_is_no_trace_is_not_sound() -> None:
    for text in (b"", b"{}", b'{"traceEvents": [', b"]", b'] "traceEvents": ['):
        assert not KinetoText(text).is_sound
        assert KinetoText(text).document == text


def test_an_export_before_and_after_the_table_says_the_same(tmp_path: Path) -> None:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as prof:
        torch.ones(3, requires_grad=True).square().sum().backward()
    prof.add_metadata("who", "me")
    prof.export_chrome_trace(str(tmp_path / "before.json.gz"))
    trace = prof.trace
    prof.export_chrome_trace(str(tmp_path / "after.json.gz"))
    before, after = (kinetoscope.read(tmp_path / f"{name}.json.gz") for name in ("before", "after"))
    assert before.metadata.user == after.metadata.user
    assert before.metadata.trace_id == after.metadata.trace_id == trace.metadata.trace_id
    shared = [
        "phase",
        "name",
        "category",
        "start_ns",
        "duration_ns",
        "input_shapes",
        "external_id",
        "bytes",
        "address",
        "parent",
    ]
    assert before.events.filter(before.events["phase"] != "M").select(shared).equals(after.events.select(shared))
