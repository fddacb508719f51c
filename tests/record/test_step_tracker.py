from __future__ import annotations

import subprocess
import sys

import pytest

from kinetoscope.record import step_tracker
from kinetoscope.record.torch_private import KinetoStepTracker

TRAIN = """
import os
if EARLY:
    os.environ["KINETO_USE_DAEMON"] = "1"
import torch
os.environ["KINETO_USE_DAEMON"] = "1"
from kinetoscope.record import step_tracker
step_tracker.register_optimizer_hook()
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    (weight * 2).sum().backward()
    optimizer.step()
print(torch.autograd.profiler.KinetoStepTracker.current_step())
"""


@pytest.mark.parametrize("early", [True, False], ids=["before torch", "after torch"])
def test_an_optimizer_step_counts_once(early: bool) -> None:
    """Set early, the variable makes torch.profiler register a hook too; set late, only ours is there."""
    done = subprocess.run(
        [sys.executable, "-c", TRAIN.replace("EARLY", str(early))],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == "3"


def test_the_profiler_counts_only_for_a_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KINETO_USE_DAEMON", raising=False)
    step_tracker.register_profiler()
    before = KinetoStepTracker.current_step()
    step_tracker.advance_profiler()
    assert KinetoStepTracker.current_step() == before
    monkeypatch.setenv("KINETO_USE_DAEMON", "1")
    step_tracker.advance_profiler()
    step_tracker.advance_profiler()
    assert KinetoStepTracker.current_step() == before + 2
    assert KinetoStepTracker._step_dict["ProfilerStep"] == before + 2
    step_tracker.erase_profiler()
    assert "ProfilerStep" not in KinetoStepTracker._step_dict


def test_registering_starts_at_the_furthest_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETO_USE_DAEMON", "1")
    KinetoStepTracker.increment_step("Somebody")
    step_tracker.register_profiler()
    assert KinetoStepTracker._step_dict["ProfilerStep"] == KinetoStepTracker.current_step()
    step_tracker.erase_profiler()
    KinetoStepTracker.erase_step_count("Somebody")


def test_without_a_daemon_no_hook_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KINETO_USE_DAEMON", raising=False)
    monkeypatch.setattr(step_tracker, "_hook_registered", False)
    step_tracker.register_optimizer_hook()
    assert not step_tracker._hook_registered
