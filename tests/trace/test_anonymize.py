"""What is shared with others names nobody."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import kinetoscope
from kinetoscope.trace.metadata import Metadata, ProcessInfo, ThreadInfo
from kinetoscope.trace.public_names import CATEGORIES
from kinetoscope.trace.schema import SCHEMA
from kinetoscope.trace.trace import Trace

TRACES = Path(__file__).parent.parent / "data" / "traces"
TEXTS = [name for name, dtype in SCHEMA.items() if dtype == pl.String]
SECRET = "zebra"

# A secret where texts have places for one: files, functions, modules, annotations, kernels, arguments.
secrets = st.sampled_from(
    [
        "zebra",
        "/home/zebra/train.py(12): zebra_step",
        "zebra/model.py(3): forward",
        "torch/nn/modules/zebra/../module.py(3): zebra".replace("torch", "zebra"),
        "nn.Module: Zebra_0",
        "ZebraBackward",
        "zebra::matmul",
        "autograd::engine::evaluate_function: ZebraBackward",
        "Optimizer.step#Zebra.step",
        "<built-in method zebra of PyCapsule object at 0x7f00>",
        "<built-in function zebra>",
        "<built-in method step of Zebra object at 0x7f00>",
        "zebra_kernel<float>(float*)",
        "nccl:zebra of one".replace("nccl:", "my nccl "),
        "Zebra: 123",
        "12 zebra",
        "aten::add zebra".replace("aten::", ""),
        '{"zebra": 1}',
        '{"zebra": {"zebra": ["zebra", 1, {"name": "zebra"}]}, "stream": "zebra", "Trace name": "zebra"}',
        '["zebra", 1, [2, 3]]',
        '"zebra"',
        '{"cut": "zebra',
        "zebra\nzebra.py(1): f",
        "python zebra",
        "thread 12 (zebra)",
        "ProfilerStep#zebra",
    ]
)


def text_of(trace: Trace, folder: Path) -> str:
    trace.write(folder / "shared.json")
    return (folder / "shared.json").read_text(encoding="utf-8").lower()


@settings(deadline=None)
@given(rows=st.lists(st.tuples(st.sampled_from([None, *sorted(CATEGORIES), "zebra"]), secrets, st.data()), max_size=5))
def test_no_planted_name_comes_through(
    rows: list[tuple[str | None, str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    columns: dict[str, list[Any]] = {name: [] for name in TEXTS}
    for category, name, data in rows:
        for column in TEXTS:
            columns[column].append(data.draw(st.none() | secrets))
        columns["category"][-1], columns["name"][-1] = category, name
        columns["phase"][-1] = data.draw(st.sampled_from(["X", "i", "C", "s"]))
    height = len(rows)
    events = pl.DataFrame(columns, schema=dict.fromkeys(TEXTS, pl.String)).with_columns(
        id=pl.int_range(height, dtype=pl.Int64), start_ns=pl.lit(0, dtype=pl.Int64), duration_ns=pl.lit(1, dtype=pl.Int64)
    )
    metadata = Metadata(
        trace_id="zebra",
        trace_name="zebra",
        host_name="zebra",
        versions={"torch": "2.13.0+zebra", "zebra": "1"},
        device_properties=[{"name": "Zebra GPU", "zebra": 1, "numSms": 3}],
        distributed={"backend": "zebra", "rank": 1, "pg_config": [{"pg_name": "zebra", "zebra": "zebra"}]},
        options={"recorder": "zebra", "zebra": True},
        processes=[ProcessInfo(1, "zebra", "zebra", 1)],
        threads=[ThreadInfo(1, 2, "zebra 1")],
        text_ids={"-5": "zebra"},
        user={"zebra": "zebra", "rank": {"zebra": ["zebra"]}},
        source={"zebra": "zebra", "INFO": ["INFO: host zebra"], "schemaVersion": 1},
    )
    folder = tmp_path_factory.mktemp("shared")
    shared = Trace(events, metadata).anonymized()
    assert SECRET not in text_of(shared, folder)
    shared.write(folder / "shared.ndjson")
    assert SECRET not in (folder / "shared.ndjson").read_text(encoding="utf-8").lower()
    assert SECRET not in json.dumps(shared.metadata.user | shared.metadata.source)


FILES = sorted(path.name.removesuffix(".json.gz") for path in TRACES.glob("*.json.gz"))


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(("execution_trace", "timeline.raw"))])
def test_real_traces_keep_their_numbers_and_torchs_names(name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = kinetoscope.read(TRACES / f"{name}.json.gz")
    shared = trace.anonymized(key="one")
    numbers = [column for column, dtype in SCHEMA.items() if dtype != pl.String]
    assert_frame_equal(shared.events.select(numbers), trace.events.select(numbers))
    for column in ("phase", "category", "device_type", "input_shapes", "input_strides"):
        assert shared.events[column].equals(trace.events[column]), column
    public = (
        trace.events["name"]
        .str.contains(r"^(aten::|cuda[A-Z]|void at::native|ProfilerStep#\d+$|Mem(cpy|set))")
        .fill_null(False)
    )
    assert shared.events["name"].filter(public).equals(trace.events["name"].filter(public))
    # One name for one name: tables of the shared trace have as many rows.
    for columns in (["category", "name"], ["args"], ["stack"]):
        assert shared.events.select(columns).n_unique() == trace.events.select(columns).n_unique(), columns
    text = text_of(shared, tmp_path)
    for people in ("/home/", "user001", "placeholder", "fbapredictor", "penv#"):
        assert people not in text


def test_names_agree_between_traces_of_one_key() -> None:
    frame = pl.DataFrame({"name": ["mine", "mine", "yours"], "category": ["user_annotation"] * 3, "start_ns": [0, 1, 2]})
    first, second = (Trace(frame).anonymized(key="k").events["name"].to_list() for _ in range(2))
    other, again = (Trace(frame).anonymized().events["name"].to_list() for _ in range(2))
    assert first == second and first[0] == first[1] != first[2]
    assert len({first[0], other[0], again[0]}) == 3
    assert all(name.startswith("annotation_") for name in first)


def test_frames_of_public_packages_are_shown_without_their_place() -> None:
    names = [
        "/home/ann/env/lib/python3.11/site-packages/torch/nn/modules/linear.py(116): forward",
        "torch/nn/modules/module.py(1501): _call_impl",
        "threading.py(999): run",
        "/home/ann/train.py(7): secret",
        "train.py(9): <module>",
        "nn.Module: Linear_3",
        "<built-in method linear of type object at 0x7f0011>",
        "<built-in function len>",
    ]
    frame = pl.DataFrame({"name": names, "category": ["python_function"] * len(names), "start_ns": list(range(len(names)))})
    shown = Trace(frame).anonymized(key="k").events["name"].to_list()
    assert shown[:3] == ["torch/nn/modules/linear.py(116): forward", names[1], names[2]]
    assert shown[3].startswith("file_") and shown[3].split(".py")[1].startswith("(7): function_")
    assert shown[4].startswith("file_") and shown[4].endswith(".py(9): <module>")
    assert shown[5:] == names[5:]
