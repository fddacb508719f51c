"""Which Python call was running when something began.

Not the enclosing slice: an annotation outlives the call that opened it, and Python calls that a tracer never saw return
(generators, mostly) last until the recording ends. So a call counts as open until it or any of its callers has ended,
which is how Kineto builds its own tree.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def callers(thread: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Find the caller of each Python call, and until when each call counts as open.

    Args:
        thread: thread of each call.
        start: start in nanoseconds; of equal starts the later in order is the inner.
        end: end in nanoseconds.

    Returns:
        Index of each call's caller, -1 at the top, and the end of each call, no later than its callers' ends.
    """
    order = np.lexsort((np.arange(len(start)), start, thread))
    threads, starts, ends = thread[order].tolist(), start[order].tolist(), end[order].tolist()
    found = [-1] * len(starts)
    stack: list[int] = []
    current = None
    # A plain loop: each step needs the stack that the one before left.
    for place, begin in enumerate(starts):
        if threads[place] != current:
            current = threads[place]
            stack.clear()
        while stack and ends[stack[-1]] < begin:
            stack.pop()
        if stack:
            found[place] = stack[-1]
            ends[place] = min(ends[place], ends[stack[-1]])
        stack.append(place)
    caller = np.full(len(start), -1, dtype=np.int64)
    above = np.array(found, dtype=np.int64)
    caller[order] = np.where(above >= 0, order[above], -1)
    closed = np.zeros(len(start), dtype=np.int64)
    closed[order] = ends
    return caller, closed


def callers_of_others(thread: Ints, start: Ints, closed: Ints, caller: Ints, other_thread: Ints, other_start: Ints) -> Ints:
    """Find the innermost call that was open when each of some other events began.

    Args:
        thread: thread of each call.
        start: start of each call.
        closed: end of each call, as :func:`callers` gives it.
        caller: caller of each call, as :func:`callers` gives it.
        other_thread: thread of each of the other events.
        other_start: start of each of the other events.

    Returns:
        Index of a call for each of the other events, -1 for none.
    """
    around = np.full(len(other_thread), -1, dtype=np.int64)
    for number in np.unique(thread).tolist():
        own = np.flatnonzero(thread == number)
        own = own[np.argsort(start[own], kind="stable")]
        wanted = np.flatnonzero(other_thread == number)
        begins = other_start[wanted]
        # The last call that had begun, or the nearest of its callers that is still open.
        place = np.searchsorted(start[own], begins, side="right") - 1
        call = np.where(place >= 0, own[place], -1)
        while True:
            over = np.flatnonzero((call >= 0) & (closed[call] < begins))
            if not len(over):
                break
            call[over] = caller[call[over]]
        around[wanted] = call
    return around
