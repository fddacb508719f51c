"""The demo: a real training run under the profiler, and what can be done with what it leaves."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from kinetoscope.record.torch_version import require_torch
from kinetoscope.show.operator_columns import OperatorTable
from kinetoscope.show.operator_table import coloured, plain

if TYPE_CHECKING:
    from kinetoscope.record.profiler import profile
    from kinetoscope.trace.trace import Trace

TRACE_NAME = "demo.parquet"
CHROME_NAME = "demo.json.gz"
STEPS = 20
"""Training steps by default."""

_CONTEXT = 128
_BATCH = 32
_WORKERS = 2
_MOST_RECORDED = 10
_ROWS = 12
_MEMORY_ROWS = 8


def run_demo(output: Path, steps: int = STEPS) -> int:
    """Train a small transformer under the profiler, print where its time and memory went, and leave the trace.

    The last half of the steps, 10 at most, are recorded, after one to warm the profiler up.

    Args:
        output: folder for ``demo.parquet`` and ``demo.json.gz``; made if it is missing.
        steps: training steps, at least 2.

    Returns:
        The exit status: 0, or 2 with one line on stderr if the demo cannot be run.
    """
    try:
        _check(output, steps)
        require_torch()
        _run(output, steps)
    except (OSError, ValueError, ImportError) as error:
        print(f"kinetoscope: {error}", file=sys.stderr)
        return 2
    return 0


def recorded_steps(steps: int) -> int:
    """How many of the steps, the last ones, are recorded."""
    return max(1, min(_MOST_RECORDED, steps // 2))


def _check(output: Path, steps: int) -> None:
    if steps < 2:
        raise ValueError(f"the demo needs at least 2 steps, one to warm up and one to record; got {steps}")
    output.mkdir(parents=True, exist_ok=True)
    if not os.access(output, os.W_OK | os.X_OK):
        raise PermissionError(f"{output}: the folder cannot be written")


def _run(output: Path, steps: int) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = _PLAIN_WIDTH
    console.print(f"Training a character-level transformer on Python's own source: {steps} steps, on the CPU", soft_wrap=True)
    prof, losses = train(steps)
    console.print(
        f"Loss {losses[0]:.2f} -> {losses[-1]:.2f}; the last {recorded_steps(steps)} steps were recorded\n", soft_wrap=True
    )

    prof.trace.write(output / TRACE_NAME)
    prof.export_chrome_trace(output / CHROME_NAME)
    for title, column, rows in (
        ("Where the time went", "self_cpu_time_total", _ROWS),
        ("Where the memory went", "self_cpu_memory_usage", _MEMORY_ROWS),
    ):
        console.print(title, style="bold")
        _print_operators(console, prof.trace, column, rows)
    console.print(_how_to_open(output), soft_wrap=True)


def train(steps: int) -> tuple[profile, list[float]]:
    """Train under a profiler with a schedule; gives the profiler and the loss of each step."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader

    from kinetoscope.launch.demo_model import Characters, CharTransformer, standard_library_source
    from kinetoscope.record.activities import ProfilerActivity
    from kinetoscope.record.profiler import profile
    from kinetoscope.record.schedule import schedule

    active = recorded_steps(steps)
    plan = schedule(wait=steps - active - 1, warmup=1, active=active, repeat=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        data = Characters(standard_library_source(), _CONTEXT)
        loader = iter(DataLoader(data, batch_size=_BATCH, shuffle=True, num_workers=_WORKERS))
        model = CharTransformer(len(data.alphabet), _CONTEXT)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses = []
        with profile(activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=True, profile_memory=True) as prof:
            for _ in range(steps):
                characters, following = next(loader)
                loss = cross_entropy(model(characters).flatten(0, 1), following.flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
                prof.step()
    return prof, losses


def _print_operators(console: Console, trace: Trace, column: str, limit: int) -> None:
    rows = trace.key_averages().to_polars()
    shown = rows.sort(column, descending=True, maintain_order=True).head(limit)
    operators = OperatorTable(
        rows=shown,
        matching=len(shown),
        self_cpu_total=float(rows["self_cpu_time_total"].sum()),
        self_device_total=0.0,
        sorted_by=column,
        memory=True,
    )
    if console.is_terminal:
        console.print(coloured(operators, console))
    else:
        console.print(plain(operators, console.width), soft_wrap=True)


_PLAIN_WIDTH = 120
_QUERY = "select category, count(*) as events from events group by category"


def _how_to_open(output: Path) -> str:
    table, chrome = output / TRACE_NAME, output / CHROME_NAME
    # Where the demo runs in an environment that is not activated, the plain names would be others.
    python = "python" if shutil.which("kinetoscope") else os.path.relpath(sys.executable)
    command = "kinetoscope" if python == "python" else f"{python} -m kinetoscope"
    return f"""\
{table} is the trace as a table. Look at it again:
    {command} summary {table} --group-by-shape
    {command} sql {table} "{_QUERY}"
    {python} -c "import kinetoscope; print(kinetoscope.read({str(table)!r}))"
or with whatever reads Parquet:
    {python} -c "import polars; print(polars.read_parquet({str(table)!r}))"
{chrome} is the same for a viewer of timelines: drop it on https://ui.perfetto.dev or into chrome://tracing"""
