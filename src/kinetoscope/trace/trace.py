"""The trace: a table of events and what is known about them as a whole."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from kinetoscope.common.forked import require_polars
from kinetoscope.trace import part, schema
from kinetoscope.trace.anonymize import anonymized
from kinetoscope.trace.metadata import Metadata

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from kinetoscope.show.averages import AveragesTable


class Trace:
    """One recorded window: a table of events with metadata.

    ``events`` has the columns of ``docs/schema.md`` (:data:`kinetoscope.trace.schema.COLUMNS`), one row for each thing
    that happened; times are integer nanoseconds after ``metadata.base_time_ns``. A trace does not change: every operation
    returns a new one, which shares nothing with it that could.

    >>> import kinetoscope
    >>> trace = kinetoscope.read("trace.parquet")  # doctest: +SKIP
    >>> trace.sql("select name, count(*) as calls from events group by name")  # doctest: +SKIP
    """

    def __init__(
        self,
        events: pl.DataFrame,
        metadata: Metadata | None = None,
        issues: Mapping[str, int] | None = None,
        tables: Mapping[str, pl.DataFrame] | None = None,
    ) -> None:
        """Make a trace from a frame of events; columns that are missing are added as null.

        Raises:
            ForkedProcessError: the process was forked off from one that had used Polars.
        """
        require_polars("A trace")
        self._events = events if dict(events.schema) == schema.SCHEMA else schema.conform(events)
        self._metadata = metadata or Metadata()
        self._issues = dict(issues or {})
        self._tables = MappingProxyType(dict(tables or {}))

    @property
    def events(self) -> pl.DataFrame:
        """The table, as a Polars frame with the columns of the schema.

        Raises:
            ForkedProcessError: the process was forked off from one that had used Polars, which would never answer.
        """
        require_polars("A trace")
        return self._events

    @property
    def metadata(self) -> Metadata:
        """What is known about the whole trace."""
        return self._metadata

    @property
    def issues(self) -> dict[str, int]:
        """What reading found wrong: class of fault -> number of events or bytes it was found in; empty for a sound trace."""
        return dict(self._issues)

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Side tables by name: what belongs to the window and is no event, such as an allocator's snapshot."""
        return self._tables

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
        from kinetoscope.formats import registry

        return registry.read(path)

    def write(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the trace; the suffix chooses the format.

        ``.parquet``: the complete table. ``.json``, ``.json.gz``: Kineto/Chrome JSON for Perfetto, TensorBoard and
        chrome://tracing. ``.pftrace``: Perfetto's own format. ``.speedscope.json``: for speedscope. ``.folded``: collapsed
        stacks with CPU time, for flame graphs; ``metric=`` counts something else. ``.pb.gz``, ``.pprof``: for pprof.
        ``.csv``, ``.ndjson``, ``.arrow``: the rows. ``.gz`` or ``.zst`` may follow where the format is not compressed
        already. The file appears whole or not at all.

        Raises:
            ValueError: the suffix names no format, or the format has no such option; the message lists those there are.
            OSError: the file cannot be written.
        """
        from kinetoscope.formats import registry

        registry.write(self, path, **options)

    # questions

    def sql(self, query: str) -> pl.DataFrame:
        """Answer a SQL query over the table ``events``, and over the side tables by their names (Polars' dialect).

        Raises:
            polars.exceptions.PolarsError: the query is wrong; the message says where.
        """
        return pl.SQLContext({**self._tables, "events": self.events}).execute(query, eager=True)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> AveragesTable:
        """Group the events by name (and shape, stack, overload) and add up their times, as ``torch.profiler`` does.

        See :func:`kinetoscope.analyze.averages.key_averages` for the definition of every number.
        """
        from kinetoscope.show.averages import key_averages

        return key_averages(
            self,
            group_by_input_shape=group_by_input_shape,
            group_by_stack_n=group_by_stack_n,
            group_by_overload_name=group_by_overload_name,
            include_python_functions=include_python_functions,
        )

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
            steps: ranges of steps of the program, both ends included; see :func:`kinetoscope.trace.part.of_steps`.
            rank: a rank.
            categories: names of categories.

        Raises:
            ValueError: the trace has none of the steps.
            polars.exceptions.PolarsError: ``where`` is no condition, or names a column that there is not.
        """
        events, metadata = self.events, self._metadata
        if steps is not None:
            mask, numbers = part.of_steps(events, steps)
            events = part.keep(events, mask)
            known = [step for step in metadata.steps if step in numbers]
            metadata = msgspec.structs.replace(metadata, steps=known or numbers)
        if rank is not None:
            events = part.keep(events, events["rank"] == rank)
        if categories is not None:
            events = part.keep(events, events["category"].is_in(list(categories)))
        if where is not None:
            events = part.keep(events, events.select(pl.sql_expr(where).cast(pl.Boolean)).to_series())
        return Trace(events, copy.deepcopy(metadata), self._issues, self._tables)

    def anonymized(self, key: str | None = None) -> Trace:
        """The trace with every text replaced that is not known to be public, for sharing; without side tables.

        See :func:`kinetoscope.trace.anonymize.anonymized`.
        """
        events, metadata = anonymized(self.events, self._metadata, key)
        return Trace(events, metadata, self._issues)

    # other libraries

    def to_pandas(self) -> pd.DataFrame:
        """Return the events as a pandas frame (needs ``pip install kinetoscope[pandas]``)."""
        return self.events.to_pandas()

    def to_arrow(self) -> pa.Table:
        """Return the events as a pyarrow table (needs ``pip install pyarrow``)."""
        return self.events.to_arrow()

    # looks

    def span_ns(self) -> tuple[int, int]:
        """First start and last end of the events, nanoseconds after the base time; (0, 0) for an empty trace."""
        if not len(self):
            return 0, 0
        first = self.events["start_ns"].min()
        last = self._events.select((pl.col("start_ns") + pl.col("duration_ns").fill_null(0)).max()).item()
        return int(first or 0), int(last or 0)  # type: ignore[arg-type]

    def summary(self) -> dict[str, Any]:
        """What the trace holds in a few facts: events, span, categories, threads, devices, rank, steps."""
        first, last = self.span_ns()
        events = self.events
        slices = events.filter(pl.col("duration_ns").is_not_null())
        counts = events.group_by("category").len().sort("len", descending=True)
        return {
            "events": len(self),
            "span_ns": last - first,
            "categories": dict(zip(counts["category"].to_list(), counts["len"].to_list(), strict=True)),
            "threads": slices.filter(pl.col("stream").is_null()).select("rank", "process", "thread").n_unique(),
            "devices": slices.filter(pl.col("stream").is_not_null()).select("rank", "device").n_unique(),
            "rank": self._metadata.rank,
            "steps": list(self._metadata.steps),
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

        return f"<p>{escape(repr(self))}</p>{self.events.head(10)._repr_html_()}"
