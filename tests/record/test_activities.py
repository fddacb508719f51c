from __future__ import annotations

import pytest
import torch

from kinetoscope.record import torch_private
from kinetoscope.record.activities import ProfilerActivity, parse_activities, supported_activities, use_device_of

CPU, CUDA, XPU, MTIA = (ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU, ProfilerActivity.MTIA)


def test_the_activities_are_torchs_own() -> None:
    assert ProfilerActivity is torch.profiler.ProfilerActivity
    assert supported_activities() == torch.profiler.supported_activities()
    assert CPU in supported_activities()


def test_the_set_is_the_callers_to_change() -> None:
    supported_activities().clear()
    assert CPU in supported_activities()


def test_plain_activities() -> None:
    assert parse_activities([CPU, CUDA]) == ({CPU, CUDA}, {})
    assert parse_activities({CPU}) == ({CPU}, {})
    assert parse_activities(activity for activity in (CUDA, CPU)) == ({CPU, CUDA}, {})
    assert parse_activities([]) == (set(), {})


needs_filters = pytest.mark.skipif(not torch_private.SUPPORTS_ACTIVITY_FILTERS, reason="this torch has no filters")


@needs_filters
def test_filters_are_kept_beside_the_set() -> None:
    chosen, filters = parse_activities([CPU, {CUDA: ["GPU_MEMCPY", "KERNEL", "KERNEL"], XPU: []}])
    assert chosen == {CPU, CUDA, XPU}
    assert filters == {CUDA: {"GPU_MEMCPY", "KERNEL"}, XPU: set()}


@needs_filters
def test_unknown_activity_types_are_for_the_engine_to_judge() -> None:
    assert parse_activities([{CPU: ["NO_SUCH_TYPE"]}])[1] == {CPU: {"NO_SUCH_TYPE"}}


@pytest.mark.skipif(torch_private.SUPPORTS_ACTIVITY_FILTERS, reason="this torch has filters")
def test_a_torch_without_filters_says_so() -> None:
    with pytest.raises(RuntimeError, match="2.13") as raised:
        parse_activities([{CPU: ["CPU_OP"]}])
    assert torch.__version__ in str(raised.value)


@pytest.mark.parametrize("activities", [[CPU, CPU], [CPU, {CPU: []}], [{CUDA: []}, {CUDA: ["KERNEL"]}], [{XPU: []}, XPU]])
def test_an_activity_given_twice(activities: list[object]) -> None:
    with pytest.raises(ValueError, match="specified more than once"):
        parse_activities(activities)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("activities", "named"),
    [
        (["CPU"], "CPU"),
        ([1], "int"),
        ([None], "NoneType"),
        ([{"CPU": []}], "str"),
        ([{CPU: "CPU_OP"}], "CPU_OP"),
        (CPU, r"\[<ProfilerActivity.CPU"),
        ("CPU", "CPU"),
        ({CPU: []}, "list"),
    ],
)
def test_what_is_no_activity_is_named(activities: object, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        parse_activities(activities)  # type: ignore[arg-type]


def test_the_device_follows_the_activities() -> None:
    assert use_device_of([]) is None
    assert use_device_of({CPU}) is None
    assert use_device_of({CPU, CUDA}) == "cuda"
    assert use_device_of({CPU, XPU, CUDA}) == "cuda"
    assert use_device_of({XPU, MTIA}) == "xpu"
    assert use_device_of({MTIA}) == "mtia"
    assert use_device_of({CPU, ProfilerActivity.PrivateUse1}) == torch._C._get_privateuse1_backend_name()
    if hasattr(ProfilerActivity, "HPU"):
        assert use_device_of({ProfilerActivity.HPU}) == "hpu"
