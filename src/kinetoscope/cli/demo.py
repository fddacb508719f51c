"""``kinetoscope demo``: a real training run under the profiler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinetoscope.cli.console import CommandError

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope demo

  kinetoscope demo --output-dir /tmp/demo --steps 40"""


def demo(
    output_dir: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where demo.parquet and demo.json.gz go; made if it is missing.")
    ] = Path("demo-output"),
    steps: Annotated[int, typer.Option(metavar="STEPS", min=2, help="Training steps; the last half is recorded.")] = 20,
) -> int:
    """Train a small model under the profiler and show what comes of it."""
    from kinetoscope.launch.launcher import CannotRecord, require_recording

    try:
        require_recording()
    except CannotRecord as error:
        raise CommandError(str(error)) from error
    from kinetoscope.launch.demo import run_demo

    return run_demo(output_dir, steps)
