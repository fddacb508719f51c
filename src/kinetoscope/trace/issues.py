"""What reading found wrong with a file: classes of faults with their number and first place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping


class Issues(Counter[str]):
    """Class of fault -> how often it was found; ``first`` says where first, as far as that is known."""

    def __init__(self) -> None:
        """Begin with no fault."""
        super().__init__()
        self.first: dict[str, str] = {}

    def found(self, kind: str, count: int = 1, place: str | Callable[[], str] = "") -> None:
        """Count a fault. ``place`` is asked for only where it is the first of its kind."""
        if count <= 0:
            return
        self[kind] += count
        if kind not in self.first:
            where = place if isinstance(place, str) else place()
            if where:
                self.first[kind] = where

    def take(self, others: Mapping[str, int], place: str | Callable[[], str] = "") -> None:
        """Count faults that were collected elsewhere."""
        first = others.first if isinstance(others, Issues) else {}
        for kind, count in others.items():
            self.found(kind, count, first.get(kind, place))
