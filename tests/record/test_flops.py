"""FLOPs of recorded operators are those that torch's own counter gives for the same program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import kinetoscope
from kinetoscope import ProfilerActivity, profile
from kinetoscope.record.flops import counting as flops


def backward(module: nn.Module, *shape: int) -> Callable[[], Any]:
    batch = torch.randn(*shape, requires_grad=True)
    return lambda: module(batch).sum().backward()


PROGRAMS: dict[str, Callable[[], Any]] = {
    "perceptron": backward(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), 5, 8),
    "conv1d": backward(nn.Conv1d(4, 6, 3, padding=1), 2, 4, 10),
    "conv2d groups": backward(nn.Conv2d(4, 8, 3, stride=2, groups=2), 2, 4, 9, 9),
    "conv3d": backward(nn.Conv3d(2, 3, 2), 1, 2, 4, 4, 4),
    "transposed": backward(nn.ConvTranspose2d(4, 6, 3, stride=2), 2, 4, 5, 5),
    "bmm": lambda: torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
    "baddbmm": lambda: torch.baddbmm(torch.randn(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
    "addmm": lambda: torch.addmm(torch.randn(3, 5), torch.randn(3, 4), torch.randn(4, 5)),
}


def recorded(action: Callable[[], Any]) -> int:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as prof:
        action()
    total = sum(event.flops or 0 for event in prof.events())
    assert total == sum(row.flops for row in prof.key_averages())
    return total


@pytest.mark.parametrize("action", PROGRAMS.values(), ids=PROGRAMS)
def test_the_sum_is_that_of_torchs_counter(action: Callable[[], Any]) -> None:
    with FlopCounterMode(display=False) as counter:
        action()
    # Multiplications and additions without a matrix have no formula in torch's counter, and a small one in Kineto's.
    plain = ("aten::mul", "aten::add")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as prof:
        action()
    total = sum(event.flops or 0 for event in prof.events() if event.name not in plain)
    assert total == counter.get_total_flops() > 0


def test_a_product_of_matrices_worked_by_hand() -> None:
    assert recorded(lambda: torch.mm(torch.ones(3, 4), torch.ones(4, 5))) == 2 * 3 * 4 * 5


def test_what_cannot_be_read_has_no_number() -> None:
    assert flops.has_formula("aten::mm")
    assert not flops.has_formula("aten::no_such_operator")
    shapes = ["[[3, 4], [4, 5]]", "[[3, 4]]", "[]", "no json", '[["a"], [4]]', "[[3, 4], [4, 5]"]
    assert flops.flops_of(["aten::mm"] * 6, shapes, ["[]"] * 6) == [120, None, None, None, None, None]


def test_a_formula_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kinetoscope.register_flop_formula("aten::cos", lambda shape, *rest: 7 * shape[0])
    assert flops.has_formula("aten::cos")
    assert recorded(lambda: torch.ones(6).cos()) == 42
