"""Mutated traces: reading never crashes, and what it gives can be trusted, written and read again.

``KINETOSCOPE_FUZZ_CASES=20000 KINETOSCOPE_FUZZ_SEED=1 pytest tests/formats/test_fuzz.py`` runs longer.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from kinetoscope.formats.chrome import walk
from kinetoscope.formats.chrome.reader import parse_chrome, read_chrome
from kinetoscope.formats.chrome.writer import chrome_blocks
from kinetoscope.trace.errors import TraceError
from kinetoscope.trace.trace import Trace
from tests.shared_traces import FACTS, NAMES, TRACES

CASES = int(os.environ.get("KINETOSCOPE_FUZZ_CASES", "400"))
SEED = int(os.environ.get("KINETOSCOPE_FUZZ_SEED", "0"))
GROUPS = 20

PLANTS = [
    b'"',
    b"\\",
    b"\n",
    b"\x00",
    b"\xff",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"NaN",
    b"-inf",
    b"null",
    b"true",
    b"1e999",
    b"-",
    b"9" * 30,
    b"\\u",
    b"\\ud800",
    b'"ph": "B"',
    b'"ts": null',
    b'"traceEvents": [',
    b"}, {",
    b"\xef\xbb\xbf",
    b" " * 300,
]


@cache
def excerpt(name: str, size: int) -> bytes:
    """The beginning of a trace up to the end of an event, and its end: small, and still whole."""
    text = gzip.decompress((TRACES / name).read_bytes())
    if len(text) <= size:
        return text
    start = text.find(b"}", text.find(b'"traceEvents"') + size)
    stop = text.rfind(b"}", 0, text.rfind(b"]"))
    for place in range(start, min(start + 20000, stop)):
        if text[place : place + 1] == b"}":
            candidate = text[: place + 1] + text[stop + 1 :]
            try:
                json.loads(candidate)
            except ValueError:
                continue
            return candidate
    return text[: 4 * size]


def delete(rng: random.Random, text: bytearray) -> None:
    start = rng.randrange(len(text))
    del text[start : start + rng.choice([1, 1, 3, 20, 400])]


def repeat(rng: random.Random, text: bytearray) -> None:
    start = rng.randrange(len(text))
    piece = text[start : start + rng.choice([1, 5, 60, 900])]
    text[start:start] = piece * rng.choice([1, 2, 10])


def flip(rng: random.Random, text: bytearray) -> None:
    text[rng.randrange(len(text))] = rng.randrange(256)


def plant(rng: random.Random, text: bytearray) -> None:
    start = rng.randrange(len(text))
    text[start : start + rng.choice([0, 0, 1, 4])] = rng.choice(PLANTS)


def cut(rng: random.Random, text: bytearray) -> None:
    del text[rng.randrange(len(text)) :]


def move(rng: random.Random, text: bytearray) -> None:
    start, size = rng.randrange(len(text)), rng.choice([2, 50, 700])
    piece = text[start : start + size]
    del text[start : start + size]
    place = rng.randrange(len(text) + 1)
    text[place:place] = piece


MUTATIONS: list[Callable[[random.Random, bytearray], None]] = [delete, repeat, flip, plant, plant, cut, move]


def mutated(rng: random.Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(rng.choice([1, 1, 2, 5])):
        if changed:
            rng.choice(MUTATIONS)(rng, changed)
    return bytes(changed)


def is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 9.2e15


def readable_events(text: bytes) -> int | None:
    """How many events a text holds, if it is strictly valid JSON."""

    def refuse(_: str) -> None:
        raise ValueError

    try:
        data = json.loads(text.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    events = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list):
        return None
    good = [
        event for event in events if isinstance(event, dict) and is_time(event.get("ts")) and isinstance(event.get("ph"), str)
    ]
    return sum(event["ph"] not in ("", "M", "B", "E") for event in good)


def check(trace: Trace, text: bytes) -> None:
    events = trace.events
    assert events["id"].to_list() == list(range(len(events)))
    assert events["start_ns"].null_count() == 0
    assert (events["duration_ns"].drop_nulls() >= 0).all()
    assert not any(events["phase"].is_in(["M", ""]))
    parents = events["parent"].drop_nulls()
    assert ((parents >= 0) & (parents < len(events))).all()
    for args in events["args"].drop_nulls().to_list():
        assert isinstance(json.loads(args), dict)
    expected = readable_events(text)
    if expected is not None and not events["phase"].is_in(["B", "E"]).any():
        assert len(events) >= expected
    written = b"".join(chrome_blocks(trace))
    json.loads(written)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_frame_equal(parse_chrome(written, "written").events, events)


@pytest.mark.parametrize("group", range(GROUPS))
def test_mutated_text(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = NAMES if CASES > 10_000 else [name for name in NAMES if FACTS[name]["bytes"] < 400_000]
    for number in range(group, CASES, GROUPS):
        rng = random.Random(f"{SEED} {number}")
        text = mutated(rng, excerpt(rng.choice(names), rng.choice([1500, 8000, 30_000])))
        monkeypatch.setattr(walk, "PIECE_BYTES", rng.choice([300, 5000, 1 << 21]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                trace = parse_chrome(text, "mutated")
            except TraceError:
                continue
        try:
            check(trace, text)
        except AssertionError as error:
            raise AssertionError(f"case {number} of seed {SEED}") from error


@pytest.mark.parametrize("group", range(4))
def test_mutated_gzip(group: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    for number in range(group, CASES // 4, 4):
        rng = random.Random(f"gzip {SEED} {number}")
        path.write_bytes(
            mutated(rng, gzip.compress(excerpt(rng.choice(["gpu_user_annotations.json.gz", "sglang_decode.json.gz"]), 30_000)))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                trace = read_chrome(path)
            except TraceError:
                continue
        assert trace.events["start_ns"].null_count() == 0
