"""Ids and threads count within one rank: whatever joins rows keeps ranks apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from kinetoscope.analyze.call_tree import call_tree
from kinetoscope.formats.check import remarks
from kinetoscope.formats.flows import derive
from kinetoscope.trace import links
from kinetoscope.trace.nesting import nested
from kinetoscope.trace.trace import Trace


def one_rank(rank: int, process: int, kernel_ns: int) -> list[dict[str, Any]]:
    host = {"phase": "X", "rank": rank, "process": process, "thread": process, "device_type": "cpu"}
    device = {"phase": "X", "rank": rank, "process": 0, "thread": 7, "device": 0, "stream": 7, "device_type": "cuda"}
    return [
        {**host, "name": "aten::mm", "category": "cpu_op", "start_ns": 0, "duration_ns": 100_000, "external_id": 5},
        {**host, "name": "cudaLaunchKernel", "category": "cuda_runtime", "start_ns": 10_000, "duration_ns": 5_000,
         "correlation": 9, "external_id": 5},
        {**device, "name": "gemm", "category": "kernel", "start_ns": 20_000, "duration_ns": kernel_ns, "correlation": 9,
         "external_id": 5},
    ]  # fmt: skip


def two_ranks(processes: tuple[int, int]) -> Trace:
    rows = one_rank(0, processes[0], 10_000) + one_rank(1, processes[1], 20_000)
    return Trace(nested(Trace(pl.DataFrame(rows, infer_schema_length=None)).events))


@pytest.mark.parametrize("processes", [(100, 200), (100, 100)])
def test_averages_of_two_ranks_are_the_sums_of_both(processes: tuple[int, int]) -> None:
    averages = {row.key: row for row in two_ranks(processes).key_averages()}
    assert averages["aten::mm"].count == 2
    assert averages["aten::mm"].device_time_total == pytest.approx(30)
    assert averages["aten::mm"].cpu_time_total == pytest.approx(200)
    assert averages["aten::mm"].self_cpu_time_total == pytest.approx(190)
    assert averages["cudaLaunchKernel"].count == 2
    assert averages["gemm"].self_device_time_total == pytest.approx(30)


@pytest.mark.parametrize("processes", [(100, 200), (100, 100)])
def test_nothing_is_nested_in_another_rank(processes: tuple[int, int]) -> None:
    events = two_ranks(processes).events
    assert events["parent"].to_list() == [None, 0, None, None, 3, None]


@pytest.mark.parametrize("processes", [(100, 200), (100, 100)])
def test_all_who_ask_for_launches_agree(processes: tuple[int, int]) -> None:
    trace = two_ranks(processes)
    assert links.launch_ids(trace.events).to_list() == [None, None, 1, None, None, 4]
    nodes = {row["frame"]: row for row in call_tree(trace).nodes.to_dicts()}
    assert (nodes["gemm"]["device_ns"], nodes["gemm"]["calls"]) == (30_000, 2)
    flows = derive(trace.events).filter(pl.col("category") == "ac2g")
    assert flows.group_by("flow_id", maintain_order=True).agg("rank")["rank"].to_list() == [[0, 0], [1, 1]]
    assert not [found.kind for found in remarks(trace) if "launch" in found.kind or "overlap" in found.kind]


def test_one_rank_of_two_gives_what_it_gives_alone() -> None:
    both = two_ranks((100, 100))
    alone = Trace(nested(Trace(pl.DataFrame(one_rank(1, 100, 20_000), infer_schema_length=None)).events))
    assert_frame_equal(both.part(rank=1).events, alone.events)
    assert_frame_equal(both.part(rank=1).key_averages().to_polars(), alone.key_averages().to_polars())


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(0, 3)),
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            st.one_of(st.none(), st.integers(-5, 5)),
        ),
        max_size=30,
    )
)
def test_lanes_are_equal_where_rank_process_and_thread_are(rows: list[tuple[int | None, int | None, int | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"rank": pl.Int32, "process": pl.Int64, "thread": pl.Int64}, orient="row")
    lanes = links.lane_numbers(frame)
    numbers = dict(zip(rows, lanes.tolist(), strict=True))
    assert [numbers[row] for row in rows] == lanes.tolist()
    assert sorted(set(numbers.values())) == list(range(len(numbers)))
    assert lanes.dtype == np.int64
