"""``kinetoscope demo``: a real training run under the profiler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kinetoscope.cli.console import CommandError

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope demo

  kinetoscope demo --output-dir /tmp/demo --steps 40"""


def demo() -> None:
    """Train a small model under the profiler and show what comes of it."""
