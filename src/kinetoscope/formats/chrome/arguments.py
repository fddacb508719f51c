"""Arguments of events while they become columns: what has a column, and the JSON of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import msgspec
import numpy as np
import polars as pl

from kinetoscope.formats.chrome import values as chrome_values
from kinetoscope.formats.chrome.names import BESIDE, MEMBERS, ORIGINAL_CATEGORY
from kinetoscope.formats.chrome.values import Ints

Raw = msgspec.Raw


def coalesce(first: pl.Series, second: pl.Series) -> pl.Series:
    """The first values, and the second where those are null."""
    return pl.select(pl.coalesce(first, second)).to_series()


class Found:
    """Values of one argument, gathered over the groups of a piece."""

    def __init__(self) -> None:
        """Begin with none."""
        self._rows: list[Ints] = []
        self._names: list[tuple[str, int]] = []
        self.raws: list[Raw] = []

    def add(self, rows: Ints, raws: Sequence[Raw], name: str) -> None:
        """Take the values of some rows, which stood under a name."""
        self._rows.append(rows)
        self._names.append((name, len(raws)))
        self.raws.extend(raws)

    def rows(self) -> Ints:
        """The rows of the values, in their order."""
        return np.concatenate(self._rows)

    def names(self) -> list[str]:
        """The name that each value stood under."""
        return [name for name, count in self._names for _ in range(count)]


@dataclass
class Extra:
    """What a row says beside its columns and its ordinary arguments."""

    members: dict[str, bytes] = field(default_factory=dict)
    """Members of the event without a column."""
    arguments: dict[str, bytes] = field(default_factory=dict)
    """Arguments whose value does not fit their column."""
    category: str | None = None
    """The category's name in old traces."""


class Extras(dict[int, Extra]):
    """Rows that have something extra."""

    def of(self, row: int) -> Extra:
        """What a row says, to add to."""
        extra = self.get(row)
        if extra is None:
            extra = self[row] = Extra()
        return extra


def rest_of_arguments(groups: list[tuple[Ints, tuple[str, ...], list[Sequence[Raw]]]], extras: Extras,
          height: int) -> pl.Series:  # fmt: skip
    """The column ``args``: for each row a JSON object of what has no column."""
    pieces: list[Any] = []
    rows: list[Ints] = []
    for group_rows, names, values in groups:
        rows.append(group_rows)
        keys = [msgspec.json.encode(name) + b":" for name in names]
        fronts = [b"{" + keys[0], *(b"," + key for key in keys[1:])]
        # {"key": value, ... } of every row in turn: the same texts between the values of each row.
        columns = chain.from_iterable(zip(map(repeat, fronts), values, strict=True))
        pieces.extend(chain.from_iterable(zip(*columns, repeat(b"}\x1e"), strict=False)))
    if pieces:
        pieces[-1] = b"}"
        column = chrome_values.scatter(chrome_values.split(b"".join(pieces)), np.concatenate(rows), height)
    else:
        column = pl.repeat(None, height, dtype=pl.String, eager=True)
    if not extras:
        return column
    odd = np.array(sorted(extras))
    texts = [_with_extras(text, extras[row]) for text, row in zip(column.gather(odd).to_list(), odd.tolist(), strict=True)]
    added = chrome_values.scatter(pl.Series(texts, dtype=pl.String), odd, height)
    return coalesce(added, column)


def _with_extras(text: str | None, extra: Extra) -> str:
    """Arguments with those that fit no column, and with the members of the event, last and in one order."""
    members: dict[str, Any] = {}
    if text and f'"{MEMBERS}":' in text:
        # Written by us and read again: what cannot stand beside the arguments stands among them.
        arguments = msgspec.json.decode(text, type=dict[str, Raw])
        earlier = arguments.pop(MEMBERS, None)
        if earlier is not None:
            try:
                members = dict(msgspec.json.decode(earlier, type=dict[str, Raw]))
            except msgspec.ValidationError:
                members = {MEMBERS: earlier}
        text = msgspec.json.encode(arguments).decode()
    parts: list[str] = [text[1:-1]] if text and text != "{}" else []
    if extra.category is not None and f'"{ORIGINAL_CATEGORY}":' not in (text or ""):
        parts.append(f"{_json(ORIGINAL_CATEGORY)}:{_json(extra.category)}")
    # In an order of its own, so that it does not depend on other rows and is the same when read again.
    parts += [f"{_json(key)}:{extra.arguments[key].decode()}" for key in sorted(extra.arguments)]
    members.update(extra.members)
    if members:
        ordered = sorted(members, key=lambda key: BESIDE.get(key, -1))
        inner = ",".join(f"{_json(key)}:{bytes(members[key]).decode()}" for key in ordered)
        parts.append(f"{_json(MEMBERS)}:{{{inner}}}")
    return "{" + ",".join(parts) + "}"


def _json(value: str) -> str:
    return msgspec.json.encode(value).decode()
