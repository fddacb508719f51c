"""Stacks added up: against a plain walk over the rows, and in the formats of others."""

from __future__ import annotations

import gzip
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinetoscope
from kinetoscope.analyze.call_tree import METRICS, call_tree
from kinetoscope.cli.main import main
from kinetoscope.trace.nesting import nested
from kinetoscope.trace.trace import Trace

TRACES = Path(__file__).parent.parent / "data" / "traces"
Stacks = dict[tuple[str, ...], list[int]]


def trace_of(rows: list[dict[str, Any]]) -> Trace:
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))
    return Trace(nested(Trace(frame).events))


def row(name: str | None, start: int, duration: int | None, category: str = "cpu_op", **others: Any) -> dict[str, Any]:
    return {"name": name, "phase": "X" if duration is not None else "i", "category": category, "start_ns": start,
            "duration_ns": duration, "process": 1, "thread": 1, **others}  # fmt: skip


def stacks_of(trace: Trace) -> Stacks:
    """From the root to the innermost frame -> cpu, device, bytes, calls; stacks without any value left out."""
    tree = call_tree(trace)
    found = {}
    for node in tree.nodes.iter_rows(named=True):
        values = [node[column] for column in METRICS.values()]
        if any(values):
            stack = tuple(reversed(tree.frames(node["node"])))
            assert stack not in found
            found[stack] = values
    return found


def plain_stacks(trace: Trace) -> Stacks:
    """The same by a walk from each row to its parents, one at a time."""
    rows = {one["id"]: one for one in trace.events.to_dicts()}
    totals: Stacks = defaultdict(lambda: [0, 0, 0, 0])
    device = {"kernel", "gpu_memcpy", "gpu_memset"}

    def stack(one: dict[str, Any] | None) -> tuple[str, ...]:
        if one is None:
            return ()
        above = stack(rows.get(one["parent"]))
        has_text = any(ancestor["stack"] for ancestor in ancestors(one))
        text = tuple(reversed((one["stack"] or "").split("\n"))) if one["stack"] and not has_text else ()
        return (*above, *text, one["name"] or "(no name)")

    def ancestors(one: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        while one["parent"] is not None:
            one = rows[one["parent"]]
            found.append(one)
        return found

    for one in rows.values():
        if one["duration_ns"] is not None and one["category"] not in device:
            children = sum(other["duration_ns"] or 0 for other in rows.values() if other["parent"] == one["id"])
            totals[stack(one)][0] += max(one["duration_ns"] - children, 0)
            totals[stack(one)][3] += 1
        elif one["category"] in device:
            calls = [other for other in rows.values() if other["category"] == "cuda_runtime" and one["correlation"] is not None
                     and one["correlation"] > 0 and other["correlation"] == one["correlation"]]  # fmt: skip
            operators = [other for other in rows.values() if other["category"] == "cpu_op" and one["external_id"] is not None
                         and one["external_id"] > 0 and other["external_id"] == one["external_id"]]  # fmt: skip
            launcher = (calls or operators or [None])[0]
            at = (*stack(launcher), one["name"] or "(no name)")
            totals[at][1] += one["duration_ns"]
            totals[at][3] += 1
        elif (one["bytes"] or 0) > 0:
            totals[stack(rows.get(one["parent"])) or (one["name"] or "(no name)",)][2] += one["bytes"]
    return {at: values for at, values in totals.items() if any(values)}


names = st.none() | st.sampled_from(["a", "b", "c;d"])
links = st.none() | st.integers(-1, 2)
times = st.integers(0, 15)
threads = st.integers(1, 2)
texts = st.sampled_from([None, None, "in.py(3): f\nout.py(1): <module>", "out.py(1): <module>"])
kinds = st.sampled_from(["cpu_op", "python_function", "cuda_runtime"])
host = st.builds(row, names, times, times, kinds, thread=threads, correlation=links, external_id=links, stack=texts)
stream = {"process": st.just(0), "thread": st.just(7), "stream": st.just(7)}
kernels = st.builds(row, names, times, times, st.just("kernel"), correlation=links, external_id=links, **stream)
sizes = st.integers(-9, 9)
memory = st.builds(row, st.just("[memory]"), times, st.none(), st.just("cpu_instant_event"), bytes=sizes, thread=threads)


@settings(deadline=None, max_examples=200)
@given(st.lists(host | kernels | memory, min_size=1, max_size=14))
def test_equals_a_plain_walk(rows: list[dict[str, Any]]) -> None:
    trace = trace_of(rows)
    assert stacks_of(trace) == plain_stacks(trace)


def test_steps_are_one_frame() -> None:
    trace = trace_of([row(f"ProfilerStep#{number}", 10 * number, 5, "user_annotation") for number in range(3)])
    assert stacks_of(trace) == {("ProfilerStep*",): [15, 0, 0, 3]}


def test_correlation_ids_count_within_a_rank() -> None:
    trace = trace_of(
        [
            row("launch 0", 0, 5, "cuda_runtime", correlation=1, rank=0),
            row("launch 1", 0, 5, "cuda_runtime", correlation=1, rank=1, process=2),
            row("kernel", 9, 7, "kernel", correlation=1, rank=1, process=0, thread=7, stream=7),
        ]
    )
    assert stacks_of(trace)["launch 1", "kernel"] == [0, 7, 0, 1]


@pytest.mark.parametrize("name", ["h100_qwen_0.5b", "nvidia_alexnet_cuda_sync", "amd_mi250_toy_train", "torch_compile_triton"])
def test_sums_of_real_traces(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = kinetoscope.read(TRACES / f"{name}.json.gz")
    nodes = call_tree(trace).nodes
    work = trace.events.filter(pl.col("category").is_in(["kernel", "gpu_memcpy", "gpu_memset"]))
    assert nodes["device_ns"].sum() == work["duration_ns"].sum() > 0
    allocated = trace.events.filter((pl.col("bytes") > 0) & (pl.col("category") == "cpu_instant_event"))["bytes"].sum()
    assert nodes["bytes"].sum() == allocated
    assert (nodes["parent"].fill_null(-1) < nodes["node"]).all()
    stacks = nodes.select("parent", "frame")
    assert stacks.n_unique() == stacks.height


def test_operators_self_times_are_those_of_the_averages() -> None:
    trace = kinetoscope.read(TRACES / "nvidia_ns_resolution_train.json.gz")
    nodes = call_tree(trace).nodes
    own = nodes.filter(pl.col("frame") == "aten::addmm")["cpu_ns"].sum()
    (average,) = [one for one in trace.key_averages() if one.key == "aten::addmm"]
    assert own / 1000 == pytest.approx(average.self_cpu_time_total, abs=0.01)


def test_collapsed_stacks_of_each_metric(tmp_path: Path) -> None:
    trace = trace_of(
        [
            row("outer", 0, 10_000),
            row("in;ner", 1000, 4000),
            row("launch", 2000, 1000, "cuda_runtime", correlation=1),
            row("[memory]", 2500, None, "cpu_instant_event", bytes=64),
            row("kernel", 9, 7000, "kernel", correlation=1, process=0, thread=7, stream=7),
        ]
    )
    lines = {}
    for metric in METRICS:
        trace.write(tmp_path / "x.folded", metric=metric)
        lines[metric] = (tmp_path / "x.folded").read_text().splitlines()
    assert lines["self_cpu_time_total"] == ["outer 6", "outer;in:ner 3", "outer;in:ner;launch 1"]
    assert lines["self_device_time_total"] == ["outer;in:ner;launch;kernel 7"]
    assert lines["bytes"] == ["outer;in:ner;launch 64"]
    assert lines["calls"] == ["outer 1", "outer;in:ner 1", "outer;in:ner;launch 1", "outer;in:ner;launch;kernel 1"]
    trace.write(tmp_path / "y.collapsed")
    assert (tmp_path / "y.collapsed").read_text().splitlines() == lines["self_cpu_time_total"]
    with pytest.raises(ValueError, match="self_device_time_total, bytes, calls"):
        trace.write(tmp_path / "x.folded", metric="nonsense")


def varints(data: bytes) -> list[int]:
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            found.append(value)
            value, shift = 0, 0
    assert shift == 0
    return found


def message(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message: number -> values, integers or bytes."""
    fields: dict[int, list[Any]] = defaultdict(list)
    at = 0

    def number() -> int:
        nonlocal at
        end = at
        while data[end] & 0x80:
            end += 1
        (value,) = varints(data[at : end + 1])
        at = end + 1
        return value

    while at < len(data):
        key = number()
        value: Any = number()
        assert key & 7 in (0, 2)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        fields[key >> 3].append(value)
    return fields


def test_pprof_holds_every_stack_with_all_values(tmp_path: Path) -> None:
    trace = kinetoscope.read(TRACES / "h100_qwen_0.5b.json.gz")
    trace.write(tmp_path / "x.pb.gz")
    profile = message(gzip.decompress((tmp_path / "x.pb.gz").read_bytes()))
    texts = [text.decode() for text in profile[6]]
    assert texts[0] == ""
    types = [tuple(texts[one[key][0]] for key in (1, 2)) for one in map(message, profile[1])]
    assert types == [("cpu", "nanoseconds"), ("device", "nanoseconds"), ("allocated", "bytes"), ("calls", "count")]
    functions = {one[1][0]: (texts[one[2][0]], texts[one[4][0]]) for one in map(message, profile[5])}
    frames = {}
    for one in map(message, profile[4]):
        (line,) = map(message, one[4])
        name, file = functions[line[1][0]]
        frames[one[1][0]] = f"{file}({line[2][0]}): {name}" if file else name
    samples = {}
    for one in map(message, profile[2]):
        stack = tuple(frames[number] for number in reversed(varints(one[1][0])))
        samples[stack] = varints(one[2][0])
    assert samples == stacks_of(trace)
    assert any(file.endswith(".py") for _, file in functions.values())


def test_the_command_writes_flame_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = str(TRACES / "nvidia_alexnet_cuda_sync.json.gz"), tmp_path / "x.folded"
    assert main(["convert", trace, str(out), "--metric", "calls"]) == 0
    assert sum(int(line.rsplit(" ", 1)[1]) for line in out.read_text().splitlines()) > 100
    capsys.readouterr()
    assert main(["convert", trace, str(out), "--metric", "nonsense"]) == 2
    assert "choose one of self_cpu_time_total" in capsys.readouterr().err
    assert main(["convert", trace, str(tmp_path / "x.json"), "--metric", "calls"]) == 2
    assert ".folded" in capsys.readouterr().err
