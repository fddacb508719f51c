"""Kineto's (Chrome's) JSON into the table: in bounded pieces, exact, whatever the file's faults."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import msgspec
import polars as pl

from kinetoscope.common.collector import collector_paused
from kinetoscope.common.user_warning import warn_user
from kinetoscope.formats import sources
from kinetoscope.formats.chrome import metadata as chrome_metadata
from kinetoscope.formats.chrome.metadata import OwnMember
from kinetoscope.formats.chrome.walk import FileWalk
from kinetoscope.formats.chrome.whole import device_type, finish, join_halves
from kinetoscope.trace.issues import Issues
from kinetoscope.trace.links import step_numbers
from kinetoscope.trace.metadata import Metadata
from kinetoscope.trace.nesting import nested
from kinetoscope.trace.trace import Trace

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)


def read_source(source: sources.Source) -> Trace:
    """Read a Kineto or Chrome trace: an object with ``traceEvents`` or a bare list.

    What can be read is read. Faults are repaired or left out, and counted in ``trace.issues``; one warning names them.

    Raises:
        TraceError: the source holds no trace; the message says what it looks like.
    """
    return _read(source.blocks(), source.name, source.issues)


def read_chrome(path: str | os.PathLike[str]) -> Trace:
    """Read a Kineto or Chrome trace from a file, plain or compressed; see :func:`read_source`.

    Raises:
        FileNotFoundError: there is no such file.
        TraceError: the file holds no trace; the message says what it looks like.
    """
    return read_source(sources.Source(os.fspath(path)))


def parse_chrome(text: bytes, name: str) -> Trace:
    """Read a trace from the text of its file; ``name`` stands in messages. See :func:`read_source`."""
    return _read(iter([text]), name, Issues())


def parse_metadata(text: bytes, name: str) -> Metadata:
    """Read only what a file says about the whole trace, its events left unread; ``name`` stands in messages.

    Nothing of Polars is used.

    Raises:
        TraceError: the text holds no trace.
    """
    file = FileWalk(iter([text]), name)
    file.read()
    return described(file, file.issues)[0]


def _read(blocks: Iterable[bytes], name: str, issues: Issues) -> Trace:
    with collector_paused():
        file = FileWalk(iter(blocks), name)
        file.read()
        issues.take(file.issues)
        trace = trace_of(file, issues)
    warn_of(issues, name)
    return trace


def warn_of(issues: Issues, name: str) -> None:
    """Tell of what was found wrong with a file, in one warning."""
    if issues:
        listed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(issues.items()))
        warn_user(f"{name}: read with faults: {listed}")


def described(file: FileWalk, issues: Issues) -> tuple[Metadata, OwnMember]:
    """The metadata of a file that was walked through, and what only a file of ours says."""
    metadata, own = chrome_metadata.decode_members(file.members, issues)
    return chrome_metadata.with_names(metadata, file.builder.metadata_events, file.builder.ids), own


def without_derived_flows(rows: Frame) -> Frame:
    """The rows without the flows that a Kinetoscope wrote because they follow from the table."""
    derived = pl.col("category").is_in(["ac2g", "fwdbwd"]).fill_null(False) & pl.col("phase").is_in(["s", "f"])
    return rows.filter(~derived)


def trace_of(file: FileWalk, issues: Issues) -> Trace:
    """The trace of a file that was walked through."""
    metadata, own = described(file, issues)
    frame = file.builder.frame()
    if own.derived_flows:
        frame = without_derived_flows(frame).with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))
    if frame["phase"].is_in(["B", "E"]).any():
        frame = join_halves(frame, issues)
    frame = finish(frame, device_type(frame, metadata.options.get("use_device")), metadata.rank)
    frame = nested(frame)
    steps = metadata.steps or step_numbers(frame["name"])
    metadata = msgspec.structs.replace(metadata, text_ids=file.builder.ids.text_ids, steps=steps)
    if not frame.height:
        issues.found("no events")
    return Trace(frame, metadata, dict(issues))
