"""Faults in files: each is repaired or counted, and what is readable comes out."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from kinetoscope.formats.chrome import walk
from kinetoscope.formats.chrome.reader import parse_chrome, read_chrome
from kinetoscope.trace.errors import TraceError
from kinetoscope.trace.trace import Trace
from tests.shared_traces import TRACES, parse, quietly, slice_


def kineto_event(name: str, ts: int, args: str = "") -> str:
    """A slice laid out as Kineto lays it out, with the name and the arguments as they are given."""
    return (
        f'  {{\n    "ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 1, "tid": 2,\n'
        f'    "ts": {ts}.500, "dur": 2.250,\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def kineto(*events: str, metadata: str = '"k": "v",') -> str:
    joined = ",\n".join(events)
    return f'\n{{\n  "schemaVersion": 1,\n  {metadata}\n  "traceEvents": [\n{joined}\n  ],\n  "traceName": "t.json"\n}}\n'


BEFORE, AFTER = kineto_event("before", 1, '"External id": 7'), kineto_event("after", 9, '"External id": 8')


def names(trace: Trace) -> list[str | None]:
    return trace.events["name"].to_list()


@pytest.mark.parametrize(
    ("written", "read", "kind", "count"),
    [
        ('say "hi"', 'say "hi"', "unescaped quotes", 2),
        ('"', '"', "unescaped quotes", 1),
        ('a", "b', 'a", "b', "unescaped quotes", 2),
        ("C:\\dir\\new", "C:\\dir\new", "unescaped backslashes", 1),
        ("C:\\data\\", "C:\\data\\", "unescaped backslashes", 2),
        ("tab\there", "tab\there", "control characters", 1),
        ("line\nbreak\r\x00", "line\nbreak\r\x00", "control characters", 3),
        ("half \\ud83d pair", "half \ufffd pair", "lone surrogates", 1),
        ("whole \\ud83d\\ude00 pair \\ude00", "whole \U0001f600 pair \ufffd", "lone surrogates", 1),
    ],
)
def test_names_as_kineto_has_written_them(written: str, read: str, kind: str, count: int) -> None:
    trace = quietly(kineto(BEFORE, kineto_event(written, 4), AFTER))
    assert names(trace) == ["before", read, "after"]
    assert trace.issues == {kind: count}
    assert trace.events["start_ns"].to_list() == [1500, 4500, 9500]
    assert trace.events["duration_ns"].to_list() == [2250] * 3
    assert trace.events["external_id"].to_list() == [7, None, 8]
    assert trace.metadata.trace_name == "t.json"


@pytest.mark.parametrize(
    ("args", "column", "kind"),
    [
        ('"bandwidth": inf', '{"bandwidth":"inf"}', "bare NaN or infinity"),
        ('"a": -nan, "b": 1', '{"a":"-nan","b":1}', "bare NaN or infinity"),
        ('"a": NaN', '{"a":"NaN"}', "bare NaN or infinity"),
        ('"a": -Infinity', '{"a":"-Infinity"}', "bare NaN or infinity"),
        ('"a": 1,', '{"a":1}', "trailing commas"),
        ('"a": [1, 2,]', '{"a":[1,2]}', "trailing commas"),
        ('"a": 1 "b": 2', '{"a":1,"b":2}', "missing commas"),
        ('"a": , "b": 2', '{"a":null,"b":2}', "missing values"),
        ('"a": True', '{"a":"True"}', "bare words"),
        ('"a": 0x7f', '{"a":"0x7f"}', "bare words"),
        ('"a": ["x "y" z", "w"]', '{"a":["x \\"y\\" z","w"]}', "unescaped quotes"),
    ],
)
def test_arguments_as_kineto_has_written_them(args: str, column: str, kind: str) -> None:
    trace = quietly(kineto(BEFORE, kineto_event("odd", 4, args), AFTER))
    assert names(trace) == ["before", "odd", "after"]
    assert trace.events["args"].to_list() == [None, column, None]
    assert list(trace.issues) == [kind]


def test_invalid_utf8() -> None:
    text = kineto(BEFORE, kineto_event("caf@ @", 4, '"x": "@"'), AFTER).encode().replace(b"@", b"\xe9")
    trace = quietly(text)
    assert names(trace) == ["before", "caf\ufffd \ufffd", "after"]
    assert trace.issues == {"invalid UTF-8": 3}


def test_invalid_utf8_only_in_an_argument() -> None:
    trace = quietly(kineto(kineto_event("a", 4, '"x": "@"')).encode().replace(b"@", b"\xe9"))
    assert trace.events["args"].to_list() == ['{"x":"\ufffd"}']
    assert trace.issues == {"invalid UTF-8": 1}


@pytest.mark.parametrize("metadata", ['"k": "C:\\dir "x" y",', '"k": "tab\there",', '"k": nan,', '"k": "\\",'])
def test_metadata_that_is_no_json(metadata: str) -> None:
    trace = quietly(kineto(BEFORE, AFTER, metadata=metadata))
    assert names(trace) == ["before", "after"]
    assert trace.issues
    assert trace.metadata.source["schemaVersion"] == 1
    assert trace.metadata.trace_name == "t.json"


def test_metadata_before_between_and_after() -> None:
    text = json.dumps({"traceName": "n", "traceEvents": [slice_("a", 1, 1)], "distributedInfo": {"rank": 3}, "mine": [1, "]"]})
    trace = parse_chrome(text.encode(), "test")
    assert (trace.metadata.rank, trace.metadata.trace_name, trace.metadata.user) == (3, "n", {"mine": [1, "]"]})
    assert trace.events["rank"].to_list() == [3]


def test_events_that_a_member_only_speaks_of() -> None:
    before = r'"note": "\"traceEvents\": [", "deep": {"traceEvents": [1]}'
    text = f'{{{before}, "traceEvents": [{json.dumps(slice_("a", 1, 1))}]}}'
    trace = parse_chrome(text.encode(), "test")
    assert names(trace) == ["a"]
    assert trace.metadata.user["deep"] == {"traceEvents": [1]}


def test_several_lists_of_events() -> None:
    a, b, c = (json.dumps(slice_(name, number, 1)) for number, name in enumerate("abc"))
    text = f'{{"traceEvents": [{a}], "x": 1, "traceEvents": [{b}, {c}], "traceEvents": [], "y": [2]}}'
    trace = quietly(text)
    assert names(trace) == ["a", "b", "c"]
    assert trace.metadata.user == {"x": 1, "y": [2]}
    assert trace.issues == {"further lists of events": 2}


def test_thousands_of_lists_of_events() -> None:
    more = ', "traceEvents": []' * 20_000
    trace = quietly(f'{{"traceEvents": [{json.dumps(slice_("a", 1, 1))}]{more}}}')
    assert names(trace) == ["a"]
    assert trace.issues == {"further lists of events": 100}


@pytest.mark.parametrize("whole", ["[%s]", '{"traceEvents": [%s]}', '{"traceEvents": [%s], "x": 1}'])
@pytest.mark.parametrize("rest", [" x", "{}", ',"y"', "\n[1]", "]"])
def test_text_after_the_end_is_not_dropped_silently(whole: str, rest: str) -> None:
    text = whole.replace("%s", json.dumps(slice_("a", 1, 1)))
    assert parse_chrome(text.encode() + b"\n\x00\x00", "test").issues == {}
    trace = quietly(text + rest)
    assert names(trace) == ["a"]
    assert trace.issues == {"text after the end": 1}


def test_truncated_anywhere() -> None:
    """Wherever a file was cut, the events before the cut come out, and the cut is counted."""
    text = kineto(BEFORE, kineto_event("middle", 4, '"a": [1, 2]'), AFTER).encode()
    first = text.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    ends = [
        text.index(mark.encode()) + len(mark.encode()) for mark in (BEFORE, kineto_event("middle", 4, '"a": [1, 2]'), AFTER)
    ]
    last = text.rindex(b"}")
    for cut in range(first, last):
        trace = quietly(text[:cut])
        assert names(trace) == ["before", "middle", "after"][: sum(end <= cut for end in ends)], cut
        assert trace.issues, cut


@pytest.mark.parametrize("joint", [" ", ",,", ", ,", "\n"])
def test_commas_between_events(joint: str) -> None:
    trace = quietly("[" + joint.join([BEFORE, AFTER]) + ",]")
    assert names(trace) == ["before", "after"]
    assert trace.issues


def test_values_that_are_no_events() -> None:
    trace = quietly(json.dumps([1, slice_("a", 1, 1), None, "x", [], slice_("b", 2, 1)]))
    assert names(trace) == ["a", "b"]
    assert trace.issues == {"values that are no events": 4}


@pytest.mark.parametrize(
    ("change", "issues", "rows"),
    [
        ({"ts": None}, {"events without a time": 1}, 1),
        ({"ts": "soon"}, {"events without a time": 1}, 1),
        ({"ts": 1e300}, {"events without a time": 1}, 1),
        ({"dur": None}, {"slices without a duration": 1}, 2),
        ({"dur": -5}, {"slices with a negative duration": 1}, 2),
        ({"dur": 18446744073709551.615}, {"slices with an implausible duration": 1}, 2),
        ({"ph": None, "dur": 0, "name": None}, {"events without a phase": 1}, 1),
        ({"ph": None}, {}, 2),
    ],
)
def test_odd_times(change: dict[str, Any], issues: dict[str, int], rows: int) -> None:
    trace = quietly(json.dumps([slice_("good", 1, 1), {**slice_("odd", 2, 3), **change}]))
    assert trace.issues == issues
    assert len(trace) == rows
    if "dur" in change and rows == 2:
        # Out of every sum, but still there to be read.
        assert trace.events["duration_ns"].to_list() == [1000, None]
        assert trace.events["depth"].to_list() == [0, None]
        kept = json.loads(trace.events["args"][1] or '{"chrome": {"dur": null}}')
        assert kept["chrome"]["dur"] == change["dur"]


def test_missing_time_and_duration() -> None:
    odd = slice_("odd", 1, 1)
    del odd["ts"]
    short = slice_("short", 1, 1)
    del short["dur"]
    trace = quietly(json.dumps([odd, short]))
    assert names(trace) == ["short"]
    assert trace.issues == {"events without a time": 1, "slices without a duration": 1}


def test_begin_and_end_become_slices() -> None:
    common = {"pid": 1, "tid": 2, "cat": "c"}
    events = [
        {"ph": "B", "name": "outer", "ts": 0, "args": {"a": 1}, **common},
        {"ph": "B", "name": "inner", "ts": 1, **common},
        {"ph": "B", "name": "elsewhere", "ts": 1, **common, "tid": 3},
        {"ph": "E", "ts": 2, "args": {"b": 2}, **common},
        {"ph": "E", "ts": 5, "args": {"a": 3}, **common},
        {"ph": "E", "ts": 6, **common},
        {"ph": "B", "name": "open", "ts": 7, **common},
    ]
    trace = quietly(json.dumps(events))
    rows = trace.events.select("id", "phase", "name", "start_ns", "duration_ns", "parent", "depth", "args").rows()
    assert rows == [
        (0, "X", "outer", 0, 5000, None, 0, '{"a":3}'),
        (1, "X", "inner", 1000, 1000, 0, 1, '{"b":2}'),
        (2, "B", "elsewhere", 1000, None, None, None, None),
        (3, "E", None, 6000, None, None, None, None),
        (4, "B", "open", 7000, None, None, None, None),
    ]
    assert trace.issues == {"begins without an end, ends without a begin": 3}


def test_members_without_a_column_are_kept() -> None:
    event = {**slice_("a", 1, 1, args={"x": 1}), "cname": "good", "tts": 5, "custom": {"deep": [1]}, "bp": "e"}
    trace = parse([event, {"ph": "i", "name": "b", "pid": 1, "tid": 1, "ts": 1, "s": "g"}])
    first, second = (json.loads(text) for text in trace.events["args"])
    assert first == {"x": 1, "chrome": {"bp": "e", "cname": "good", "tts": 5, "custom": {"deep": [1]}}}
    assert second == {"chrome": {"s": "g"}}


def test_members_and_arguments_of_one_name_stay_apart() -> None:
    trace = quietly(
        json.dumps([{**slice_("a", 1, 1, args={"Fwd thread id": "x"}), "\x00Fwd thread id": 1, "Original category": 2}])
    )
    assert json.loads(trace.events["args"][0]) == {
        "Fwd thread id": "x", "chrome": {"\x00Fwd thread id": 1, "Original category": 2},
    }  # fmt: skip
    old = parse([{**slice_("a", 1, 1, args={"Original category": "first"}), "cat": "Kernel"}])
    assert old.events["args"].to_list() == ['{"Original category":"first"}']


def test_names_of_other_types() -> None:
    trace = quietly(json.dumps([slice_("a", 1, 1), {**slice_("", 2, 1), "name": 5, "pid": [1], "args": 7}]))
    assert names(trace) == ["a", "5"]
    assert json.loads(trace.events["args"][1])["chrome"] == {"name": 5, "pid": [1], "args": 7}
    assert trace.metadata.text_ids == {str(trace.events["process"][1]): "[1]"}


def test_arguments_of_unexpected_types_stay_as_they_are() -> None:
    args = {"External id": "x", "Input Dims": "none", "Sequence number": 2**80, "Python id": None, "Fwd thread id": 1.5}
    trace = parse([slice_("a", 1, 1, args=args), slice_("b", 2, 1, args={"External id": 3, "external id": 4})])
    assert json.loads(trace.events["args"][0]) == args
    assert trace.events["external_id"].to_list() == [None, 3]
    assert trace.events["args"][1] == '{"external id":4}'


def test_the_order_of_odd_arguments_depends_on_their_row_alone() -> None:
    odd = {"Call stack": None, "External id": None}
    alone = parse([slice_("a", 1, 1, args=odd)]).events["args"].to_list()
    after = parse([slice_("b", 1, 1, args={"External id": 1, "Call stack": "x"}), slice_("a", 1, 1, args=odd)]).events["args"]
    assert after.to_list() == [None, *alone]


@pytest.mark.parametrize("text", ["[]", '{"traceEvents": []}', '{"schemaVersion": 1}', '{"traceEvents": null}'])
def test_traces_without_events(text: str) -> None:
    with pytest.warns(UserWarning, match="1 no events"):
        trace = parse_chrome(text.encode(), "test")
    assert len(trace) == 0
    assert trace.issues == {"no events": 1}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty"),
        (b" \n ", "white space"),
        (b"{}", "a JSON object with nothing inside"),
        (b'{"a": 1, "b": 2}', "a JSON object with a, b"),
        (b'{"nodes": [], "schema": "1.1"}', "an execution trace"),
        (b"[[1, 2], [3, 4]]", "a JSON list, but not of events"),
        (b"\x7fELF\x02\x01", "a program"),
        (b"SQLite format 3\x00", "Nsight"),
        (bytes(range(256)), "a binary file"),
        (b"<!doctype html><p>404", "HTML"),
        (b"name,ts\nx,1", "begins with 'name,ts"),
        ("{}".encode("utf-16"), "UTF-16"),
    ],
)
def test_what_is_no_trace_says_what_it_looks_like(content: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "some.file"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=what) as error:
        read_chrome(path)
    assert str(path) in str(error.value)


def test_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is a folder"):
        read_chrome(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_chrome(tmp_path / "none.json")


def test_one_warning_names_every_fault() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parse_chrome(json.dumps([slice_("a", None, 1), slice_("b", 1, -1), slice_("c", 1, -1)]).encode(), "my.json")
    assert [str(warning.message) for warning in caught] == [
        "my.json: read with faults: 1 events without a time, 2 slices with a negative duration"
    ]


def test_deep_nesting() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    good, bad = json.dumps(slice_("a", 1, 1)), json.dumps(slice_("b", 1, 1, args={"x": 0})).replace("0", deep)
    trace = quietly(f'{{"traceEvents": [{good}, {bad}]}}')
    assert names(trace) == ["a"]
    assert trace.issues["unreadable events"] == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 100_000,
        "[" * 100_000,
        '[{"ph": "X", "name": "' + '"' * 50_000,
        '[{"ph": "X", "name": "' + "\\" * 50_000,
        "[" + '{"ph": "X", "name": "' * 5_000,
        "[" + '{"ph": "X"}, {"name": ' * 5_000,
        '{"a": "' + '"traceEvents": [' * 20_000,
        "[" + "}, {" * 50_000,
    ],
)
def test_hostile_text_ends(text: str) -> None:
    """No more is asked than an answer: no trace, or an empty one with its faults."""
    try:
        trace = quietly(text)
    except TraceError:
        return
    assert len(trace) == 0
    assert trace.issues["no events"] == 1


def test_gzip_cut_and_damaged(tmp_path: Path) -> None:
    whole = (TRACES / "gpu_user_annotations.json.gz").read_bytes()
    path = tmp_path / "t.json.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="truncated gzip"):
        cut = read_chrome(path)
    complete = read_chrome(TRACES / "gpu_user_annotations.json.gz")
    assert 100 < len(cut) < len(complete)
    # What was read before the cut is what stands there in the whole file, as far as it needs no later row.
    columns = ["phase", "name", "category", "start_ns", "duration_ns", "process", "correlation", "args"]
    assert cut.events.select(columns).equals(complete.events.select(columns).head(len(cut)))
    damaged = bytearray(whole)
    damaged[len(whole) // 2 : len(whole) // 2 + 40] = b"\xff" * 40
    path.write_bytes(bytes(damaged))
    with pytest.warns(UserWarning, match="damaged gzip|truncated|unreadable|invalid"):
        assert len(read_chrome(path)) > 50
    path.write_bytes(whole + b"\x00" * 512)
    assert len(read_chrome(path)) == len(complete)
    path.write_bytes(whole + b"garbage")
    with pytest.warns(UserWarning, match="1 bytes after the gzip"):
        assert len(read_chrome(path)) == len(complete)


def test_two_gzips_in_one_file(tmp_path: Path) -> None:
    text = json.dumps([slice_("a", 1, 1), slice_("b", 2, 1)]).encode()
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(text[:30]) + gzip.compress(text[30:]))
    assert names(read_chrome(path)) == ["a", "b"]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def use(size: int) -> None:
        monkeypatch.setattr(walk, "PIECE_BYTES", size)

    return use


@pytest.mark.parametrize("size", [64, 200, 1000, 5000])
def test_pieces_join_without_a_seam(size: int, small_pieces: Callable[[int], None]) -> None:
    args = {"list": [{"name": 1}, {"ph": 2}, {"other": 3}], "text": '}, {"ph": "X"', "External id": 4}
    events = [slice_(f"n{number}", number, 1, args={**args, "n": number}) for number in range(40)]
    text = json.dumps({"traceEvents": events, "after": ["]", {"x": []}]})
    whole = parse_chrome(text.encode(), "test")
    small_pieces(size)
    pieces = parse_chrome(text.encode(), "test")
    assert pieces.events.equals(whole.events)
    assert pieces.metadata == whole.metadata
    assert pieces.issues == {}


@pytest.mark.parametrize("size", [300, 2000])
def test_faults_in_pieces(size: int, small_pieces: Callable[[int], None]) -> None:
    events = [kineto_event(f'n "{number}"' if number % 7 == 0 else f"n{number}", number) for number in range(50)]
    small_pieces(size)
    trace = quietly(kineto(*events))
    assert names(trace) == [f'n "{number}"' if number % 7 == 0 else f"n{number}" for number in range(50)]
    assert trace.issues == {"unescaped quotes": 16}
    assert trace.metadata.trace_name == "t.json"


def test_an_event_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "LARGEST_EVENT_BYTES", 1 << 16)
    monkeypatch.setattr(walk, "PIECE_BYTES", 1 << 12)
    with pytest.raises(TraceError, match="no event ends within"):
        walk.FileWalk(iter([b"["] + [b" " * 4096] * 100), "blank").read()


def as_text(value: Any, keys: tuple[str, ...] = ()) -> Any:
    """A JSON value whose numbers are written as text."""
    if isinstance(value, dict):
        return {key: as_text(one, (*keys, key)) for key, one in value.items()}
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return value
    return str(value)


@pytest.mark.parametrize(
    "name", ["simple_add_kineto.json.gz", "amd_mi250_toy_train.json.gz", "nvidia_alexnet_cuda_sync.json.gz"]
)
def test_numbers_written_as_text_are_numbers(name: str) -> None:
    text = gzip.decompress((TRACES / name).read_bytes())
    data = json.loads(text, parse_float=Decimal)
    data["traceEvents"] = [as_text(event) for event in data["traceEvents"]]
    expected, got = quietly(text), quietly(json.dumps(data))
    assert got.issues == expected.issues
    # In args stands what has no column, as it was written.
    assert_frame_equal(got.events.drop("args"), expected.events.drop("args"))
    assert got.metadata.processes == expected.metadata.processes
    assert got.metadata.threads == expected.metadata.threads


def test_a_bare_list_with_times_as_text() -> None:
    events = [
        {"name": "AscendCL@aclnnMul", "pid": 8, "tid": 3, "ts": "1699529623106750.2", "dur": "3.12", "ph": "X", "args": {}}
    ]
    trace = quietly(json.dumps(events * 2))
    assert trace.issues == {}
    assert trace.events.select("start_ns", "duration_ns").rows() == [(1699529623106750200, 3120)] * 2
