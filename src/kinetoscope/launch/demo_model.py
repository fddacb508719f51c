"""What the demo trains: a small character-level transformer that learns the standard library's source."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

CORPUS_CHARACTERS = 1_000_000
"""Length of the text at most; some thirty modules of the standard library."""


def standard_library_source(limit: int = CORPUS_CHARACTERS) -> str:
    """Source of the standard library's modules in the order of their names, ``limit`` characters at most.

    Raises:
        FileNotFoundError: this Python came without its source.
    """
    folder = Path(os.__file__).parent
    parts: list[str] = []
    length = 0
    for path in sorted(folder.glob("*.py")):
        if length >= limit:
            break
        parts.append(path.read_text(encoding="utf-8", errors="replace"))
        length += len(parts[-1])
    text = "".join(parts)[:limit]
    if not text.strip():
        raise FileNotFoundError(f"this Python has no source of its standard library in {folder}, which the demo would learn")
    return text


class Characters(Dataset[tuple[Tensor, Tensor]]):
    """All windows of ``context`` characters, each with the same window one character on."""

    def __init__(self, text: str, context: int) -> None:
        """Number the characters of the text.

        Raises:
            ValueError: the text is no longer than one window.
        """
        if len(text) <= context:
            raise ValueError(f"the text has {len(text)} characters and a window {context}: too short to learn from")
        self.alphabet = sorted(set(text))
        number = {character: place for place, character in enumerate(self.alphabet)}
        self._numbers = torch.tensor([number[character] for character in text])
        self._context = context

    def __len__(self) -> int:
        return len(self._numbers) - self._context

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        window = self._numbers[place : place + self._context + 1]
        return window[:-1], window[1:]


class CharTransformer(nn.Module):
    """Predicts the next character: numbers of shape (batch, context) to scores of shape (batch, context, alphabet)."""

    def __init__(self, alphabet: int, context: int, width: int = 128, heads: int = 4, layers: int = 2) -> None:
        """Make the layers; ``width`` must be a multiple of ``heads``."""
        super().__init__()
        self.characters = nn.Embedding(alphabet, width)
        self.places = nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        # norm_first rules out nested tensors; saying so avoids a warning about it.
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.scores = nn.Linear(width, alphabet)
        self.register_buffer("future", nn.Transformer.generate_square_subsequent_mask(context))

    def forward(self, numbers: Tensor) -> Tensor:
        """Score what may come after each character."""
        places = torch.arange(numbers.shape[1], device=numbers.device)
        hidden = self.characters(numbers) + self.places(places)
        return self.scores(self.blocks(hidden, mask=self.future, is_causal=True))
