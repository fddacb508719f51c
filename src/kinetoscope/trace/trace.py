"""The trace: a table of events and what is known about them as a whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from kinetoscope.trace import schema
from kinetoscope.trace.metadata import Metadata

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from kinetoscope.analyze.averages import Averages
    from kinetoscope.analyze.call_tree import CallTree


class Trace:
    """One recorded window: a table of events with metadata.

    ``events`` has the columns of ``docs/schema.md`` (:data:`kinetoscope.trace.schema.COLUMNS`), one row for each thing
    that happened; times are integer nanoseconds after ``metadata.base_time_ns``. A trace is not changed in place:
    every operation returns a new one.

    >>> import kinetoscope
    >>> trace = kinetoscope.read("trace.parquet")  # doctest: +SKIP
    >>> trace.sql("select name, count(*) as calls from events group by name")  # doctest: +SKIP
    """

    def __init__(self, events: pl.DataFrame, metadata: Metadata | None = None, issues: dict[str, int] | None = None) -> None:
        """Make a trace from a frame of events; columns that are missing are added as null."""
        self._events = events if dict(events.schema) == schema.SCHEMA else schema.conform(events)
        self.metadata = metadata or Metadata()
        self.issues: dict[str, int] = issues or {}
        """What reading found wrong: class of fault -> number of places; empty for a sound trace."""

    @property
    def events(self) -> pl.DataFrame:
        """The table, as a Polars frame with the columns of the schema."""
        return self._events

    def __len__(self) -> int:
        return self._events.height

    # in and out

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace, its format recognised by its content.

        Args:
            path: Kinetoscope's Parquet, or Kineto/Chrome JSON, plain or compressed (gzip, zstd) or alone in an archive
                (zip, tar). A local path, a URL that fsspec knows, ``-`` for standard input, or ``archive.zip::member``.

        Raises:
            FileNotFoundError: there is no such file.
            TraceError: the file holds no trace; the message says what it looks like.
            SchemaVersionError: the file was written by a newer Kinetoscope.
        """
        from kinetoscope.trace import formats

        return formats.read(path)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the trace; the suffix chooses the format.

        ``.parquet``: the complete table. ``.json``, ``.json.gz``: Kineto/Chrome JSON for Perfetto, TensorBoard and
        chrome://tracing. ``.pftrace``: Perfetto's own format. ``.speedscope.json``: for speedscope. ``.folded``: collapsed
        stacks with CPU time, for flame graphs. ``.pb.gz``, ``.pprof``: for pprof. ``.csv``, ``.ndjson``, ``.arrow``: the
        rows. The file appears whole or not at all.

        Raises:
            ValueError: the suffix names no format; the message lists those there are.
            OSError: the file cannot be written.
        """
        from kinetoscope.trace import formats

        formats.write(self, path)

    # questions

    def sql(self, query: str) -> pl.DataFrame:
        """Answer a SQL query over the table ``events`` (Polars' dialect).

        Raises:
            polars.exceptions.PolarsError: the query is wrong; the message says where.
        """
        return pl.SQLContext(events=self._events).execute(query, eager=True)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> Averages:
        """Group the events by name (and shape, stack, overload) and add up their times, as ``torch.profiler`` does.

        See :func:`kinetoscope.analyze.averages.key_averages` for the definition of every number.
        """
        from kinetoscope.analyze.averages import key_averages

        return key_averages(
            self,
            group_by_input_shape=group_by_input_shape,
            group_by_stack_n=group_by_stack_n,
            group_by_overload_name=group_by_overload_name,
            include_python_functions=include_python_functions,
        )

    def call_tree(self) -> CallTree:
        """Add up the trace by stacks: time, device time, bytes and calls; for flame graphs.

        See :func:`kinetoscope.analyze.call_tree.call_tree`.
        """
        from kinetoscope.analyze.call_tree import call_tree

        return call_tree(self)

    # parts

    def part(
        self,
        where: str | None = None,
        *,
        steps: Sequence[tuple[int, int]] | None = None,
        rank: int | None = None,
        categories: Sequence[str] | None = None,
    ) -> Trace:
        """The rows that all given conditions hold for, numbered and nested anew.

        Args:
            where: a SQL condition over the columns, such as ``"category = 'kernel' and duration_ns > 1000"``.
            steps: ranges of steps of the program, both ends included; see :func:`kinetoscope.analyze.subset.steps`.
            rank: a rank.
            categories: names of categories.

        Raises:
            ValueError: the trace has none of the steps.
            polars.exceptions.PolarsError: ``where`` is no condition, or names a column that there is not.
        """
        from kinetoscope.analyze import subset

        part = self
        if steps is not None:
            part = subset.steps(part, steps)
        if rank is not None:
            part = subset.rank(part, rank)
        if categories is not None:
            part = subset.categories(part, categories)
        return part if where is None else subset.where(part, where)

    def anonymized(self, key: str | None = None) -> Trace:
        """The trace with every text replaced that is not known to be public, for sharing.

        See :func:`kinetoscope.analyze.anonymize.anonymize`.
        """
        from kinetoscope.analyze.anonymize import anonymize

        return anonymize(self, key)

    # other libraries

    def to_pandas(self) -> pd.DataFrame:
        """Return the events as a pandas frame (needs ``pip install kinetoscope[pandas]``)."""
        return self._events.to_pandas()

    def to_arrow(self) -> pa.Table:
        """Return the events as a pyarrow table (needs ``pip install pyarrow``)."""
        return self._events.to_arrow()

    # looks

    def span_ns(self) -> tuple[int, int]:
        """First start and last end of the events, nanoseconds after the base time; (0, 0) for an empty trace."""
        if not len(self):
            return 0, 0
        first = self._events["start_ns"].min()
        last = self._events.select((pl.col("start_ns") + pl.col("duration_ns").fill_null(0)).max()).item()
        return int(first or 0), int(last or 0)  # type: ignore[arg-type]

    def summary(self) -> dict[str, Any]:
        """What the trace holds in a few facts: events, span, categories, threads, devices, rank, steps."""
        first, last = self.span_ns()
        events = self._events
        slices = events.filter(pl.col("duration_ns").is_not_null())
        counts = events.group_by("category").len().sort("len", descending=True)
        return {
            "events": len(self),
            "span_ns": last - first,
            "categories": dict(zip(counts["category"].to_list(), counts["len"].to_list(), strict=True)),
            "threads": slices.filter(pl.col("stream").is_null()).select("process", "thread").n_unique(),
            "devices": slices.filter(pl.col("stream").is_not_null()).get_column("device").n_unique(),
            "rank": self.metadata.rank,
            "steps": self.metadata.steps,
        }

    def __repr__(self) -> str:
        facts = self.summary()
        categories = ", ".join(f"{name or 'other'} {count:,}" for name, count in list(facts["categories"].items())[:5])
        rank = "" if facts["rank"] is None else f", rank {facts['rank']}"
        return (
            f"<Trace: {facts['events']:,} events over {facts['span_ns'] / 1e6:,.3f} ms, {facts['threads']} threads, "
            f"{facts['devices']} devices{rank}; {categories}>"
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(repr(self))}</p>{self._events.head(10)._repr_html_()}"
