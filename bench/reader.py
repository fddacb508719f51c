"""Reading Kineto's JSON into a table: Kinetoscope against what people use, in time and peak memory.

    pip install HolisticTraceAnalysis orjson duckdb pandas
    python bench/reader.py [--sizes 5 50 200 1000] [--suffixes .json .json.gz] [--rounds 3] [--limit 120] [--gigabytes 16]

The file is a real trace (a training step on two ranks) whose events are repeated, each time later and with other ids. Each
reading is a process of its own, the readers take turns, and the medians of the rounds count. Time begins after the imports;
memory is what the peak of the process, with those that it starts, adds to what it took before. Ratios are the rival's figure
by ours. What would need more than a limit, by what it needed for the size before, is not run. What each gives is not the same:
Kinetoscope's table has every argument, nesting and links; HTA's has the columns of its own analyses; the others are only the
first step, events with their arguments as they stand.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

TRACE = Path(__file__).parent.parent / "tests" / "data" / "traces" / "nvidia_nccl_2ranks_rank0.json.gz"
OURS = "kinetoscope"
NEEDS = {
    OURS: "kinetoscope",
    "HTA": "hta",
    "json + pandas": "pandas",
    "orjson + pandas": "orjson",
    "DuckDB": "duckdb",
    "polars.read_json": "polars",
}
"""Reader -> the module that it needs."""


def read(reader: str, path: str) -> int:
    """Read a file; gives the number of rows."""
    return {
        OURS: _kinetoscope,
        "HTA": _hta,
        "json + pandas": _json,
        "orjson + pandas": _orjson,
        "DuckDB": _duckdb,
        "polars.read_json": _polars,
    }[reader](path)


def _kinetoscope(path: str) -> int:
    import kinetoscope

    return len(kinetoscope.read(path))


def _hta(path: str) -> int:
    from hta.common.trace_parser import parse_trace_dataframe
    from hta.configs.parser_config import ParserConfig

    return len(parse_trace_dataframe(path, ParserConfig.get_default_cfg())[1])


def _text(path: str) -> bytes:
    return gzip.decompress(Path(path).read_bytes()) if path.endswith(".gz") else Path(path).read_bytes()


def _json(path: str) -> int:
    import pandas as pd

    return len(pd.DataFrame(json.loads(_text(path))["traceEvents"]))


def _orjson(path: str) -> int:
    import orjson
    import pandas as pd

    return len(pd.DataFrame(orjson.loads(_text(path))["traceEvents"]))


def _duckdb(path: str) -> int:
    import duckdb

    query = "select unnest(traceEvents) as event from read_json(?, maximum_object_size = 4000000000, sample_size = -1)"
    return len(duckdb.execute(query, [path]).to_arrow_table())


def _polars(path: str) -> int:
    import polars as pl

    return pl.read_json(_text(path)).select(pl.col("traceEvents").explode()).unnest("traceEvents").height


def memory_of(process: int) -> int:
    """Bytes that a process and those it started have in memory now."""
    total = 0
    for one in [process, *_children(process)]:
        try:
            lines = Path(f"/proc/{one}/status").read_text().splitlines()
        except OSError:
            continue
        total += next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)
    return total


def _children(process: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return found


def measure(reader: str, path: str) -> dict[str, float]:
    """Read once, in this process; gives seconds, bytes of peak memory that were added, and rows."""
    import os

    # What is loaded when it is first used counts as an import.
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm.json"
        event = {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 1, "ts": 1, "dur": 1, "args": {"stream": 7}}
        warm.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [event] * 3}))
        try:
            read(reader, str(warm))
        except Exception as error:  # a rival that refuses so small a trace is loaded all the same
            print(f"{reader}: {error}", file=sys.stderr)
    before = memory_of(os.getpid())
    peak = before
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.005):
            peak = max(peak, memory_of(os.getpid()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    begin = time.perf_counter()
    rows = read(reader, path)
    seconds = time.perf_counter() - begin
    ended.set()
    watcher.join()
    return {"seconds": seconds, "bytes": peak - before, "rows": rows}


def in_child(reader: str, path: Path, timeout: float) -> dict[str, float] | None:
    """Measure in a process of its own; None where it did not end in time, or failed."""
    command = [sys.executable, __file__, "--measure", reader, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(f"{reader}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def write_repeated(path: Path, size: int) -> int:
    """Write a trace of about so many bytes; gives how many it became, as plain text."""
    data = json.loads(gzip.decompress(TRACE.read_bytes()))
    events = [event for event in data.pop("traceEvents") if event["ph"] != "M"]
    written = 0
    with gzip.open(path, "wt", compresslevel=6) if path.suffix == ".gz" else open(path, "w") as out:
        written += out.write(json.dumps(data)[:-1] + ', "traceEvents": [')
        separator = ""
        while written < size:
            part = events if size - written > 9_000_000 else events[: max(1, (size - written) * len(events) // 9_000_000)]
            for event in part:
                event["ts"] += 10_000_000
                if "id" in event:
                    event["id"] += 1_000_000
                for key in ("External id", "correlation"):
                    if event.get("args", {}).get(key, 0) > 0:
                        event["args"][key] += 1_000_000
            written += out.write(separator + ",\n".join(map(json.dumps, part)))
            separator = ",\n"
        written += out.write("]}")
    return written


def compare(sizes: list[int], suffixes: list[str], rounds: int, limit: float, most_bytes: float) -> None:
    """Measure every reader on every file and print the table."""
    readers = [reader for reader, module in NEEDS.items() if importlib.util.find_spec(module) is not None]
    print(_heading(readers))
    print("| file | reader | seconds | MB/s | peak, times the JSON | time ratio | memory ratio |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for suffix in suffixes:
        known: dict[str, tuple[float, float]] = {}
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"trace{suffix}"
                text = write_repeated(path, size * 10**6)
                results: dict[str, list[dict[str, float]]] = {}
                for _ in range(rounds):
                    for reader in readers:
                        seconds, memory = known.get(reader, (0.0, 0.0))
                        if seconds * text > limit or memory * text > most_bytes:
                            continue
                        one = in_child(reader, path, 4 * limit)
                        if one is not None:
                            results.setdefault(reader, []).append(one)
            rows = {
                reader: (statistics.median(one["seconds"] for one in runs), statistics.median(one["bytes"] for one in runs))
                for reader, runs in results.items()
            }
            for reader in readers:
                print(_row(f"{size} MB {suffix}", reader, rows, text), flush=True)
            known.update({reader: (seconds / text, memory / text) for reader, (seconds, memory) in rows.items()})


def _row(file: str, reader: str, rows: dict[str, tuple[float, float]], text: int) -> str:
    if reader not in rows:
        return f"| {file} | {reader} | not run |  |  |  |  |"
    seconds, memory = rows[reader]
    ours_seconds, ours_memory = rows.get(OURS, (seconds, memory))
    ratios = f"{seconds / ours_seconds:.1f} | {memory / ours_memory:.1f}"
    return f"| {file} | {reader} | {seconds:.2f} | {text / 1e6 / seconds:.0f} | {memory / text:.2f} | {ratios} |"


def _heading(readers: list[str]) -> str:
    names = {OURS: "kinetoscope", "HTA": "HolisticTraceAnalysis", "orjson + pandas": "orjson", "DuckDB": "duckdb",
             "json + pandas": "pandas", "polars.read_json": "polars"}  # fmt: skip
    versions = ", ".join(f"{names[reader]} {version(names[reader])}" for reader in readers)
    return f"{date.today()}, {versions}, Python {platform.python_version()}, {platform.machine()}\n"


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5, 50, 200, 1000], help="megabytes of JSON")
    parser.add_argument("--suffixes", nargs="+", default=[".json", ".json.gz"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds that a rival may need")
    parser.add_argument("--gigabytes", type=float, default=16, help="memory that a rival may need")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return
    compare(arguments.sizes, arguments.suffixes, arguments.rounds, arguments.limit, arguments.gigabytes * 1e9)


if __name__ == "__main__":
    main()
