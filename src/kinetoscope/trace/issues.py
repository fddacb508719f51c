"""What reading found wrong with a file: classes of faults with their number and first position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping


class Issues(Counter[str]):
    """Class of fault -> how often it was found; ``first`` says where first, as far as that is known."""

    def __init__(self) -> None:
        """Begin with no fault."""
        super().__init__()
        self.first: dict[str, str] = {}

    def found(self, kind: str, count: int = 1, where: str | Callable[[], str] = "") -> None:
        """Count a fault. ``where`` is asked for only at the first of its kind."""
        if count <= 0:
            return
        self[kind] += count
        if kind not in self.first:
            first = where if isinstance(where, str) else where()
            if first:
                self.first[kind] = first

    def take(self, others: Mapping[str, int], where: str | Callable[[], str] = "") -> None:
        """Count faults that were collected elsewhere."""
        first = others.first if isinstance(others, Issues) else {}
        for kind, count in others.items():
            self.found(kind, count, first.get(kind, where))
