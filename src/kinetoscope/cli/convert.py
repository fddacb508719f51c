"""``kinetoscope convert``: a trace in another format, all of it or a part."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kinetoscope.cli.console import CommandError, progress, say
from kinetoscope.cli.reading import TraceArgument, errors_in_one_line, read_trace
from kinetoscope.cli.sql import first_line

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace

T = TypeVar("T")

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope convert trace.json.gz trace.parquet

  kinetoscope convert trace.parquet part.json.gz --steps 3-5

  kinetoscope convert trace.parquet kernels.csv --category kernel --where "duration_ns > 1000000"

  kinetoscope convert trace.parquet to_share.json.gz --anonymize

  kinetoscope convert trace.parquet flame.folded --metric self_device_time_total

The suffix of OUT chooses the format. --where takes a SQL condition over the columns that kinetoscope schema shows. \
--anonymize replaces host, user and file names and the names of what is not torch's or Python's own; the numbers stay."""


def convert(
    trace: TraceArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; its suffix chooses the format.")],
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only rows for which this holds, such as \"category = 'kernel'\".")
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="STEPS", help="Only these steps of the program, with the device work that they launched: 3, 3-5, 1,4-6."
        ),
    ] = None,
    rank: Annotated[int | None, typer.Option(metavar="N", help="Only rows of this rank.")] = None,
    category: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only rows of this category; several are separated by commas.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What collapsed stacks count: self_cpu_time_total (microseconds, the default), self_device_time_total, bytes "
            "or calls.",
        ),
    ] = None,
    anonymize: Annotated[bool, typer.Option("--anonymize", help="Replace names that are not torch's or Python's own.")] = False,
    anonymize_key: Annotated[
        str | None,
        typer.Option(metavar="SECRET", help="Give the same names to the same texts in all traces that get this secret."),
    ] = None,
) -> None:
    """Write a trace in another format, all of it or a part."""
    import polars as pl

    from kinetoscope.analyze import subset
    from kinetoscope.trace import formats

    chosen = _chosen_steps(steps)
    try:
        formats.writer_of(out)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if metric is not None:
        _check_metric(metric, out)
    read = read_trace(trace)
    whole = read
    if chosen is not None:
        read = _part(lambda: subset.steps(whole, chosen), f"--steps {steps}")
    if rank is not None:
        read = _of_rank(read, rank)
    names = [name.strip() for text in category or () for name in text.split(",") if name.strip()]
    if names:
        from kinetoscope.cli.selection import check_categories

        check_categories(read, tuple(names))
        read = subset.categories(read, names)
    if where is not None:
        try:
            read = subset.where(read, where)
        except pl.exceptions.PolarsError as error:
            raise CommandError(f"--where {where}: {first_line(error)}; kinetoscope schema shows the columns") from error
    if anonymize or anonymize_key is not None:
        from kinetoscope.analyze.anonymize import anonymize as anonymized

        with progress("replacing names"):
            read = anonymized(read, anonymize_key)
    with progress(f"writing {out}"), errors_in_one_line(out):
        if metric is None:
            read.write(out)
        else:
            read.call_tree().write_collapsed(out, metric)
    say(f"wrote {len(read):,} events to {out} ({os.path.getsize(out):,} bytes)")


def _chosen_steps(text: str | None) -> list[tuple[int, int]] | None:
    from kinetoscope.analyze import subset

    if text is None:
        return None
    return _part(lambda: subset.step_numbers(text), "--steps")


def _part(make: Callable[[], T], option: str) -> T:
    try:
        return make()
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error


def _check_metric(metric: str, out: Path) -> None:
    from kinetoscope.analyze.call_tree import METRICS

    if not out.name.lower().endswith((".folded", ".collapsed")):
        raise CommandError("--metric is for collapsed stacks: write to .folded or .collapsed")
    if metric not in METRICS:
        raise CommandError(f"--metric {metric}: no metric of stacks; choose one of {', '.join(METRICS)}")


def _of_rank(trace: Trace, number: int) -> Trace:
    from kinetoscope.analyze import subset

    present = sorted(trace.events["rank"].drop_nulls().unique().to_list())
    if number not in present:
        raise CommandError(f"--rank {number}: not in this trace; it has {', '.join(map(str, present)) or 'none'}")
    return subset.rank(trace, number)
