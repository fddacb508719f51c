from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

import kinetoscope
from kinetoscope.record import distributed, torch_private
from kinetoscope.record.distributed import distributed_info, json_safe


@pytest.fixture
def gloo(tmp_path: Path) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def _fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "_warned", set())


def test_nothing_outside_a_distributed_run() -> None:
    assert distributed_info() is None


def test_the_facts_are_those_of_torchs_profiler(gloo: None) -> None:
    info = distributed_info()
    assert info is not None
    assert (info["backend"], info["rank"], info["world_size"], info["pg_count"]) == ("gloo", 0, 1, 1)
    assert info["pg_config"][0]["ranks"] == [0]
    theirs = torch.profiler.profile()._get_distributed_info()
    assert info == json.loads(json.dumps(theirs))


def test_a_fact_that_fails_is_left_out_with_one_warning(gloo: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[dict[str, object]]:
        raise ValueError("no such group")

    monkeypatch.setattr(torch_private, "all_process_group_configs", broken)
    with pytest.warns(UserWarning, match="pg_config.*no such group") as caught:
        first, second = distributed_info(), distributed_info()
    assert len(caught) == 1
    assert first == second and first is not None
    assert set(first) == {"backend", "rank", "world_size", "pg_count"}


def test_nccl_tells_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_backend", lambda: "nccl")
    monkeypatch.setattr(dist, "get_rank", lambda: np.int64(3))
    monkeypatch.setattr(dist, "get_world_size", lambda: 8)
    monkeypatch.setattr(dist, "get_pg_count", lambda: 2)
    monkeypatch.setattr(torch_private, "all_process_group_configs", lambda: [{"ranks": np.arange(2)}])
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 21, 5))
    assert distributed_info() == {
        "backend": "nccl",
        "rank": 3,
        "world_size": 8,
        "pg_count": 2,
        "pg_config": [{"ranks": [0, 1]}],
        "nccl_version": "2.21.5",
    }


def test_a_torch_that_cannot_say_anything_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> bool:
        raise RuntimeError("half initialised")

    monkeypatch.setattr(dist, "is_initialized", broken)
    with pytest.warns(UserWarning, match="half initialised"):
        assert distributed_info() is None


def test_everything_becomes_json() -> None:
    value = {
        1: np.int32(7),
        "float": np.float32(0.5),
        "array": np.array([[1, 2], [3, 4]]),
        "tuple": (True, None, "text"),
        "bytes": b"x",
        "numpy bool": np.bool_(True),
    }
    safe = json_safe(value)
    assert safe == {
        "1": 7,
        "float": 0.5,
        "array": [[1, 2], [3, 4]],
        "tuple": [True, None, "text"],
        "bytes": "b'x'",
        "numpy bool": True,
    }
    assert json.loads(json.dumps(safe)) == safe


RANK = """
import sys
import torch
import torch.distributed as dist
import kinetoscope

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2)
with kinetoscope.profile(activities=[kinetoscope.ProfilerActivity.CPU], record_shapes=True) as prof:
    x = torch.full((8,), float(rank))
    dist.all_reduce(x)
assert x.tolist() == [1.0] * 8
prof.export_chrome_trace(f"{folder}/rank{rank}.json")
prof.trace.write(f"{folder}/rank{rank}.parquet")
dist.destroy_process_group()
"""


def test_each_rank_of_a_run_knows_itself(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path)], stderr=subprocess.PIPE) for rank in range(2)
    ]
    for process in ranks:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said.decode()
    for rank in range(2):
        for suffix in ("json", "parquet"):
            trace = kinetoscope.read(tmp_path / f"rank{rank}.{suffix}")
            assert trace.metadata.distributed is not None
            assert (trace.metadata.rank, trace.metadata.distributed["world_size"]) == (rank, 2)
            assert trace.metadata.distributed["pg_config"][0]["ranks"] == [0, 1]
            assert trace.events["rank"].unique().to_list() == [rank]
            assert "gloo:all_reduce" in trace.events["name"].to_list()
