"""Traces that are larger than memory: Kineto's JSON in bounded pieces straight into one Parquet file.

Parts of the table go to a temporary folder as they are read. What a row needs of the whole, the slice around it, is found
from the few columns that say where it lies: 40 bytes an event, a fifth of what its JSON takes. Then each part is finished and
all are joined, a few rows at a time.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import polars as pl

from kinetoscope.common.atomic_path import atomic_path
from kinetoscope.common.collector import collector_paused
from kinetoscope.formats.chrome.columns import Builder
from kinetoscope.formats.chrome.reader import described, trace_of, warn_of, without_derived_flows
from kinetoscope.formats.chrome.walk import FileWalk
from kinetoscope.formats.chrome.whole import device_type, finish
from kinetoscope.formats.sources import Source
from kinetoscope.trace import schema
from kinetoscope.trace.links import LANE, step_numbers
from kinetoscope.trace.nesting import nested
from kinetoscope.trace.parquet import ZSTD_LEVEL, footer_of, write_parquet

ROWS_IN_MEMORY = 2_000_000
"""Rows of a table that is made in memory, some 400 MB of JSON; a longer one is made in parts of so many."""

_ROW_GROUP = 1 << 18
_NESTING = ["parent", "depth"]


def convert_to_parquet(source: Source, path: str | os.PathLike[str]) -> int:
    """Write a trace as Parquet, the same file that reading and writing it would make, in bounded memory.

    A trace with slices of two halves (phases B and E), which Kineto does not write, is joined in memory.

    Returns:
        The number of rows.

    Raises:
        TraceError: the source holds no trace; the message says what it looks like.
        OSError: the file cannot be written, or there is no room for the parts.
    """
    with (
        collector_paused(),
        atomic_path(path) as partial,
        # Beside the file: where there is room for it there is some for its parts.
        TemporaryDirectory(prefix=f".{Path(path).name[:100]}.", dir=partial.parent) as folder,
    ):
        rows = _convert(source, partial, Path(folder))
    warn_of(source.issues, source.name)
    return rows


def _convert(source: Source, path: Path, folder: Path) -> int:
    parts = _Parts(folder)
    file = FileWalk(source.blocks(), source.name, on_piece=parts.keep)
    file.read()
    source.issues.take(file.issues)
    if not parts.paths or parts.has_halves:
        file.builder.earlier = parts.frames()
        trace = trace_of(file, source.issues)
        write_parquet(trace.events, trace.metadata, path)
        return len(trace)
    parts.spill(file.builder)
    return parts.join(file, source, path)


class _Parts:
    """The parts of a table, each a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: list[Path] = []
        self.has_halves = False
        self.steps: set[int] = set()
        self.categories: dict[str | None, None] = {}

    def keep(self, builder: Builder) -> None:
        """Spill what was read if it is as much as may be in memory."""
        if builder.height >= ROWS_IN_MEMORY:
            self.spill(builder)

    def spill(self, builder: Builder) -> None:
        frame = builder.frame()
        self.has_halves = self.has_halves or bool(frame["phase"].is_in(["B", "E"]).any())
        self.categories.update(dict.fromkeys(frame["category"].unique(maintain_order=True).to_list()))
        self.steps.update(step_numbers(frame["name"]))
        path = self.folder / f"read-{len(self.paths)}.parquet"
        frame.drop("id", *_NESTING).write_parquet(path, compression="lz4", statistics=False)
        self.paths.append(path)

    def frames(self) -> list[pl.DataFrame]:
        """What was spilled, in memory again."""
        return [pl.read_parquet(path) for path in self.paths]

    def join(self, file: FileWalk, source: Source, path: Path) -> int:
        """Finish each part and write all of them as one file; return the number of rows."""
        metadata, own = described(file, source.issues)
        parts = [pl.scan_parquet(part) for part in self.paths]
        if own.derived_flows:
            parts = [without_derived_flows(part) for part in parts]
        where = pl.concat([part.select(*LANE, "start_ns", "duration_ns", "phase") for part in parts]).collect()
        nesting = nested(where.with_row_index("id").with_columns(pl.col("id").cast(pl.Int64))).select("id", *_NESTING)
        del where
        kind = device_type(pl.DataFrame({"category": list(self.categories)}), metadata.options.get("use_device"))
        finished = []
        place = 0
        for number, part in enumerate(parts):
            frame = finish(part.collect(), kind, metadata.rank)
            own_rows = nesting.slice(place, frame.height)
            frame = pl.concat([own_rows, frame], how="horizontal")
            finished.append(self.folder / f"finished-{number}.parquet")
            frame.select(list(schema.SCHEMA)).write_parquet(finished[-1], compression="lz4", statistics=False)
            self.paths[number].unlink()
            place += frame.height
        metadata = msgspec.structs.replace(
            metadata, text_ids=file.builder.ids.text_ids, steps=metadata.steps or sorted(self.steps)
        )
        whole = pl.concat([pl.scan_parquet(part) for part in finished])
        whole.sink_parquet(
            path,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            metadata=footer_of(metadata),
            row_group_size=_ROW_GROUP,
        )
        return place
