from __future__ import annotations

import copy
import pickle
import warnings
from enum import Enum

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.record.schedule import ProfilerAction, as_action, default_schedule, schedule

LETTERS = {"NONE": "-", "WARMUP": "w", "RECORD": "r", "RECORD_AND_SAVE": "S"}


def plan(steps: int, **arguments: int) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = schedule(**arguments)  # type: ignore[arg-type]
    return "".join(LETTERS[chosen(step).name] for step in range(steps))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"wait": 1, "warmup": 1, "active": 2}, "-wrS-wrS-w"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, "-wrS------"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 2}, "-wrS-wrS--"),
        ({"wait": 0, "warmup": 0, "active": 1}, "SSSSSSSSSS"),
        ({"wait": 0, "warmup": 0, "active": 3, "repeat": 1}, "rrS-------"),
        ({"wait": 0, "warmup": 2, "active": 1, "skip_first": 3}, "---wwSwwSw"),
        ({"wait": 2, "warmup": 1, "active": 1, "skip_first": 1}, "---wS--wS-"),
        ({"wait": 2, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1}, "-wS--wS--w"),
        ({"wait": 2, "warmup": 1, "active": 1, "repeat": 2, "skip_first_wait": 7}, "wS--wS----"),
    ],
)
def test_steps_follow_the_cycles(arguments: dict[str, int], expected: str) -> None:
    assert plan(10, **arguments) == expected


SMALL = st.integers(0, 4)


@given(wait=SMALL, warmup=SMALL, active=st.integers(1, 4), repeat=SMALL, skip_first=SMALL, skip_first_wait=SMALL)
def test_every_schedule_agrees_with_torch(**arguments: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.profiler.schedule(**arguments)  # type: ignore[arg-type]
    assert plan(40, **arguments) == "".join(LETTERS[theirs(step).name] for step in range(40))


@pytest.mark.parametrize(
    ("name", "value"),
    [("wait", -1), ("warmup", -2), ("active", 0), ("active", -1), ("repeat", -1), ("skip_first", -3), ("skip_first_wait", -1)],
)
def test_a_wrong_argument_is_named_with_its_value(name: str, value: int) -> None:
    arguments = {"wait": 1, "warmup": 1, "active": 1, name: value}
    with pytest.raises(AssertionError, match=f"{name}={value}"):
        schedule(**arguments)  # type: ignore[arg-type]


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(AssertionError, match="-1"):
        schedule(wait=1, warmup=1, active=1)(-1)


def test_no_warmup_warns_at_the_callers_line() -> None:
    with pytest.warns(UserWarning, match="warmup") as caught:
        schedule(wait=1, warmup=0, active=1)
    assert caught[0].filename == __file__


def test_the_default_records_every_step() -> None:
    assert {default_schedule(step) for step in range(5)} == {ProfilerAction.RECORD}


@pytest.mark.parametrize("name", ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"])
def test_actions_are_as_good_as_torchs(name: str) -> None:
    ours, theirs = ProfilerAction[name], torch.profiler.ProfilerAction[name]
    assert ours == theirs and theirs == ours
    # Inequality is a method of its own.
    assert not (ours != theirs)  # noqa: SIM202
    assert not (theirs != ours)  # noqa: SIM202
    assert {theirs: "found"}[ours] == "found"  # type: ignore[index]
    assert {(theirs, None): "found"}[ours, None] == "found"  # type: ignore[index]
    assert ours.value == theirs.value
    assert as_action(theirs) is ours and as_action(ours) is ours


def test_different_actions_differ() -> None:
    assert torch.profiler.ProfilerAction.RECORD != ProfilerAction.WARMUP
    assert ProfilerAction.RECORD != 2 and ProfilerAction.RECORD != "RECORD"
    assert len(set(ProfilerAction)) == 5


def test_device_stopped_exists_whatever_torch_has() -> None:
    assert ProfilerAction.DEVICE_STOPPED.value == 4


def test_actions_survive_copying_and_pickling() -> None:
    action = ProfilerAction.RECORD_AND_SAVE
    assert copy.deepcopy(action) is action
    assert pickle.loads(pickle.dumps(action)) is action


class Other(Enum):
    RECORD = 2


@pytest.mark.parametrize("value", [None, 2, "RECORD", Other.RECORD, True])
def test_what_is_no_action_is_named(value: object) -> None:
    with pytest.raises(TypeError, match="RECORD_AND_SAVE") as raised:
        as_action(value)
    assert repr(value) in str(raised.value)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_schedule_is_asked_once_a_step(steps: int) -> None:
    from kinetoscope import ProfilerActivity, profile

    asked: list[int] = []

    def stateful(step: int) -> ProfilerAction:
        asked.append(step)
        return ProfilerAction.NONE if len(asked) % 2 else ProfilerAction.RECORD_AND_SAVE

    with profile(activities=[ProfilerActivity.CPU], schedule=stateful) as prof:
        for _ in range(steps):
            prof.step()
    assert asked == list(range(steps + 1))
    theirs: list[int] = []

    def counted(step: int) -> torch.profiler.ProfilerAction:
        theirs.append(step)
        return torch.profiler.ProfilerAction.NONE

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=counted) as stock:
        for _ in range(steps):
            stock.step()
    assert asked == theirs
    prof.start()  # a restart begins with step 0 again, and asks
    prof.stop()
    assert asked == [*range(steps + 1), 0]
