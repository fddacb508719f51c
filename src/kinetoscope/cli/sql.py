"""``kinetoscope sql``: questions to a trace, or to a folder of them."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinetoscope.cli.console import CommandError, console, progress, say, tolerate_any_name
from kinetoscope.cli.reading import TraceArgument, errors_in_one_line, files_of, read_trace

if TYPE_CHECKING:
    import polars as pl

DEFAULT_LIMIT = 50

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope sql train.parquet "select name, count(*) as calls from events group by name order by calls desc"

  kinetoscope sql trace.json.gz "select sum(duration_ns) / 1e6 as ms from events where category = 'kernel'"

  kinetoscope sql ranks/ "select rank, max(start_ns + duration_ns) as ended from events group by rank"

  kinetoscope sql train.parquet "select * from events where category = 'kernel'" --output kernels.parquet

The table is called events; kinetoscope schema shows its columns. Of a folder it holds all traces, and a column file says \
which. The dialect is that of Polars. On a terminal the first 50 rows are shown."""


class Format(str, Enum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"
    ndjson = "ndjson"


def sql(
    trace: TraceArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A select over the table events.")],
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            metavar="FORM",
            help="How rows are printed: table, csv, json or ndjson.",
            show_default="table",
            case_sensitive=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the rows there instead: .csv, .json, .ndjson, .parquet or .arrow."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="ROWS", help="Rows at most; 0 for all.", show_default=False)
    ] = None,
) -> None:
    """Answer a SQL query over a trace or a folder of traces."""
    if output is not None:
        if form is not None:
            raise CommandError("choose one of --format and --output; the suffix of the file chooses its format")
        if not output.name.lower().endswith(tuple(_WRITERS)):
            raise CommandError(f"--output {output}: unknown suffix; choose one of {', '.join(_WRITERS)}")
    if limit is None and output is None and form in (None, Format.table) and sys.stdout.isatty():
        limit = DEFAULT_LIMIT
    rows = answer(trace, query)
    if output is not None:
        from kinetoscope.common.atomic_path import atomic_path

        with errors_in_one_line(output), atomic_path(output) as partial:
            _WRITERS[output.suffix.lower()](rows.head(limit) if limit else rows, partial)
        say(f"wrote {rows.height:,} rows to {output}")
        return
    tolerate_any_name(sys.stdout)
    if form in (None, Format.table):
        from kinetoscope.show.frame_table import frame_table

        shown = console(sys.stdout)
        sys.stdout.write(frame_table(rows, limit, shown.width if shown.is_terminal else None))
        return
    rows = rows.head(limit) if limit else rows
    if form is Format.csv:
        sys.stdout.write(_flat(rows).write_csv())
    elif form is Format.ndjson:
        sys.stdout.write(rows.write_ndjson())
    else:
        sys.stdout.write(rows.write_json() + "\n")


def answer(place: str, query: str) -> pl.DataFrame:
    """The rows of a query over a trace or over the traces of a folder.

    Raises:
        CommandError: there is no trace, or the query cannot be answered; the message says where it is wrong.
    """
    import polars as pl

    events = _folder(Path(place)) if Path(place).is_dir() else _events(place)
    try:
        with progress("answering"):
            return pl.SQLContext(events=events).execute(query, eager=True)
    except pl.exceptions.ColumnNotFoundError as error:
        raise CommandError(f"{first_line(error)}; kinetoscope schema shows the columns") from error
    except pl.exceptions.PolarsError as error:
        hint = "; the table is called events" if "not found" in str(error) else ""
        raise CommandError(f"{first_line(error)}{hint}") from error


def _events(place: str) -> pl.LazyFrame:
    """The events of one trace; of our own Parquet only the columns that the query needs are read."""
    import polars as pl

    from kinetoscope.trace import parquet, schema

    if parquet.is_parquet(place):
        with errors_in_one_line(place):
            parquet.read_metadata(place)
        lazy = pl.scan_parquet(place)
        present = lazy.collect_schema().names()
        return lazy.select(
            (pl.col(name) if name in present else pl.lit(None)).cast(dtype).alias(name) for name, dtype in schema.SCHEMA.items()
        )
    return read_trace(place).events.lazy()


def _folder(folder: Path) -> pl.LazyFrame:
    import polars as pl

    parts = []
    for path in files_of(folder):
        try:
            parts.append(_events(str(path)).with_columns(file=pl.lit(str(path.relative_to(folder)))))
        except CommandError as error:
            say(f"left out: {error}")
    if not parts:
        raise CommandError(f"{folder}: no file in this folder is a trace")
    return pl.concat(parts)


def first_line(error: Exception) -> str:
    """What Polars says, without the list of all columns."""
    return str(error).strip().split("\n", 1)[0].split("; valid columns", 1)[0]


def _flat(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose every cell CSV can hold: lists and structs as JSON text."""
    import msgspec
    import polars as pl

    nested = [name for name, dtype in rows.schema.items() if dtype.is_nested()]
    texts = {
        name: pl.Series([None if cell is None else msgspec.json.encode(cell).decode() for cell in rows[name].to_list()],
                        dtype=pl.String)
        for name in nested
    }  # fmt: skip
    return rows.with_columns(**texts)


_WRITERS: dict[str, Any] = {
    ".csv": lambda rows, path: _flat(rows).write_csv(path),
    ".json": lambda rows, path: rows.write_json(path),
    ".ndjson": lambda rows, path: rows.write_ndjson(path),
    ".parquet": lambda rows, path: rows.write_parquet(path),
    ".arrow": lambda rows, path: rows.write_ipc(path),
}
