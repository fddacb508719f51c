"""What is wrong with a trace, in classes, and what reading made of it.

Reading never needs this: it repairs and counts by itself. A check names the positions and looks for what reading takes
silently because it is no fault of the file, such as overlapping slices or kernels without their launch.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field

import polars as pl

from kinetoscope.formats import registry
from kinetoscope.trace import links
from kinetoscope.trace.issues import Issues
from kinetoscope.trace.trace import Trace

_DONE: dict[str, str] = {
    "unescaped quotes": "escaped",
    "unescaped backslashes": "escaped",
    "control characters": "escaped",
    "lone surrogates": "replaced by U+FFFD",
    "invalid UTF-8": "replaced by U+FFFD",
    "bare NaN or infinity": "kept as text",
    "bare words": "kept as text",
    "missing commas": "put in",
    "trailing commas": "left out",
    "missing values": "read as null",
    "unreadable events": "lost",
    "unreadable metadata": "what stands alone on a line was read, the rest is lost",
    "values that are no events": "lost",
    "events without a phase": "lost",
    "events without a time": "lost",
    "slices without a duration": "kept without one, out of every sum",
    "slices with a negative duration": "kept without one, out of every sum; the number stays in args",
    "slices with an implausible duration": "kept without one, out of every sum; the number stays in args",
    "begins without an end, ends without a begin": "kept as they are, no slice made of them",
    "further lists of events": "read one after the other",
    "text after the end": "not read",
    "truncated": "what stands before the cut was read",
    "truncated gzip": "what stands before the cut was read",
    "damaged gzip": "what stands before the damage was read",
    "damaged zstd": "what stands before the damage was read",
    "damaged zip": "read; its checksum does not fit",
    "bytes after the gzip": "not read",
    "no events": "an empty table",
}
LOST = frozenset(kind for kind, done in _DONE.items() if done == "lost")
"""Classes whose every case is an event that the table does not have."""


@dataclass(frozen=True)
class Finding:
    """One class of faults."""

    kind: str
    count: int
    first: str
    """Where the first one is, as far as it is known."""
    done: str
    """What reading made of it."""


@dataclass(frozen=True)
class Report:
    """What a check found."""

    path: str
    events: int
    """Rows of the table that came out."""
    faults: list[Finding] = field(default_factory=list)
    """What is wrong with the file."""
    remarks: list[Finding] = field(default_factory=list)
    """What is no fault of the file, but worth to know before trusting a sum."""

    @property
    def lost(self) -> int:
        """Number of events that could not be read, as far as they can be counted."""
        return sum(finding.count for finding in self.faults if finding.kind in LOST)

    @property
    def is_sound(self) -> bool:
        """Whether no fault was found."""
        return not self.faults

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.events:,} events, {'sound' if self.is_sound else f'{self.lost:,} lost'}"]
        for title, findings in (("fault", self.faults), ("remark", self.remarks)):
            for one in findings:
                first = f" (first: {one.first})" if one.first else ""
                lines.append(f"  {title}: {one.count:,} {one.kind}: {one.done}{first}")
        return "\n".join(lines)


def check(path: str | os.PathLike[str]) -> Report:
    """Read a trace of any format and report its faults, without a warning.

    Raises:
        FileNotFoundError: there is no such file.
        TraceError: the file holds no trace; the message says what it looks like.
    """
    issues = Issues()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = registry.read(path, issues)
    kinds = sorted(trace.issues.items(), key=lambda item: (item[0] not in LOST, -item[1], item[0]))
    faults = [Finding(kind, count, issues.first.get(kind, ""), _DONE.get(kind, "read")) for kind, count in kinds]
    return Report(os.fspath(path), len(trace), faults, remarks(trace))


def remarks(trace: Trace) -> list[Finding]:
    """What a table holds that may surprise an analysis.

    - slices that overlap another of their thread or stream without lying in it (they have no common sum);
    - duplicate slices: same name, thread, start and length;
    - events that begin before the one above them in the same thread or stream;
    - device activity whose correlation id no runtime or driver call of its rank carries;
    - device activity that begins before its launch;
    - operators that had not ended when the recording did.
    """
    slices = trace.events.filter(pl.col("duration_ns").is_not_null())
    found = [
        ("slices that overlap without nesting", "kept; neither lies in the other", _overlapping(slices)),
        ("duplicate slices", "both kept", _repeated(slices)),
        ("slices out of order", "kept in the file's order; nesting goes by time", _unsorted(slices)),
        ("device slices without their launch", "kept", _without_launch(slices)),
        ("device slices before their launch", "kept", _before_launch(slices)),
        ("operators not ended at the end", "kept, up to the end of the recording", _unfinished(slices)),
    ]
    return [Finding(kind, rows.height, _first(rows), done) for kind, done, rows in found if rows.height]


def _first(rows: pl.DataFrame) -> str:
    row = rows.sort("id").row(0, named=True)
    return f"row {row['id']}, {(row['name'] or '')[:80]!r} at {row['start_ns'] / 1000:.3f} us"


_LANE = list(links.LANE)


def _overlapping(slices: pl.DataFrame) -> pl.DataFrame:
    """Slices that begin while the one before them under the same parent is open: lying in it, it would be the parent."""
    ordered = slices.with_columns(end=pl.col("start_ns") + pl.col("duration_ns"))
    ordered = ordered.sort([*_LANE, "start_ns", "end"], descending=[False, False, False, False, True], maintain_order=True)
    return ordered.filter(pl.col("start_ns") < pl.col("end").shift(1).over([*_LANE, "parent"]))


def _repeated(slices: pl.DataFrame) -> pl.DataFrame:
    keys = ["name", "category", *_LANE, "start_ns", "duration_ns", "external_id", "correlation"]
    return slices.filter(~pl.struct(keys).is_first_distinct())


def _unsorted(slices: pl.DataFrame) -> pl.DataFrame:
    return slices.filter(pl.col("start_ns") < pl.col("start_ns").shift(1).over(_LANE))


def _with_launch(slices: pl.DataFrame) -> pl.DataFrame:
    """Device activity, with the start of the call that launched it; null where no call did."""
    activity = slices.filter(links.is_device_activity())
    starts = slices.select(launch="id", launch_ns="start_ns")
    return activity.with_columns(links.launch_ids(slices, activity)).join(starts, on="launch", how="left")


def _without_launch(slices: pl.DataFrame) -> pl.DataFrame:
    return _with_launch(slices).filter(pl.col("launch").is_null())


def _before_launch(slices: pl.DataFrame) -> pl.DataFrame:
    return _with_launch(slices).filter(pl.col("start_ns") < pl.col("launch_ns"))


def _unfinished(slices: pl.DataFrame) -> pl.DataFrame:
    return slices.filter(pl.col("args").str.contains('"finished":false', literal=True).fill_null(False))
