"""``kinetoscope convert``: a trace in another format, all of it or a part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinetoscope.cli.console import CommandError, progress, say
from kinetoscope.cli.reading import TraceArgument, errors_in_one_line, read_trace
from kinetoscope.cli.sql import first_line
from kinetoscope.formats.registry import FORMATS

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace

EXAMPLES = (
    """[bold]Examples[/bold]

  kinetoscope convert trace.json.gz trace.parquet

  kinetoscope convert trace.parquet part.json.gz --steps 3-5

  kinetoscope convert trace.parquet kernels.csv --category kernel --where "duration_ns > 1000000"

  kinetoscope convert trace.parquet to_share.json.gz --anonymize

  kinetoscope convert trace.parquet flame.folded --metric self_device_time_total

The suffix of OUT chooses the format:

"""
    + "\n\n".join(f"  {' '.join(one.suffixes)}: {one.name} ({one.purpose})" for one in FORMATS if one.writer)
    + """

.gz or .zst may follow what is not compressed already. --where takes a SQL condition over the \
columns that kinetoscope schema shows. --anonymize replaces host, user and file names and the \
names of what is not torch's or Python's own; the numbers stay."""
)


def convert(
    trace: TraceArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; its suffix chooses the format.")],
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only rows for which this holds, such as \"category = 'kernel'\".")
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="STEPS", help="Only these steps of the program, with the device activity that they launched: 3, 3-5, 1,4-6."
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

    from kinetoscope.formats import registry

    chosen = _chosen_steps(steps)
    try:
        registry.format_of(out)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if metric is not None:
        _check_metric(metric, out)
    if registry.format_of(out)[0].name == "Parquet" and not (chosen or rank is not None or category or where or anonymize
                                                               or anonymize_key is not None):  # fmt: skip
        _whole(trace, out)
        return
    read = read_trace(trace)
    names = [name.strip() for text in category or () for name in text.split(",") if name.strip()]
    _check_present(read, rank, names)
    try:
        read = read.part(where, steps=chosen, rank=rank, categories=names or None)
    except ValueError as error:
        raise CommandError(f"--steps {steps}: {error}") from error
    except pl.exceptions.PolarsError as error:
        raise CommandError(f"--where {where}: {first_line(error)}; kinetoscope schema shows the columns") from error
    if anonymize or anonymize_key is not None:
        with progress("replacing names"):
            read = read.anonymized(anonymize_key)
    with progress(f"writing {out}"), errors_in_one_line(out):
        read.write(out, **({} if metric is None else {"metric": metric}))
    say(f"wrote {len(read):,} events to {out} ({os.path.getsize(out):,} bytes)")


def _whole(trace: str, out: Path) -> None:
    """Turn all of a trace into Parquet, in bounded memory."""
    import warnings

    from kinetoscope.formats import registry

    with progress(f"converting {trace}"), errors_in_one_line(out), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = registry.to_parquet(trace, out)
    for warning in caught:
        say(str(warning.message))
    say(f"wrote {rows:,} events to {out} ({os.path.getsize(out):,} bytes)")


def _chosen_steps(text: str | None) -> list[tuple[int, int]] | None:
    from kinetoscope.trace.part import step_ranges

    if text is None:
        return None
    try:
        return step_ranges(text)
    except ValueError as error:
        raise CommandError(f"--steps: {error}") from error


def _check_metric(metric: str, out: Path) -> None:
    from kinetoscope.analyze.call_tree import METRICS
    from kinetoscope.formats import registry

    if "metric" not in registry.format_of(out)[0].options:
        raise CommandError("--metric is for collapsed stacks: write to .folded or .collapsed")
    if metric not in METRICS:
        raise CommandError(f"--metric {metric}: no metric of stacks; choose one of {', '.join(METRICS)}")


def _check_present(trace: Trace, rank: int | None, categories: list[str]) -> None:
    """Check that the trace has the rank and the categories that are asked for."""
    from kinetoscope.cli.selection import check_categories

    present = sorted(trace.events["rank"].drop_nulls().unique().to_list())
    if rank is not None and rank not in present:
        raise CommandError(f"--rank {rank}: not in this trace; it has {', '.join(map(str, present)) or 'none'}")
    check_categories(trace, tuple(categories))
