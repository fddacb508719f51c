"""The training step that the benchmarks record: a small transformer with shapes, about 700 events a step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def training_step() -> Callable[[], None]:
    """A function that trains a small transformer by one step."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(32 * 8, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    batch, target = torch.randn(4, 8, 32), torch.randint(0, 10, (4,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), target).backward()
        optimizer.step()

    for _ in range(3):
        step()
    return step
