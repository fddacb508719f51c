"""What to do at each step of the program: the actions, and schedules that choose among them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kinetoscope.common.user_warning import warn_user


class ProfilerAction(Enum):
    """What the profiler does during one step.

    Members equal, and hash as, the members of the same name of ``torch.profiler.ProfilerAction``, so either may be
    returned by a schedule, compared with ``current_action`` or looked up in a dict of the other.
    """

    NONE = 0
    """Nothing is recorded."""
    WARMUP = 1
    """The engine is prepared and warm, what it sees is thrown away."""
    RECORD = 2
    """The step is recorded."""
    RECORD_AND_SAVE = 3
    """The step is recorded and is the last of its window; the handler is called after it."""
    DEVICE_STOPPED = 4
    """The device stopped collecting early, the rest of the cycle is sat out. Never returned by a schedule."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Enum) and type(other).__name__ == "ProfilerAction":
            return self.name == other.name
        return NotImplemented

    def __hash__(self) -> int:
        # What Enum does too, so the members of torch's enum have the same hash.
        return hash(self.name)


def as_action(value: object) -> ProfilerAction:
    """Return ``value`` as our action, whether it is ours or the member of torch's enum with the same name.

    Raises:
        TypeError: it is neither; the message names what was given and what is wanted.
    """
    if isinstance(value, ProfilerAction):
        return value
    for action in ProfilerAction:
        if action == value:
            return action
    wanted = ", ".join(name for name in ProfilerAction.__members__ if name != "DEVICE_STOPPED")
    raise TypeError(f"a schedule must return a ProfilerAction ({wanted}), not {value!r}")


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Return a schedule: a function from the number of a step to what the profiler does in it.

    The first ``skip_first`` steps do nothing. Cycles follow, each of ``wait`` steps that do nothing, ``warmup`` steps
    that warm up and ``active`` steps that are recorded; the last of them ends the window and calls the handler.

    Args:
        wait: idle steps at the start of each cycle.
        warmup: steps that warm the engine up before the recording; 0 skews the first recorded step.
        active: recorded steps of each cycle, at least 1.
        repeat: number of cycles, 0 for cycles without end.
        skip_first: idle steps before the first cycle.
        skip_first_wait: if it is not 0, the first cycle has no idle steps.

    Raises:
        AssertionError: an argument is negative or ``active`` less than 1; in the returned function, a negative step.

    >>> import warnings
    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(6)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE', 'NONE']
    """
    given = {
        "wait": wait,
        "warmup": warmup,
        "active": active,
        "repeat": repeat,
        "skip_first": skip_first,
        "skip_first_wait": skip_first_wait,
    }
    wrong = [f"{name}={value}" for name, value in given.items() if value < (1 if name == "active" else 0)]
    if wrong:
        raise AssertionError(
            f"Invalid profiler schedule: {', '.join(wrong)}. active must be at least 1, the others at least 0; got "
            + ", ".join(f"{name}={value}" for name, value in given.items())
        )
    if warmup == 0:
        warn_user("The schedule has no warmup, which can skew the first recorded step; warmup=1 is enough")

    length = wait + warmup + active
    # The first cycle without its idle steps is a cycle that began that many steps earlier.
    first_step = skip_first - (wait if skip_first_wait else 0)

    def action_of(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"A step cannot be negative, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        cycle, place = divmod(step - first_step, length)
        if (repeat and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action_of


def default_schedule(step: int) -> ProfilerAction:
    """Record every step until the end: what a profiler without a schedule does."""
    return ProfilerAction.RECORD
