"""``kinetoscope demo``: a real training run under the profiler."""

from __future__ import annotations

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope demo

  kinetoscope demo --output-dir /tmp/demo --steps 40"""


def demo() -> None:
    """Train a small model under the profiler and show what comes of it."""
