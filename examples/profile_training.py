"""Profile the training of ``char_transformer.py`` beside this file.

    python examples/profile_training.py [output folder]

The only line that torch.profiler would have different is the import: ``from torch.profiler import ...``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from char_transformer import training

from kinetoscope import ProfilerActivity, profile, schedule


def main(output: Path) -> None:
    """Train twelve steps, of which two windows of three are recorded; print tables and leave trace files."""
    output.mkdir(parents=True, exist_ok=True)

    def keep(prof: profile) -> None:
        # Called when a window is complete, twice here. The table of a window is one file.
        prof.trace.write(output / f"training-{prof.step_num}.parquet")

    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=2, warmup=1, active=3, repeat=2),
        on_trace_ready=keep,
        record_shapes=True,
        profile_memory=True,
    ) as prof:
        for _ in training(steps=12):
            prof.step()

    # As with torch.profiler, what is asked now is answered from the last window.
    averages = prof.key_averages()
    print(averages.table(sort_by="self_cpu_time_total", row_limit=10, max_name_column_width=40))
    prof.export_chrome_trace(output / "training.json.gz")

    # And what torch.profiler does not have: the averages as a frame, and any question as SQL.
    frame = averages.to_polars().sort("self_cpu_time_total", descending=True)
    print(frame.select("key", "count", "p50", "p95", "p99").head(5))
    print(
        prof.trace.sql("""
            select input_shapes, count(*) as calls, sum(duration_ns) / 1e6 as ms
            from events where name = 'aten::addmm' group by input_shapes order by ms desc
        """)
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "training-output"))
