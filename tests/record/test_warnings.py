"""A warning names the line of the program, not one of ours."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import kinetoscope
from kinetoscope.record import kineto_profile
from kinetoscope.record.schedule import ProfilerAction


def two_cycles() -> None:
    prof = kinetoscope.profile(schedule=kinetoscope.schedule(wait=0, warmup=1, active=1, repeat=2))
    with prof:
        for _ in range(4):
            torch.ones(2).add(1)
            prof.step()


def bad_schedule() -> None:
    actions = [ProfilerAction.RECORD, ProfilerAction.NONE, ProfilerAction.NONE]
    with kinetoscope.profile(schedule=lambda step: actions[step]) as prof:
        prof.step()


def stray_step() -> None:
    kinetoscope.profile().step()


def broken_metadata() -> None:
    with kinetoscope.profile() as prof:
        prof.add_metadata_json("key", "{")


def no_warmup() -> None:
    kinetoscope.schedule(wait=0, warmup=0, active=1)


def deprecated() -> None:
    kinetoscope.profile(use_cuda=False)


def no_stacks() -> None:
    config = torch._C._profiler._ExperimentalConfig(trace_only=True)
    kinetoscope.profile(with_stack=True, experimental_config=config)


TROUBLES: list[Callable[[], None]] = [
    two_cycles,
    bad_schedule,
    stray_step,
    broken_metadata,
    no_warmup,
    deprecated,
]
if hasattr(torch._C._profiler._ExperimentalConfig(), "trace_only"):
    TROUBLES.append(no_stacks)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_warning_names_the_users_line(trouble: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_profile, "_warned", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trouble()
    assert caught
    first = trouble.__code__.co_firstlineno
    assert {Path(warning.filename) for warning in caught} == {Path(__file__)}
    assert all(first < warning.lineno < first + 10 for warning in caught)


def test_a_file_with_faults_is_reported_at_the_users_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1, "pid": 1, "tid": 1}, {"ph":')
    with pytest.warns(UserWarning, match="read with faults") as caught:
        kinetoscope.Trace.read(path)
    assert {Path(warning.filename) for warning in caught} == {Path(__file__)}
