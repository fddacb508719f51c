"""Kinetoscope against torch.profiler: stop, table, memory, exports and sizes, as paired ratios.

    python bench/profiler.py [--events 10000 100000 1000000] [--rounds 3] [--limit 60]

Each size runs in processes of its own. Times are of both profilers in one process, which take turns; medians of the
rounds. Memory is of one process for each. A rival that would need more than the limit for a table, by what it needed at
the size before, is not run.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

QUANTITIES = {
    "stop": "blocked at stop, us an event",
    "table": "stop to table, us an event",
    "memory": "memory that the table adds at its peak, bytes an event",
    "json": "export .json, us an event",
    "gz": "export .json.gz, us an event",
    "parquet": "write .parquet, us an event",
    "json size": ".json, bytes an event",
    "gz size": ".json.gz, bytes an event",
    "parquet size": ".parquet, bytes an event",
}


def profiler_of(name: str) -> Any:
    """The class that is measured."""
    if name == "torch":
        import torch.profiler

        return torch.profiler.profile
    import kinetoscope

    return kinetoscope.profile


def record(name: str, step: Any, steps: int) -> tuple[Any, float]:
    """Record some steps; gives the profiler and the seconds that its stop took."""
    import torch

    prof = profiler_of(name)(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True)
    prof.start()
    for _ in range(steps):
        step()
    begin = time.perf_counter()
    prof.stop()
    return prof, time.perf_counter() - begin


def timed(action: Any) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def measure_times(events: int, rounds: int, with_torch: bool) -> dict[str, dict[str, list[float]]]:
    """Times and sizes of both profilers, one value a round, per event."""
    from workload import training_step

    step = training_step()
    probe, _ = record("kinetoscope", step, 2)
    probe.key_averages().table(), probe.trace
    per_step = len(probe.profiler.kineto_results.events()) / 2
    steps = max(round(events / per_step), 1)
    names = ["kinetoscope", "torch"] if with_torch else ["kinetoscope"]
    found: dict[str, dict[str, list[float]]] = {name: {} for name in names}

    def note(name: str, quantity: str, value: float) -> None:
        found[name].setdefault(quantity, []).append(value / events * 1e6 if "size" not in quantity else value / events)

    events = round(steps * per_step)
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for name in names if turn % 2 == 0 else names[::-1]:
                prof, stop = record(name, step, steps)
                note(name, "stop", stop)
                note(name, "table", timed(lambda p=prof: p.key_averages().table(sort_by="self_cpu_time_total")))
                del prof
                gc.collect()
                # torch can export a result only once: each export has a recording of its own, for both.
                for suffix in ("json", "gz"):
                    path = Path(folder) / f"trace.{'json' if suffix == 'json' else 'json.gz'}"
                    prof, stop = record(name, step, steps)
                    note(name, "stop", stop)
                    note(name, suffix, timed(lambda p=prof, path=path: p.export_chrome_trace(str(path))))
                    note(name, f"{suffix} size", path.stat().st_size)
                if name == "kinetoscope":
                    path = Path(folder) / "trace.parquet"
                    note(name, "parquet", timed(lambda p=prof, path=path: p.trace.write(path)))
                    note(name, "parquet size", path.stat().st_size)
                del prof
                gc.collect()
    found["events"] = {"events": [float(events)]}
    return found


def measure_memory(name: str, events: int) -> dict[str, dict[str, list[float]]]:
    """Bytes an event by which the table raises the process's peak over what it held after stop."""
    from workload import training_step

    step = training_step()
    probe, _ = record(name, step, 2)
    probe.key_averages().table()
    per_step = len(probe.profiler.kineto_results.events()) / 2
    steps = max(round(events / per_step), 1)
    prof, _ = record(name, step, steps)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = status_kb("VmRSS")
    prof.key_averages().table(sort_by="self_cpu_time_total")
    return {name: {"memory": [(status_kb("VmHWM") - before) * 1024 / (steps * per_step)]}}


def status_kb(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    return 0


def child(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, "--child", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=True, cwd=Path(__file__).parent)  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60, help="seconds that a rival's table may take")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        what, events, *rest = chosen.child
        if what == "times":
            print(json.dumps(measure_times(int(events), int(rest[0]), rest[1] == "True")))
        else:
            print(json.dumps(measure_memory(what, int(events))))
        return

    import torch

    import kinetoscope

    print(f"{date.today()}, kinetoscope {kinetoscope.__version__}, torch {torch.__version__}, Python "
          f"{platform.python_version()}, {platform.machine()}")  # fmt: skip
    print("\n| events | quantity | kinetoscope | torch.profiler | ratio |\n|---:|---|---:|---:|---:|")
    torch_table_us = 0.0
    for events in sorted(chosen.events):
        with_torch = torch_table_us * events / 1e6 <= chosen.limit
        rounds = chosen.rounds if events <= 10_000 else max(chosen.rounds - 2, 1) if events >= 1_000_000 else chosen.rounds
        found = child("times", str(events), str(rounds), str(with_torch))
        for name in ("kinetoscope", "torch") if with_torch else ("kinetoscope",):
            found[name].update(child(name, str(events))[name])
        if with_torch:
            torch_table_us = statistics.median(found["torch"]["table"])
        for quantity, meaning in QUANTITIES.items():
            ours = statistics.median(found["kinetoscope"][quantity])
            theirs = found.get("torch", {}).get(quantity)
            other = "" if theirs is None else f"{statistics.median(theirs):.1f}"
            if theirs is None and quantity in ("table", "memory") and not with_torch:
                other = f"over {chosen.limit:.0f} s"
            ratio = "" if theirs is None else f"{statistics.median(theirs) / ours:.1f}"
            print(f"| {int(found['events']['events'][0]):,} | {meaning} | {ours:.1f} | {other} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
