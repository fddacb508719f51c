"""The table as Kineto's (Chrome's) JSON: always valid, as text made in columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import polars as pl
from isal import igzip_threaded

from kinetoscope.common.atomic_path import atomic_path
from kinetoscope.formats import flows as chrome_flows
from kinetoscope.formats.chrome import metadata as chrome_metadata
from kinetoscope.formats.chrome.deflated import Deflated, gzip_around
from kinetoscope.formats.chrome.names import (
    BESIDE,
    EVERYWHERE,
    MEMBERS,
    ON_DEVICE,
    ON_MEMORY,
    Argument,
)
from kinetoscope.trace.devices import DEVICE_NUMBERS
from kinetoscope.trace.vocabulary import DEVICE_CATEGORIES, MEMORY_CATEGORY

if TYPE_CHECKING:
    from kinetoscope.trace.metadata import Metadata
    from kinetoscope.trace.trace import Trace

Raw = msgspec.Raw

ROWS_AT_A_TIME = 65_536
GZIP_LEVEL = 2

_THOUSANDTHS = pl.Series([f".{number:03}" for number in range(1000)])
_OBJECTS = msgspec.json.Decoder(list[dict[str, Raw]])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


def write_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as Kineto JSON, gzip-compressed if the name ends in ``.gz``; the file appears whole or not at all.

    Rows are written in the table's order. A table without flows gets those from launch to kernel and from forward to
    backward operator, which reading leaves out again.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(path)
    with atomic_path(target) as partial, _opened(partial, compress=target.name.lower().endswith(".gz")) as out:
        for block in chrome_blocks(trace):
            out(block)


def write_chrome_text(metadata: Metadata, events: Deflated, path: str | os.PathLike[str]) -> None:
    """Write events that are valid JSON already, joined by commas, under the given metadata; otherwise as `write_chrome`.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(path)
    members = _encoded(chrome_metadata.encode_members(metadata, derived_flows=False))
    before, after = members[:-1] + b',"traceEvents":[\n', b"\n]}\n"
    compress = target.name.lower().endswith(".gz")
    with atomic_path(target) as partial, open(partial, "wb") as out:
        out.writelines(gzip_around(before, events, after) if compress else (before, events.text, after))


@contextmanager
def _opened(path: Path, compress: bool) -> Iterator[Callable[[bytes | memoryview], Any]]:
    handle: BinaryIO
    if not compress:
        with open(path, "wb") as handle:
            yield handle.write
    else:
        threads = min(2, os.cpu_count() or 1)
        with igzip_threaded.open(path, "wb", compresslevel=GZIP_LEVEL, threads=threads, block_size=1 << 20) as handle:  # type: ignore[no-untyped-call]
            yield handle.write


def chrome_blocks(trace: Trace) -> Iterator[bytes]:
    """Yield the text of the JSON file in blocks."""
    events, metadata = trace.events, trace.metadata
    flows = None if events["phase"].is_in(["s", "t", "f"]).any() else chrome_flows.derive(events)
    if flows is not None and not flows.height:
        flows = None
    members = _encoded(chrome_metadata.encode_members(metadata, derived_flows=flows is not None))
    yield members[:-1] + b',"traceEvents":[\n'
    separator = b""
    names = _metadata_events(metadata, _first(events["start_ns"]))
    if names:
        yield b",\n".join(map(_encoded, names))
        separator = b",\n"
    lines = _Lines(metadata)
    for frame in (events, flows):
        if frame is None:
            continue
        for start in range(0, frame.height, ROWS_AT_A_TIME):
            yield separator
            yield lines.text(frame.slice(start, ROWS_AT_A_TIME)).encode()
            separator = b",\n"
    yield b"\n]}\n"


def _first(starts: pl.Series) -> int:
    first = starts.min()
    return first if isinstance(first, int) else 0


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError):
        return msgspec.json.encode(_clean(value))


def _clean(value: Any) -> Any:
    """A value as JSON can hold it: half surrogate pairs replaced, unknown types as their text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(item) for item in value]
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else Raw(str(value).encode())
    if isinstance(value, msgspec.Struct):
        return _clean(msgspec.to_builtins(value))
    return _clean(str(value))


def _metadata_events(metadata: Metadata, first_ns: int) -> list[dict[str, Any]]:
    """Names, labels and positions of processes and threads as Chrome's metadata events."""
    time = Raw(f"{first_ns // 1000}.{first_ns % 1000:03}".encode() if first_ns >= 0 else b"0")
    texts = metadata.text_ids

    def event(name: str, process: int, thread: int, key: str, value: Any) -> dict[str, Any]:
        return {"ph": "M", "name": name, "ts": time, "pid": texts.get(str(process), process),
                "tid": texts.get(str(thread), thread), "args": {key: value}}  # fmt: skip

    events = []
    for process in metadata.processes:
        told = (
            ("process_name", "name", process.name),
            ("process_labels", "labels", process.labels),
            ("process_sort_index", "sort_index", process.sort_index),
        )
        events += [event(name, process.process, 0, key, value) for name, key, value in told if value is not None]
    for thread in metadata.threads:
        said = (("thread_name", "name", thread.name), ("thread_sort_index", "sort_index", thread.sort_index))
        events += [event(name, thread.process, thread.thread, key, value) for name, key, value in said if value is not None]
    others = metadata.source.get(chrome_metadata.METADATA_EVENTS, [])
    return events + [{"ph": "M", "ts": time, **other} for other in others if isinstance(other, dict)]


class _Lines:
    """Makes the text of events from their rows."""

    def __init__(self, metadata: Metadata) -> None:
        self.ids = {number: _encoded(text).decode() for number, text in metadata.text_ids.items()}
        self.rank = metadata.rank

    def text(self, frame: pl.DataFrame) -> str:
        """The events of ``frame``, joined by commas and line breaks."""
        filled = {name for name in frame.columns if frame[name].null_count() < frame.height}
        lifted: list[pl.Series] = []
        says_binding: pl.Expr = pl.lit(False)
        if "args" in filled:
            inner, members, defaults = _own_arguments(frame["args"])
            frame = frame.with_columns(args=inner)
            if members is not None and defaults is not None:
                lifted, says_binding = [members], pl.lit(pl.Series(defaults))
        pieces: list[pl.Series | pl.Expr] = [
            *self._kind(frame, filled, says_binding),
            *self._place(frame, filled),
            *lifted,
            *self._arguments_member(frame, filled),
            pl.lit("}"),
        ]
        line = pl.concat_str(pieces, ignore_nulls=True)
        return str(frame.select(line.str.join(",\n")).item())

    def _kind(self, frame: pl.DataFrame, filled: set[str], says_binding: pl.Expr) -> Iterator[pl.Expr]:
        """Phase, number, name; what Kineto writes on every flow's end and instant, unless the row says otherwise."""
        yield pl.lit('{"ph":')
        yield _quoted(frame["phase"].fill_null("X"))
        if "flow_id" in filled:
            yield _member("id", pl.col("flow_id").cast(pl.String))
        phases = set(frame["phase"].unique().to_list())
        for phase, text in (("f", ',"bp":"e"'), ("i", ',"s":"t"')):
            if phase in phases:
                yield pl.when((pl.col("phase") == phase) & ~says_binding).then(pl.lit(text))
        for key, column in (("cat", "category"), ("name", "name")):
            if column in filled:
                yield _member(key, _quoted(frame[column]))

    def _place(self, frame: pl.DataFrame, filled: set[str]) -> Iterator[pl.Expr]:
        """Process, thread and time."""
        for key, column in (("pid", "process"), ("tid", "thread")):
            if column in filled:
                number = frame[column].cast(pl.String)
                yield _member(key, pl.lit(number.replace(self.ids) if self.ids else number))
        yield _member("ts", _microseconds(frame["start_ns"].fill_null(0)))
        if "duration_ns" in filled:
            yield pl.when(pl.col("phase") == "X").then(_member("dur", _microseconds(frame["duration_ns"])))

    def _arguments_member(self, frame: pl.DataFrame, filled: set[str]) -> Iterator[pl.Series]:
        arguments = self._arguments(frame, filled)
        if arguments:
            inner = pl.concat_str(arguments, separator=",", ignore_nulls=True)
            joined = frame.select(inner=inner).to_series()
            yield pl.select(pl.when(joined != "").then(pl.lit(',"args":{') + joined + pl.lit("}"))).to_series()

    def _arguments(self, frame: pl.DataFrame, filled: set[str]) -> list[pl.Expr]:
        on_device = pl.col("category").is_in(DEVICE_CATEGORIES).fill_null(False)
        is_memory = (pl.col("category") == MEMORY_CATEGORY).fill_null(False)
        categories = set(frame["category"].unique().to_list())
        pieces: list[pl.Expr] = []
        for argument in EVERYWHERE:
            if argument.column not in filled or (argument.column == "rank" and self._is_rank_of_all(frame)):
                continue
            pieces.append(_argument(argument, frame))
        if MEMORY_CATEGORY in categories:
            told = [argument for argument in ON_MEMORY if argument.column in filled or argument.key == "Device Id"]
            pieces += [pl.when(is_memory).then(_argument(argument, frame)) for argument in told]
        if categories - {MEMORY_CATEGORY}:
            for argument in ON_DEVICE:
                if argument.column in filled:
                    wanted = ~is_memory if argument.column == "bytes" else on_device
                    pieces.append(pl.when(wanted).then(_argument(argument, frame)))
        if "args" in filled:
            pieces.append(pl.col("args"))
        return pieces

    def _is_rank_of_all(self, frame: pl.DataFrame) -> bool:
        ranks = frame["rank"]
        return self.rank is not None and ranks.null_count() == 0 and bool((ranks == self.rank).all())


def _member(key: str, value: pl.Expr) -> pl.Expr:
    return pl.lit(f',"{key}":') + value


def _argument(argument: Argument, frame: pl.DataFrame) -> pl.Expr:
    column = frame[argument.column]
    key = pl.lit(f'"{argument.key}":')
    if argument.kind == "int":
        value = pl.col(argument.column).cast(pl.String)
        if argument.key == "Device Id":
            # Host memory has no device; torch says -1.
            value = pl.when(pl.col("device_type").is_not_null()).then(value.fill_null("-1"))
        return key + value
    if argument.kind == "bool":
        return key + pl.when(argument.column).then(pl.lit("true")).when(pl.col(argument.column).not_()).then(pl.lit("false"))
    if argument.kind == "device_type":
        return key + _by_value(column, _device_number)
    if argument.kind == "list":
        return key + _by_value(column, _list)
    if argument.kind == "stack":
        return key + _by_value(column, _stack)
    return key + _quoted(column)


def _device_number(name: str) -> str:
    number = DEVICE_NUMBERS.get(name)
    return str(number) if number is not None else name if name.isdigit() else _encoded(name).decode()


def _list(text: str) -> str:
    try:
        msgspec.json.decode(text, type=list[Raw])
    except (msgspec.DecodeError, RecursionError):
        return _encoded(text).decode()
    return text


def _stack(text: str) -> str:
    """Frames joined as Kineto joins them; by line breaks where a frame holds the character that joins."""
    if ";" not in text:
        return _encoded(text.replace("\n", ";")).decode()
    return _encoded(text + "\n").decode()


def _quoted(column: pl.Series) -> pl.Expr:
    return _by_value(column, lambda text: msgspec.json.encode(text).decode())


def _by_value(column: pl.Series, function: Callable[[str], str]) -> pl.Expr:
    """Apply a function once to each distinct text."""
    distinct = column.drop_nulls().unique()
    answers = pl.Series([function(text) for text in distinct.to_list()], dtype=pl.String)
    if distinct.len() == 1 and not column.null_count():
        return pl.lit(answers[0])
    return pl.lit(column.replace_strict(distinct, answers, default=None, return_dtype=pl.String))


def _microseconds(column: pl.Series) -> pl.Expr:
    """Nanoseconds as microseconds with three decimals, exactly."""
    size = column.abs()
    fraction = _THOUSANDTHS.gather(size % 1000)
    text = (size // 1000).cast(pl.String) + fraction
    if (column < 0).any():
        text = pl.select(pl.when(column < 0).then(pl.lit("-") + text).otherwise(text)).to_series()
    return pl.lit(text)


def _own_arguments(column: pl.Series) -> tuple[pl.Series, pl.Series | None, Sequence[bool] | None]:
    """The arguments without their braces, and what belongs beside them.

    Returns:
        The inner text of each object, null where there is none; text of the members that go back to the event; whether
        these hold one that is otherwise written by default (``s``, ``bp``).
    """
    inner = _inner(column)
    marked = column.str.contains(f'"{MEMBERS}":', literal=True).fill_null(False)
    if not marked.any():
        return inner, None, None
    texts: list[str | None] = inner.to_list()
    lifted: list[str | None] = [None] * len(texts)
    defaults = [False] * len(texts)
    for row in marked.arg_true().to_list():
        try:
            members = _OBJECT.decode("{" + (texts[row] or "") + "}")
            own = _OBJECT.decode(members.get(MEMBERS, b"{}"))
        except msgspec.DecodeError:
            continue
        back = {key: raw for key, raw in own.items() if key in BESIDE}
        stay = {key: raw for key, raw in own.items() if key not in BESIDE}
        if not back:
            continue
        defaults[row] = "s" in back or "bp" in back
        lifted[row] = "," + msgspec.json.encode(back).decode()[1:-1]
        if stay:
            members[MEMBERS] = Raw(msgspec.json.encode(stay))
        else:
            del members[MEMBERS]
        texts[row] = msgspec.json.encode(members).decode()[1:-1] or None
    return pl.Series(texts, dtype=pl.String), pl.Series(lifted, dtype=pl.String), defaults


def _inner(column: pl.Series) -> pl.Series:
    """Objects without their braces; what is no JSON object becomes one that holds it as text."""
    present = column.drop_nulls()
    try:
        _OBJECTS.decode("[" + ",".join(present.to_list()) + "]")
    except (msgspec.DecodeError, RecursionError):
        column = pl.Series([text if text is None else _object(text) for text in column.to_list()], dtype=pl.String)
    inner = column.str.strip_chars().str.strip_prefix("{").str.strip_suffix("}").str.strip_chars()
    return pl.select(pl.when(inner != "").then(inner)).to_series()


def _object(text: str) -> str:
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return '{"args text":' + _encoded(text).decode() + "}"
    return text
