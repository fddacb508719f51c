"""The examples and the demo do what they say, a few steps of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("torch")

import kinetoscope
from kinetoscope.launch import demo, demo_model

from .pages import ROOT


def run(script: str, *arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *arguments],
        cwd=cwd, capture_output=True, text=True, check=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return done.stdout


def test_the_training_program_trains(tmp_path: Path) -> None:
    lines = run("char_transformer.py", "--steps", "12", cwd=tmp_path).splitlines()
    losses = {int(line.split()[1]): float(line.split()[3]) for line in lines}
    assert list(losses) == [0, 10, 11]
    assert losses[11] < losses[0]


def test_the_profiled_training_leaves_a_table_for_each_window(tmp_path: Path) -> None:
    printed = run("profile_training.py", "out", cwd=tmp_path)
    assert "aten::addmm" in printed
    traces = {path.name: kinetoscope.read(path) for path in (tmp_path / "out").glob("*.parquet")}
    assert {name: trace.metadata.steps for name, trace in traces.items()} == {
        "training-6.parquet": [3, 4, 5],
        "training-12.parquet": [9, 10, 11],
    }
    last = kinetoscope.read(tmp_path / "out" / "training.json.gz").events["name"]
    assert last.to_list().count("aten::addmm") == traces["training-12.parquet"].events["name"].to_list().count("aten::addmm")


def test_the_demo_shows_tables_and_leaves_the_trace_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "deep" / "folder"
    assert demo.run_demo(output, 5) == 0
    printed = capsys.readouterr().out
    assert "Loss " in printed
    assert "the last 2 steps were recorded" in printed
    assert str(output / "demo.parquet") in printed
    time_table, _, memory_table = printed.partition("Where the memory went")
    assert "aten::mm" in time_table
    assert "aten::empty" in memory_table

    trace = kinetoscope.read(output / "demo.parquet")
    assert trace.metadata.steps == [3, 4]
    # In each of two steps: four in each of two layers, one for the scores.
    calls = trace.events.filter(pl.col("name") == "aten::linear")
    assert len(calls) == 2 * (2 * 4 + 1)
    assert sorted(json.loads(calls["input_shapes"][0])[0]) == [32, 128, 128]
    assert trace.events.filter(pl.col("name") == "[memory]")["bytes"].max() > 0  # type: ignore[operator]
    assert kinetoscope.read(output / "demo.json.gz").metadata.steps == trace.metadata.steps


@pytest.mark.parametrize(("steps", "recorded"), [(2, 1), (3, 1), (4, 2), (20, 10), (1000, 10)])
def test_the_demo_records_the_last_half_at_most_ten(steps: int, recorded: int) -> None:
    assert demo.recorded_steps(steps) == recorded


def test_the_demo_with_two_steps_records_one(tmp_path: Path) -> None:
    assert demo.run_demo(tmp_path, 2) == 0
    assert kinetoscope.read(tmp_path / "demo.parquet").metadata.steps == [1]


def test_a_demo_that_cannot_be_run_says_why_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run_demo(tmp_path, 1) == 2
    assert capsys.readouterr().err == "kinetoscope: the demo needs at least 2 steps, one to warm up and one to record; got 1\n"
    (tmp_path / "file").write_text("")
    assert demo.run_demo(tmp_path / "file", 4) == 2
    error = capsys.readouterr().err
    assert str(tmp_path / "file") in error
    assert error.count("\n") == 1


def test_a_python_without_its_source_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.__file__", str(tmp_path / "os.py"))
    with pytest.raises(FileNotFoundError, match="no source of its standard library"):
        demo_model.standard_library_source()


def test_windows_of_characters_are_shifted_by_one() -> None:
    data = demo_model.Characters("abcab", context=3)
    assert data.alphabet == ["a", "b", "c"]
    assert len(data) == 2
    assert [part.tolist() for part in data[1]] == [[1, 2, 0], [2, 0, 1]]
    with pytest.raises(ValueError, match="too short"):
        demo_model.Characters("abc", context=3)


def test_the_demos_model_looks_only_back() -> None:
    import torch

    torch.manual_seed(0)
    model = demo_model.CharTransformer(alphabet=7, context=6, width=16, heads=2, layers=1).eval()
    numbers = torch.randint(0, 7, (1, 6))
    changed = numbers.clone()
    changed[0, -1] = (numbers[0, -1] + 1) % 7
    with torch.no_grad():
        before, after = model(numbers), model(changed)
    assert torch.allclose(before[0, :-1], after[0, :-1], atol=1e-6)
    assert not torch.allclose(before[0, -1], after[0, -1], atol=1e-3)
