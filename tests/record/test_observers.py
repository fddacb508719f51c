"""Observers that raise: recording can go on, and nothing that was recorded is lost."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from kinetoscope import KinetoProfile, ProfilerActivity, profile, schedule

CPU = [ProfilerActivity.CPU]


class Observer:
    """Raises where it is told to."""

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failing:
            raise RuntimeError(f"{name} failed")

    def start(self) -> None:
        self._call("start")

    def stop(self) -> None:
        self._call("stop")

    def cleanup(self) -> None:
        self._call("cleanup")


def names(prof: Any) -> set[str]:
    return {event.name for event in prof.events()}


@pytest.mark.parametrize("kind", [KinetoProfile, profile])
def test_a_start_that_fails_is_rolled_back(kind: Any) -> None:
    observer = Observer("start")
    prof = kind(activities=CPU, execution_trace_observer=observer)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="start failed"):
            prof.start()
    # Neither this profiler nor any other is refused now.
    with profile(activities=CPU) as other:
        torch.ones(2).cos()
    assert "aten::cos" in names(other)
    observer.failing.clear()
    prof.start()
    torch.ones(2).sin()
    prof.stop()
    assert "aten::sin" in names(prof)


def test_a_start_that_fails_keeps_the_window_before_it() -> None:
    observer = Observer()
    prof = KinetoProfile(activities=CPU, execution_trace_observer=observer)
    prof.start()
    torch.ones(2).cos()
    prof.stop()
    observer.failing.add("start")
    with pytest.raises(RuntimeError, match="start failed"):
        prof.start()
    assert "aten::cos" in names(prof)


@pytest.mark.parametrize("kind", [KinetoProfile, profile])
def test_a_stop_that_fails_loses_nothing(kind: Any) -> None:
    prof = kind(activities=CPU, execution_trace_observer=Observer("stop"))
    prof.start()
    torch.ones(2).cos()
    with pytest.raises(RuntimeError, match="stop failed"):
        prof.stop()
    assert "aten::cos" in names(prof)
    assert "aten::cos" in set(prof.trace.events["name"])
    prof.stop()  # does nothing
    with profile(activities=CPU):
        pass


def test_a_stop_that_fails_within_a_schedule() -> None:
    windows: list[set[str]] = []
    observer = Observer("stop")
    prof = profile(
        activities=CPU,
        schedule=schedule(wait=0, warmup=1, active=1, repeat=2),
        on_trace_ready=lambda p: windows.append(names(p)),
        execution_trace_observer=observer,
    )
    prof.start()
    failures = 0
    for function in (torch.sin, torch.cos, torch.tan, torch.exp):
        function(torch.ones(2))
        try:
            prof.step()
        except RuntimeError:
            failures += 1
    prof.stop()
    assert failures == 2
    assert ["aten::cos" in windows[0], "aten::exp" in windows[1], len(windows)] == [True, True, 2]


def test_the_programs_own_error_comes_first() -> None:
    def failing() -> None:
        with profile(activities=CPU, execution_trace_observer=Observer("stop")):
            raise KeyError("the program's")

    with pytest.warns(UserWarning, match="could not finish"), pytest.raises(KeyError, match="the program's"):
        failing()
