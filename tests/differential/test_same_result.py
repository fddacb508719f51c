"""One raw Kineto result through torch's own code and through ours: the same events, averages and tables."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import kinetoscope
from kinetoscope.record import torch_private
from kinetoscope.record.flops import counting as flops

from .compare import GROUPINGS, STACK, differing_averages, differing_events, differing_tables, stock
from .programs import PROGRAMS, before_memory

VERBOSE = torch_private.ExperimentalConfig(verbose=True)

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "shapes and memory": {"record_shapes": True, "profile_memory": True},
    "stacks": {"with_stack": True, "experimental_config": VERBOSE},
    "everything": {
        "record_shapes": True,
        "profile_memory": True,
        "with_stack": True,
        "with_modules": True,
        "with_flops": True,
        "experimental_config": VERBOSE,
    },
}


def record(program: str, options: dict[str, Any]) -> tuple[kinetoscope.profile, Any]:
    """Record a program; gives our profiler and torch's over the same result."""
    # Once without: what torch imports at first use is the same for both, and some of it torch cannot name afterwards.
    PROGRAMS[program]()
    before_memory()
    with kinetoscope.profile(activities=[kinetoscope.ProfilerActivity.CPU], **options) as ours:
        PROGRAMS[program]()
    assert ours.profiler is not None
    return ours, stock(ours.profiler.kineto_results, **options)


@pytest.fixture
def without_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """FLOPs as torch's C++ counts them: ours cover more operators."""
    monkeypatch.setattr(flops, "has_formula", lambda name: False)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_answers_equal_torch(program: str, options: dict[str, Any], without_formulas: None) -> None:
    ours, theirs = record(program, options)
    leave_out = () if options.get("with_stack") else STACK
    assert len(theirs.function_events) > 0
    assert differing_events(ours.events(), theirs.function_events, leave_out) == []
    assert differing_tables(ours.events(), theirs.function_events) == []
    for grouping in GROUPINGS:
        our_rows, their_rows = ours.key_averages(**grouping), theirs.key_averages(**grouping)
        assert differing_averages(our_rows, their_rows) == [], grouping
        assert differing_tables(our_rows, their_rows) == [], grouping
    assert ours.events().self_cpu_time_total == theirs.function_events.self_cpu_time_total
    assert ours.key_averages().self_cpu_time_total == theirs.key_averages().self_cpu_time_total
    assert differing_averages([ours.events().total_average()], [theirs.function_events.total_average()]) == []
    assert differing_averages([ours.key_averages().total_average()], [theirs.key_averages().total_average()]) == []
