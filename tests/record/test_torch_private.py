from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

from kinetoscope.record import torch_private


def test_every_public_name_is_there() -> None:
    assert [name for name in torch_private.__all__ if not hasattr(torch_private, name)] == []


def test_enums_are_torchs_own() -> None:
    assert torch_private.ProfilerActivity is torch.profiler.ProfilerActivity
    assert torch_private.DeviceType is torch.profiler.DeviceType
    assert torch_private.record_function is torch.profiler.record_function
    assert torch_private.KinetoStepTracker is torch.profiler.KinetoStepTracker
    assert torch_private.itt is torch.profiler.itt
    assert torch_private.kineto_available() is torch.profiler.kineto_available() is True


def record(**options: object) -> list[str]:
    """Record one addition through the private calls alone; return the names of its events."""
    config = torch_private.ProfilerConfig(
        torch_private.ProfilerState.KINETO, False, False, False, False, False, torch_private.ExperimentalConfig(), ""
    )
    activities = {torch_private.ProfilerActivity.CPU}
    torch_private.prepare_profiler(config, activities, **options)  # type: ignore[arg-type]
    torch_private.enable_profiler(config, activities)
    try:
        assert torch_private.profiler_active()
        torch.ones(2)
        torch_private.toggle_collection_dynamic(False, activities)
        torch.zeros(2)
        torch_private.toggle_collection_dynamic(True, activities)
        torch.eye(2)
    finally:
        result = torch_private.disable_profiler()
    assert not torch_private.profiler_active()
    return [event.name() for event in result.events()]


def test_the_engine_records_and_collection_toggles() -> None:
    names = record()
    assert "aten::ones" in names and "aten::eye" in names
    assert "aten::zeros" not in names


def test_filters_reach_the_engine_or_are_refused() -> None:
    filters = {torch_private.ProfilerActivity.CPU: {"USER_ANNOTATION"}}
    if torch_private.SUPPORTS_ACTIVITY_FILTERS:
        record(activity_filters=filters)
    else:
        with pytest.raises(RuntimeError, match=re.escape(torch.__version__)):
            record(activity_filters=filters)
        assert not torch_private.profiler_active()


def test_a_profiler_of_torch_is_seen() -> None:
    assert not torch_private.profiler_active()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert torch_private.profiler_active()
    with torch.autograd.profiler.profile(use_kineto=True):
        assert torch_private.profiler_active()
    assert not torch_private.profiler_active()


def test_kineto_was_not_stopped() -> None:
    assert torch_private.is_kineto_stopped() is False


def test_cuda_graphs_are_read_from_inductors_configuration() -> None:
    from torch._inductor import config

    for value in (True, False):
        with config.patch("triton.cudagraphs", value):
            assert torch_private.cuda_graphs_enabled() is value


@pytest.mark.parametrize(("cuda", "needed"), [("12.4", True), ("11.8", True), ("12.6", False), ("13.0", False), (None, False)])
def test_old_cuda_needs_cupti_kept(cuda: str | None, needed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._utils_internal as internal

    monkeypatch.setattr(torch.version, "cuda", cuda)
    name = "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12"
    monkeypatch.setattr(internal, name, lambda: True, raising=False)
    assert torch_private.cuda_graphs_need_cupti_kept() is needed
    monkeypatch.setattr(internal, name, lambda: False)
    assert torch_private.cuda_graphs_need_cupti_kept() is True
    monkeypatch.delattr(internal, name)
    assert torch_private.cuda_graphs_need_cupti_kept() is True


def test_no_inductor_no_generated_files() -> None:
    program = "from kinetoscope.record import torch_private as p; print(p.inductor_source_files())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
