"""Execution traces: the file that an observer leaves, and when it is complete."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from kinetoscope import ExecutionTraceObserver, ProfilerActivity, profile, schedule


def names(path: Path) -> list[str]:
    content = path.read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return [node["name"] for node in document["nodes"]]


@pytest.mark.parametrize("file", ["trace.json", "trace.json.gz"])
def test_what_ran_between_start_and_stop_is_in_the_file(tmp_path: Path, file: str) -> None:
    observer = ExecutionTraceObserver()
    assert not observer.is_registered
    assert observer.register_callback(str(tmp_path / file)) is observer
    assert observer.is_registered
    assert observer.get_output_file_path() == str(tmp_path / file)
    torch.ones(2).cos()
    observer.start()
    assert observer.is_running()
    torch.ones(2).sin()
    observer.stop()
    assert not observer.is_running()
    torch.ones(2).tan()
    observer.unregister_callback()
    assert not observer.is_registered
    found = names(tmp_path / file)
    assert found.count("aten::sin") == 1
    assert not {"aten::cos", "aten::tan"} & set(found)


def test_a_profiler_drives_it_over_its_windows(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    observer = ExecutionTraceObserver().register_callback(str(path))
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=1, repeat=1),
        execution_trace_observer=observer,
    ) as prof:
        for _ in range(4):
            torch.ones(2).sin()
            prof.step()
    assert not observer.is_registered
    assert names(path).count("aten::sin") == 1


def test_a_forgotten_observer_completes_its_file(tmp_path: Path) -> None:
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "trace.json"))
    observer.start()
    torch.ones(2).sin()
    del observer
    assert "aten::sin" in names(tmp_path / "trace.json")


def test_one_observer_at_a_time(tmp_path: Path) -> None:
    first = ExecutionTraceObserver().register_callback(str(tmp_path / "first.json"))
    with pytest.warns(UserWarning, match="one observer at a time"):
        second = ExecutionTraceObserver().register_callback(str(tmp_path / "second.json"))
    assert (first.is_registered, second.is_registered) == (True, False)
    first.unregister_callback()


def test_an_output_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no"):
        ExecutionTraceObserver().register_callback(str(tmp_path / "no" / "such" / "trace.json"))


def test_the_environment_asks_for_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        torch.ones(2).sin()
    observer = prof.execution_trace_observer
    assert isinstance(observer, ExecutionTraceObserver)
    path = Path(str(observer.get_output_file_path()))
    assert path.name.endswith(".et.json")
    assert path.parent == tmp_path
    assert "aten::sin" in names(path)


def test_the_folder_of_resources_is_found_from_the_path(tmp_path: Path) -> None:
    find = ExecutionTraceObserver.get_resources_dir_for_et_path
    assert find(str(tmp_path / "trace.json")) is None
    made = find(str(tmp_path / "trace.json"), create_dir=True)
    assert made == str(tmp_path / "trace_resources")
    assert Path(made).is_dir()
    assert find(str(tmp_path / "trace.json")) == made
