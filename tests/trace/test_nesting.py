"""Parents and depths against a plain reading of the rule."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.trace import nesting
from kinetoscope.trace.nesting import nest


def naive(slices: list[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    """The rule, one slice at a time: among the open slices the latest that holds this one; what does not is closed."""
    parents, depths = [-1] * len(slices), [0] * len(slices)
    for lane in {lane for lane, _, _ in slices}:
        mine = [row for row, one in enumerate(slices) if one[0] == lane]
        mine.sort(key=lambda row: (slices[row][1], -(slices[row][1] + slices[row][2])))
        still_open: list[int] = []
        for row in mine:
            _, start, duration = slices[row]

            def holds(other: int, start: int = start, end: int = start + duration) -> bool:
                _, first, length = slices[other]
                return start < first + length and end <= first + length

            while still_open and not holds(still_open[-1]):
                still_open.pop()
            if still_open:
                parents[row] = still_open[-1]
            depths[row] = len(still_open)
            still_open.append(row)
    return parents, depths


def run(slices: list[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    columns = np.array(slices, dtype=np.int64).reshape(-1, 3)
    parent, depth = nest(columns[:, 0], columns[:, 1], columns[:, 2])
    return parent.tolist(), depth.tolist()


small = st.integers(0, 12)


@given(st.lists(st.tuples(st.integers(0, 2), small, small), max_size=40))
def test_equals_the_naive_rule(slices: list[tuple[int, int, int]]) -> None:
    assert run(slices) == naive(slices)


@given(st.lists(st.tuples(st.integers(0, 2), small, small), max_size=40))
def test_a_parent_holds_its_child_wholly(slices: list[tuple[int, int, int]]) -> None:
    parents, depths = run(slices)
    for row, parent in enumerate(parents):
        if parent < 0:
            assert depths[row] == 0
            continue
        (lane, start, duration), (lane_above, start_above, duration_above) = slices[row], slices[parent]
        assert lane == lane_above
        assert start_above <= start
        assert start + duration <= start_above + duration_above
        assert depths[row] == depths[parent] + 1


def test_slices_that_only_overlap_are_no_relations() -> None:
    assert run([(0, 0, 10), (0, 5, 10)]) == ([-1, -1], [0, 0])


def test_a_slice_of_no_length_at_the_end_lies_outside() -> None:
    assert run([(0, 0, 10), (0, 10, 0), (0, 4, 0)]) == ([-1, -1, 0], [0, 0, 1])


def test_equal_slices_nest_in_the_given_order() -> None:
    assert run([(0, 0, 10), (0, 0, 10), (0, 0, 10)]) == ([-1, 0, 1], [0, 1, 2])


def test_no_slices() -> None:
    assert run([]) == ([], [])


def test_runs_join() -> None:
    rng = np.random.default_rng(5)
    slices = [(int(a), int(b), int(c)) for a, b, c in rng.integers(0, 50, (400, 3))]
    whole = run(slices)
    original, nesting._RUN = nesting._RUN, 7
    try:
        assert run(slices) == whole
    finally:
        nesting._RUN = original
