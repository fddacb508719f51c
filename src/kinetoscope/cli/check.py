"""``kinetoscope check``: what is wrong with trace files, and what reading makes of it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kinetoscope.cli.console import CommandError, progress, say, tolerate_any_name
from kinetoscope.cli.reading import errors_in_one_line

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope check trace.json.gz

  kinetoscope check ranks/*.json.gz --json

A fault is something wrong with the file: text that is no JSON, a file that was cut off, events without a time. A remark is \
something that the trace really says and that may surprise whoever adds up its numbers: slices that overlap, kernels whose \
launch was not recorded. Reading never needs this command: it repairs and counts by itself.

The exit status is 0 if every file is sound, 1 if one has faults, 2 if one holds no trace."""


def check(
    traces: Annotated[list[str], typer.Argument(metavar="TRACE...", help="Traces of any format, as for kinetoscope summary.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings of each file as a line of JSON.")] = False,
) -> int:
    """Tell what is wrong with traces, in classes with counts and first positions."""
    from kinetoscope.formats.check import check as check_file
    from kinetoscope.show.controls import without_controls

    tolerate_any_name(sys.stdout)
    status = 0
    for path in traces:
        try:
            with progress(f"checking {path}"), errors_in_one_line(path):
                report = check_file(path)
        except CommandError as error:
            say(str(error))
            status = 2
            continue
        if not report.is_sound:
            status = max(status, 1)
        if as_json:
            import msgspec

            sys.stdout.write(msgspec.json.encode({**msgspec.to_builtins(report), "lost": report.lost}).decode() + "\n")
        else:
            sys.stdout.write("\n".join(map(without_controls, str(report).split("\n"))) + "\n")
    return status
