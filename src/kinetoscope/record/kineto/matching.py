"""Finding the same events in two tables that were made of one recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def match(wanted: Sequence[Ints], offered: Sequence[Ints]) -> Ints:
    """Find for each wanted row the offered row with the same keys.

    Rows that have all keys in common are taken in their order: the first wanted one gets the first offered one.

    Args:
        wanted: the keys, one array each, over the rows that look for a partner.
        offered: the same keys over the rows to choose from.

    Returns:
        For each wanted row the number of an offered row, -1 where there is none (left).
    """
    count, others = len(wanted[0]), len(offered[0])
    partner = np.full(count, -1, dtype=np.int64)
    if not count or not others:
        return partner
    keys = [np.concatenate([mine, theirs]) for mine, theirs in zip(wanted, offered, strict=True)]
    order = np.lexsort(keys[::-1])
    is_new = np.zeros(len(order), dtype=bool)
    is_new[0] = True
    for key in keys:
        is_new[1:] |= key[order[1:]] != key[order[:-1]]
    group = np.cumsum(is_new) - 1
    is_wanted = order < count
    # The turn of each row among those of its side that have its keys.
    sides = []
    for side in (is_wanted, ~is_wanted):
        groups = group[side]
        starts = np.searchsorted(groups, groups, side="left")
        sides.append((order[side], groups, np.arange(len(groups)) - starts))
    (rows, groups, turns), (other_rows, other_groups, other_turns) = sides
    most = int(max(turns.max(initial=0), other_turns.max(initial=0))) + 1
    place = np.searchsorted(other_groups * most + other_turns, groups * most + turns)
    found = np.minimum(place, len(other_rows) - 1)
    same = (other_groups[found] == groups) & (other_turns[found] == turns)
    partner[rows[same]] = other_rows[found[same]] - count
    return partner
