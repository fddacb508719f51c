"""Calls of the public interface, each in a process that is forked off from one that has profiled and used Polars.

Run as a program, with a folder to write to: prints one line of JSON a call, ``{"call", "outcome", "said"}``. A call that
does not end within the time limit is ended by a signal and reported as that.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import torch

import kinetoscope
from kinetoscope import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

LIMIT_S = 60
CPU = [ProfilerActivity.CPU]

warnings.simplefilter("ignore")


def work() -> None:
    with record_function("work"):
        torch.randn(32, 32) @ torch.randn(32, 32)


def recorded(**options: object) -> profile:
    with profile(activities=CPU, **options) as prof:  # type: ignore[arg-type]
        work()
    return prof


def names_in(path: str) -> set[str]:
    data = Path(path).read_bytes()
    content = json.loads(gzip.decompress(data) if path.endswith(".gz") else data)
    return {event["name"] for event in content["traceEvents"]}


def events() -> None:
    assert "aten::mm" in {event.name for event in recorded().events()}


def table() -> None:
    shown = recorded(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True)
    assert "aten::mm" in shown.key_averages(group_by_input_shape=True, group_by_stack_n=3).table(sort_by="self_cpu_time_total")
    assert shown.key_averages().total_average().count > 0
    assert "aten::mm" in shown.events().table(row_limit=-1)


def export_json() -> None:
    prof = recorded(record_shapes=True)
    for _ in range(2):
        prof.export_chrome_trace("child.json")
        assert "aten::mm" in names_in("child.json")


def export_gz() -> None:
    recorded(with_stack=True, profile_memory=True).export_chrome_trace("child.json.gz")
    assert "aten::mm" in names_in("child.json.gz")


def export_of_a_name_that_kineto_garbles() -> None:
    name = 'a "quoted" \\ name\n and / more'
    with profile(activities=CPU, with_flops=True) as prof:
        with record_function(name):
            torch.ones(3).cos()
        prof.add_metadata("said", "in the child")
    prof.export_chrome_trace("odd.json")
    assert {name, "aten::cos"} <= names_in("odd.json")
    content = json.loads(Path("odd.json").read_text())
    assert content["said"] == "in the child"
    assert content["kinetoscope"]["options"]["recorder"] == "kineto"


def export_of_what_the_parent_recorded() -> None:
    PARENTS.export_chrome_trace("parents.json")
    assert "aten::mm" in names_in("parents.json")
    assert "aten::mm" in PARENTS.key_averages().table()


def stacks() -> None:
    recorded(with_stack=True).export_stacks("child.txt", "self_cpu_time_total")
    assert "work" in Path("child.txt").read_text()


def handler_and_schedule() -> None:
    write = tensorboard_trace_handler("board", worker_name="child", use_gzip=True)
    plan = schedule(wait=0, warmup=1, active=2, repeat=2)
    with profile(activities=CPU, schedule=plan, on_trace_ready=write, acc_events=True) as prof:
        for _ in range(6):
            work()
            prof.step()
    assert len(list(Path("board").glob("child.*.pt.trace.json.gz"))) == 2
    assert prof.step_num == 6


def metadata() -> None:
    with profile(activities=CPU) as prof:
        prof.add_metadata("one", "1")
        prof.add_metadata_json("two", "[2]")
        prof.preset_metadata_json("three", "3")
        work()
    prof.export_chrome_trace("metadata.json")
    assert json.loads(Path("metadata.json").read_text())["two"] == [2]


def memory_timeline() -> None:
    prof = recorded(record_shapes=True, profile_memory=True, with_stack=True)
    prof.export_memory_timeline("memory.json", device="cpu")
    assert len(json.loads(Path("memory.json").read_text())) == 2


def execution_trace() -> None:
    observer = kinetoscope.ExecutionTraceObserver().register_callback("graph.json")
    with profile(activities=CPU, execution_trace_observer=observer):
        work()
    assert any(node["name"] == "aten::mm" for node in json.loads(Path("graph.json").read_text())["nodes"])


def torchs_object() -> None:
    prof = recorded(record_shapes=True)
    prof.profiler.kineto_results.save("saved.json")
    assert "aten::mm" in names_in("saved.json")
    assert prof.profiler.self_cpu_time_total > 0 and prof.profiler.table()
    assert prof._stats().number_of_events > 0


def forked_again() -> None:
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)
        events()
        export_gz()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def refused(call: Callable[[], object]) -> Callable[[], None]:
    def check() -> None:
        with pytest.raises(kinetoscope.ForkedProcessError, match="export_chrome_trace.* spawn|'spawn'"):
            call()

    return check


CALLS: dict[str, Callable[[], None]] = {
    "events": events,
    "table": table,
    "export json": export_json,
    "export json.gz": export_gz,
    "export of a name that Kineto garbles": export_of_a_name_that_kineto_garbles,
    "export of what the parent recorded": export_of_what_the_parent_recorded,
    "stacks": stacks,
    "handler and schedule": handler_and_schedule,
    "metadata": metadata,
    "memory timeline": memory_timeline,
    "execution trace": execution_trace,
    "torch's object": torchs_object,
    "forked again": forked_again,
    "trace": refused(lambda: recorded().trace),
    "read": refused(lambda: kinetoscope.read("parent.parquet")),
    "a new trace": refused(lambda: kinetoscope.Trace(pl.DataFrame())),
    "the parent's trace, events": refused(lambda: PARENTS_TRACE.events),
    "the parent's trace, sql": refused(lambda: PARENTS_TRACE.sql("select count(*) from events")),
    "the parent's trace, write": refused(lambda: PARENTS_TRACE.write("again.parquet")),
    "the parent's trace, averages": refused(lambda: PARENTS_TRACE.key_averages()),
    "the parent's trace, part": refused(lambda: PARENTS_TRACE.part(rank=0)),
    "the parent's trace, anonymized": refused(lambda: PARENTS_TRACE.anonymized()),
    "the parent's trace, repr": refused(lambda: repr(PARENTS_TRACE)),
    "the parent's trace, pandas": refused(lambda: PARENTS_TRACE.to_pandas()),
    "frame of averages": refused(lambda: recorded().key_averages().to_polars()),
}


def in_child(call: Callable[[], None], report: Path) -> str:
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)
        try:
            call()
        except BaseException:
            report.write_text(traceback.format_exc())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "never ended" if os.WTERMSIG(status) == signal.SIGALRM else f"died by signal {os.WTERMSIG(status)}"
    return "fine" if status == 0 else "failed"


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    PARENTS = recorded(record_shapes=True)
    PARENTS.export_chrome_trace("parent.json.gz")
    PARENTS_TRACE = PARENTS.trace
    PARENTS_TRACE.write("parent.parquet")
    assert PARENTS_TRACE.events.group_by("name").len().height > 0
    for name, call in CALLS.items():
        report = Path("report.txt")
        report.write_text("")
        outcome = in_child(call, report)
        print(json.dumps({"call": name, "outcome": outcome, "said": report.read_text()}), flush=True)
    os._exit(0)
