"""Finding the same events in two tables of one recording."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.record.kineto.matching import match

ROWS = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 2), st.sampled_from([-(2**62), 0, 2**62])), max_size=12)


def naive(wanted: list[tuple[int, ...]], offered: list[tuple[int, ...]]) -> list[int]:
    left = dict(enumerate(offered))
    partner = []
    for row in wanted:
        found = next((number for number, other in left.items() if other == row), -1)
        left.pop(found, None)
        partner.append(found)
    return partner


@given(ROWS, ROWS)
def test_first_come_first_served(wanted: list[tuple[int, ...]], offered: list[tuple[int, ...]]) -> None:
    mine, theirs = (np.array(rows, dtype=np.int64).reshape(-1, 3).T for rows in (wanted, offered))
    assert match(list(mine), list(theirs)).tolist() == naive(wanted, offered)
