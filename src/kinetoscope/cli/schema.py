"""``kinetoscope schema``: the columns of the table, and what they mean."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kinetoscope.cli.console import console, tolerate_any_name

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope schema

  kinetoscope schema --json

A trace is one table, events, with a row for each thing that happened. These are its columns, in their order; ask it with \
kinetoscope sql."""


def schema(as_json: Annotated[bool, typer.Option("--json", help="Print the columns as one JSON object.")] = False) -> None:
    """Print the columns of a trace with what they mean."""
    import polars as pl

    from kinetoscope.show.frame_table import frame_table
    from kinetoscope.trace.schema import COLUMNS, SCHEMA_VERSION

    if as_json:
        import msgspec

        columns = [{"name": c.name, "type": c.dtype.__name__, "group": c.group, "meaning": c.meaning} for c in COLUMNS]
        content = msgspec.json.encode({"schema_version": SCHEMA_VERSION, "columns": columns})
        sys.stdout.write(msgspec.json.format(content).decode() + "\n")
        return
    tolerate_any_name(sys.stdout)
    shown = console(sys.stdout)
    groups = list(dict.fromkeys(column.group for column in COLUMNS))
    for group in groups:
        sys.stdout.write(f"{group}\n\n")
        rows = [(c.name, c.dtype.__name__, c.meaning) for c in COLUMNS if c.group == group]
        frame = pl.DataFrame(rows, schema=["column", "type", "meaning"], orient="row")
        sys.stdout.write(frame_table(frame, width=shown.width if shown.is_terminal else None) + "\n")
