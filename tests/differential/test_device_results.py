"""Device recordings through torch's code and ours, made from real traces of machines with devices."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from kinetoscope.record.answers import Answers, Window
from kinetoscope.record.event_list import LISTS_PYTHON_FUNCTIONS
from kinetoscope.record.kineto.result import KinetoResult
from kinetoscope.record.options import RecordOptions

from .compare import GROUPINGS, STACK, differing_averages, differing_events, differing_tables, stock
from .fake_result import FakeResult

TRACES = Path(__file__).parent.parent / "data" / "traces"
FILES = ["nvidia_alexnet_cuda_sync", "nvidia_ns_resolution_train", "gpu_user_annotations", "h100_qwen_0.5b",
         "amd_mi250_toy_train", "vllm_decode_cudagraph", "torch_compile_triton", "sglang_decode"]  # fmt: skip
# The files say no stacks, as torch would not; ours come from their Python rows.
WITHOUT_STACKS = [grouping for grouping in GROUPINGS if not grouping["group_by_stack_n"]][:2]


@pytest.mark.parametrize("file", FILES)
def test_device_answers_equal_torch(file: str) -> None:
    result = FakeResult(TRACES / f"{file}.json.gz", most=4000)
    options = RecordOptions(
        use_device="cuda", activities=("CPU", "CUDA"), record_shapes=True, profile_memory=True, with_stack=True
    )
    ours = Answers([Window(KinetoResult(result, options), options)], profile_memory=True, with_flops=False)
    theirs = stock(result, use_device="cuda", record_shapes=True, profile_memory=True)
    assert any(event.kernels for event in theirs.function_events)
    assert differing_events(ours.events, theirs.function_events, STACK) == []
    for grouping in WITHOUT_STACKS:
        our_rows = ours.key_averages(
            grouping["group_by_input_shape"], grouping["group_by_stack_n"], False, python_functions=LISTS_PYTHON_FUNCTIONS
        )
        their_rows = theirs.key_averages(**grouping)
        assert differing_averages(our_rows, their_rows) == [], grouping
        assert differing_tables(our_rows, their_rows) == [], grouping
