"""``kinetoscope summary``: what a trace holds, and where the time of its operators went."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinetoscope.cli.console import CommandError, console, progress, tolerate_any_name
from kinetoscope.cli.reading import TraceArgument, read_trace

if TYPE_CHECKING:
    from kinetoscope.show.operator_columns import OperatorTable
    from kinetoscope.trace.trace import Trace

DEFAULT_LIMIT = 20

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope summary train.parquet

  kinetoscope summary trace.json.gz --sort cuda_time_total --limit 50

  kinetoscope summary train.parquet --filter 'conv|mm' --group-by-shape

  kinetoscope summary train.parquet --category kernel --percentiles

  kinetoscope summary train.parquet --csv > operators.csv

The table is as wide as the terminal, or as the variable COLUMNS says; in pipes and files 120 columns. Kernels are named by \
their meaning, without parameters and template arguments; --full-names shows all, and so do --json and --csv.

Without --json and --csv a table of the first 20 rows is printed; with them everything, unless --limit says otherwise. \
Times there are microseconds, memory is bytes, names are those of torch.profiler's key_averages()."""


def summary(
    trace: TraceArgument,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Column to sort by, largest first, as in torch.profiler: self_cpu_time, "
            "cpu_time_total, cuda_time_total, count, name, p99, cpu_memory_usage, flops, ...",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="ROWS", help="Rows at most; 0 for all.", show_default=False)
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--filter", metavar="REGEX", help="Only rows whose name matches, in any case.")
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only rows of this category, such as cpu_op, kernel, gpu_memcpy or "
            "python_function; several are separated by commas.",
        ),
    ] = None,
    group_by_shape: Annotated[bool, typer.Option("--group-by-shape", help="One row for each input shape.")] = False,
    group_by_stack: Annotated[
        int, typer.Option(min=0, metavar="FRAMES", help="One row for each stack, by this many innermost frames.")
    ] = 0,
    group_by_overload: Annotated[bool, typer.Option("--group-by-overload", help="One row for each overload.")] = False,
    percentiles: Annotated[
        bool, typer.Option("--percentiles", help="Add min, p50, p95, p99 and max of the calls' durations.")
    ] = False,
    full_names: Annotated[
        bool, typer.Option("--full-names", help="Show every name whole and every column, however wide that is.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print facts and rows as one JSON object.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")] = False,
) -> None:
    """Show what a trace holds and where the time of its operators went."""
    if as_json and as_csv:
        raise CommandError("choose one of --json and --csv")
    from kinetoscope.cli.selection import Selection, check, select

    if limit is None and not as_json and not as_csv:
        limit = DEFAULT_LIMIT
    categories = tuple(name.strip() for text in category or () for name in text.split(",") if name.strip())
    selection = Selection(sort, limit, pattern, categories, group_by_shape, group_by_stack, group_by_overload)
    check(selection)
    read = read_trace(trace)
    with progress(f"adding up {trace}"):
        operators = select(read, selection, percentiles, full_names)
    tolerate_any_name(sys.stdout)
    if as_json:
        sys.stdout.write(json_of(read, operators, trace))
    elif as_csv:
        sys.stdout.write(csv_of(operators))
    else:
        show(read, operators, trace)


def show(trace: Trace, operators: OperatorTable, path: Path | str, stream: Any = None) -> None:
    """Print facts and table for people: with colours to a terminal, plain elsewhere."""
    from kinetoscope.show.facts import facts, pairs
    from kinetoscope.show.operator_table import coloured, plain

    stream = stream or sys.stdout
    output = console(stream)
    pairs(output, facts(trace, path))
    stream.write("\n")
    if not len(operators.rows):
        stream.write("no operators\n")
    elif output.is_terminal:
        output.print(coloured(operators, output))
    else:
        stream.write(plain(operators, output.width))


def json_of(trace: Trace, operators: OperatorTable, path: str | os.PathLike[str]) -> str:
    """Facts and rows as JSON: an object with the members trace and operators."""
    import msgspec

    facts = trace.summary()
    facts["categories"] = {name or "other": count for name, count in facts["categories"].items()}
    metadata = trace.metadata
    described = {
        "path": os.fspath(path),
        **facts,
        "issues": trace.issues,
        "versions": metadata.versions,
        "options": metadata.options,
        "distributed": metadata.distributed,
        "host_name": metadata.host_name,
        "self_cpu_time_total": operators.self_cpu_total,
        "self_device_time_total": operators.self_device_total,
    }
    content = {"trace": described, "operators": operators.rows.rename({"key": "name"}).to_dicts()}
    return msgspec.json.format(msgspec.json.encode(content)).decode() + "\n"


def csv_of(operators: OperatorTable) -> str:
    """The rows as CSV; the frames of a stack are joined by line breaks inside its cell."""
    import polars as pl

    rows = operators.rows.rename({"key": "name"}).with_columns(pl.col("stack").list.join("\n"))
    return rows.write_csv()
