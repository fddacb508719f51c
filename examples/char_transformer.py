"""Train a small character-level transformer on the source of Python's standard library.

    python examples/char_transformer.py [--steps 100] [--workers 2]

An ordinary training program that knows nothing of a profiler. It needs torch and no data but what every Python brings
along, and takes some twenty seconds on two cores. ``profile_training.py`` beside it profiles the same training; to
profile this file as it is:

    kinetoscope run examples/char_transformer.py --steps 20
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

CONTEXT = 128
"""Characters that the model looks back on."""


def read_corpus(limit: int = 1_000_000) -> str:
    """The standard library's modules one after the other, the first ``limit`` characters."""
    text = ""
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        text += path.read_text(encoding="utf-8", errors="replace")
        if len(text) >= limit:
            break
    return text[:limit]


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Each window of ``CONTEXT`` characters, and the same window one character further on."""

    def __init__(self, text: str) -> None:
        """Number the characters."""
        self.alphabet = sorted(set(text))
        places = {character: place for place, character in enumerate(self.alphabet)}
        self.numbers = torch.tensor([places[character] for character in text])

    def __len__(self) -> int:
        return len(self.numbers) - CONTEXT

    def __getitem__(self, start: int) -> tuple[Tensor, Tensor]:
        window = self.numbers[start : start + CONTEXT + 1]
        return window[:-1], window[1:]


class Attention(nn.Module):
    """Causal self-attention: (batch, context, width) to the same."""

    def __init__(self, width: int, heads: int) -> None:
        """Make the projections."""
        super().__init__()
        self.heads = heads
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attend to what came before."""
        batch, length, width = x.shape
        parts = self.inward(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.outward(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        """Make the layers."""
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads))
        self.perceptron = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add what each part has to say."""
        x = x + self.attention(x)
        return x + self.perceptron(x)


class CharTransformer(nn.Module):
    """Numbers of characters (batch, context) to scores of the next ones (batch, context, alphabet)."""

    def __init__(self, alphabet: int, width: int = 128, heads: int = 4, layers: int = 2) -> None:
        """Make the layers."""
        super().__init__()
        self.characters = nn.Embedding(alphabet, width)
        self.places = nn.Parameter(torch.zeros(CONTEXT, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.scores = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, alphabet))

    def forward(self, numbers: Tensor) -> Tensor:
        """Score what may come after each character."""
        return self.scores(self.blocks(self.characters(numbers) + self.places[: numbers.shape[1]]))


def training(steps: int, batch: int = 32, workers: int = 2) -> Iterator[tuple[int, float]]:
    """Train; yields the number and the loss of each step."""
    torch.manual_seed(0)
    windows = Windows(read_corpus())
    loader = DataLoader(windows, batch_size=batch, shuffle=True, num_workers=workers, drop_last=True)
    model = CharTransformer(len(windows.alphabet))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (characters, following) in zip(range(steps), loader):  # noqa: B905 - the loader has more than we want
        loss = functional.cross_entropy(model(characters).flatten(0, 1), following.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield step, loss.item()


def main() -> None:
    """Train and print the loss now and then."""
    parser = argparse.ArgumentParser(description="Train a character-level transformer on the standard library's source")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2, help="processes that load data")
    arguments = parser.parse_args()
    for step, loss in training(arguments.steps, workers=arguments.workers):
        if step % 10 == 0 or step == arguments.steps - 1:
            print(f"step {step:4}  loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
