"""``profile``: a recording that knows the program's steps, by a schedule."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kinetoscope.common.user_warning import warn_user
from kinetoscope.record import step_tracker, torch_private
from kinetoscope.record.activities import ActivityItem, supported_activities
from kinetoscope.record.execution_trace.observer import ExecutionTraceObserver
from kinetoscope.record.kineto_profile import Engine, KinetoProfile
from kinetoscope.record.schedule import ProfilerAction, as_action, default_schedule
from kinetoscope.record.torch_private import ProfilerActivity
from kinetoscope.trace.vocabulary import STEP_PREFIX

if TYPE_CHECKING:
    from typing_extensions import Self

    from kinetoscope.record.execution_trace.observer import TraceObserver

__all__ = ["KinetoProfile", "_KinetoProfile", "profile"]

_KinetoProfile = KinetoProfile

_NONE, _WARMUP, _RECORD, _SAVE, _STOPPED = ProfilerAction

_INCORRECT = "incorrect"
_PREPARE = "prepare"
_START = "start"
_STOP = "stop"
_READY = "ready"

_TRANSITIONS: dict[tuple[ProfilerAction, ProfilerAction | None], tuple[str, ...]] = {
    # What is done between two steps; None is the end of the run.
    (_NONE, _NONE): (),
    (_NONE, _WARMUP): (_PREPARE,),
    (_NONE, _RECORD): (_PREPARE, _START),
    (_NONE, _SAVE): (_PREPARE, _START),
    (_NONE, None): (),
    (_WARMUP, _NONE): (_INCORRECT, _START, _STOP),
    (_WARMUP, _WARMUP): (),
    (_WARMUP, _RECORD): (_START,),
    (_WARMUP, _SAVE): (_START,),
    # The handler learns that the cycle is over, although it recorded nothing.
    (_WARMUP, _STOPPED): (_START, _STOP, _READY),
    (_WARMUP, None): (_START, _STOP),
    (_RECORD, _NONE): (_INCORRECT, _STOP),
    (_RECORD, _WARMUP): (_INCORRECT, _STOP, _PREPARE),
    (_RECORD, _RECORD): (),
    (_RECORD, _SAVE): (),
    (_RECORD, _STOPPED): (_STOP, _READY),
    (_RECORD, None): (_STOP, _READY),
    (_SAVE, _NONE): (_STOP, _READY),
    (_SAVE, _WARMUP): (_STOP, _READY, _PREPARE),
    (_SAVE, _RECORD): (_STOP, _READY, _PREPARE, _START),
    (_SAVE, _SAVE): (_STOP, _READY, _PREPARE, _START),
    (_SAVE, None): (_STOP, _READY),
    (_STOPPED, _NONE): (),
    (_STOPPED, _WARMUP): (_PREPARE,),
    (_STOPPED, _RECORD): (_PREPARE, _START),
    (_STOPPED, _SAVE): (_PREPARE, _START),
    (_STOPPED, _STOPPED): (),
    (_STOPPED, None): (),
}


class profile(KinetoProfile):  # noqa: N801 - torch's name
    """Records a program, all of it or by a schedule of its steps; used as ``torch.profiler.profile`` is.

    Args:
        activities: see :class:`KinetoProfile`, as for all arguments that are not listed here.
        schedule: from the number of a step to the action in it; see :func:`kinetoscope.schedule`. Without one everything
            is recorded.
        on_trace_ready: called with this profiler after each window. What it raises reaches the caller of ``step`` or
            ``stop`` once, after the profiler has moved on; the recording is kept.
        use_cuda: deprecated; adds CUDA to the activities, or removes it.

    Raises:
        AssertionError: no activity is left to record.
        ValueError: the schedule returns DEVICE_STOPPED.
        TypeError: the schedule returns something else than an action.

    >>> import kinetoscope
    >>> with kinetoscope.profile() as prof:  # doctest: +SKIP
    ...     train_one_step()
    >>> print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        activities: Iterable[ActivityItem] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: TraceObserver | None = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        """See the class."""
        if use_cuda is not None:
            warn_user("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning)
            activities = _with_cuda(activities, use_cuda)
        self.on_trace_ready = on_trace_ready
        self.schedule = schedule or default_schedule
        self.record_steps = schedule is not None
        """Whether each step is marked in the trace."""
        self.step_num = 0
        self.step_rec_fn: Any = None
        self._started = self._ever_started = False
        self._opened_by_step: int | None = None
        self._in_handler = False
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        if not self.activities:
            raise AssertionError("No valid profiler activities found: there is nothing to record")
        self.current_action = self._prev_schedule_action = self._scheduled(0)
        if self.execution_trace_observer is None:
            self.execution_trace_observer = ExecutionTraceObserver.build_execution_trace_obs_from_env()
        step_tracker.register_profiler()

    # the program's side

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Stop, whatever ended the block; an exception of the block is not replaced by one of the handler."""
        try:
            self.stop()
        except Exception as error:
            if exc_val is None:
                raise
            warn_user(f"The profiler could not finish after the program's error: {type(error).__name__}: {error}")
        finally:
            if self._is_mine():
                step_tracker.erase_profiler()
                if self.execution_trace_observer:
                    self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """Begin with step 0 of the schedule, after a :meth:`stop` too.

        Raises:
            RuntimeError: this or another profiler is already running; nothing has been touched.
        """
        if self._started and self._is_mine():
            raise RuntimeError("start() was called, but this profiler is already running; call stop() first")
        # The constructor has asked for step 0 already: a schedule with a state of its own is asked once a step.
        first = self._scheduled(0) if self._ever_started else self.current_action
        self._started = False
        self._opened_by_step = None
        self._transit(_NONE, first)
        self.step_num, self.current_action, self._prev_schedule_action = 0, first, first
        self._started = self._ever_started = True
        self._process = os.getpid()
        self._open_mark()

    def stop(self) -> None:
        """End the run: close the window that is being recorded and call the handler; a second call does nothing.

        Raises:
            AssertionError: the profiler was never started.
            RuntimeError: this is not the thread that started it; it goes on recording.
        """
        self._require_own_thread()
        self._close_mark()
        if not self._started:
            if not self._ever_started:
                raise AssertionError("Profiler must be initialized before stopping trace: start() was never called")
            return
        self._started = False
        previous, self.current_action = self.current_action, self._prev_schedule_action
        self._transit(previous, None)

    def step(self) -> None:
        """Say that one step of the program has ended and the next begins."""
        self._close_mark()
        if not self._started:
            self.step_num += 1
            warn_user("step() was called, but this profiler is not running; nothing is recorded")
            return
        action = scheduled = self._scheduled(self.step_num + 1)
        previous = self.current_action
        if previous is _STOPPED:
            at_cycle_boundary = self._prev_schedule_action is _SAVE or scheduled is _NONE
            action = scheduled if at_cycle_boundary else _STOPPED
        elif self._device_stopped(previous, scheduled):
            warn_user(
                f"The device stopped collecting early, at step {self.step_num + 1}: nothing more is recorded until the next "
                "cycle of the schedule",
            )
            action = _STOPPED
        self.step_num += 1
        self.current_action, self._prev_schedule_action = action, scheduled
        try:
            self._transit(previous, action)
        finally:
            if self._is_mine():
                step_tracker.advance_profiler()
            self._open_mark()

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Set what gives the trace ids of the windows from now on."""
        self.custom_trace_id_callback = callback
        if self.profiler is not None:
            self.profiler.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """Trace id of the current or last window; None before the first."""
        return None if self.profiler is None else self.profiler.trace_id

    def _stats(self) -> Any:
        """torch's ``_ProfilerStats``: durations of the engine's calls and of the answers; None before the first start."""
        return None if self.profiler is None else self.profiler._stats

    # steps and transitions

    def _scheduled(self, step: int) -> ProfilerAction:
        action = as_action(self.schedule(step))
        if action is _STOPPED:
            raise ValueError("a schedule must not return ProfilerAction.DEVICE_STOPPED: the profiler sets it by itself")
        return action

    def _device_stopped(self, previous: ProfilerAction, scheduled: ProfilerAction) -> bool:
        # Only these two are left without a way to recover: after RECORD_AND_SAVE the engine is prepared anew.
        return (
            self.use_device is not None
            and previous in (_WARMUP, _RECORD)
            and scheduled is not _NONE
            and torch_private.is_kineto_stopped()
        )

    def _open_mark(self) -> None:
        if self.record_steps and self._started:
            self.step_rec_fn = torch_private.record_function(f"{STEP_PREFIX}{self.step_num}")
            self.step_rec_fn.__enter__()

    def _close_mark(self) -> None:
        mark, self.step_rec_fn = self.step_rec_fn, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def _transit(self, previous: ProfilerAction, current: ProfilerAction | None) -> None:
        """Do what lies between two actions; an error of the handler waits until all else is done."""
        if not self._is_mine() and self._started:
            return  # a forked child: the recording is its parent's
        failure: BaseException | None = None
        ready = True
        for act in _TRANSITIONS[previous, current]:
            if act == _INCORRECT:
                assert current is not None
                warn_user(f"Incorrect schedule: {previous.name} followed by {current.name}")
            elif act == _PREPARE:
                self.prepare_trace()
            elif act == _START:
                if self._engine is Engine.IDLE and _PREPARE not in _TRANSITIONS[previous, current]:
                    continue  # stopped within the handler, before what was to be prepared was
                self.start_trace()
                self._opened_by_step = self.step_num if self._started else None
            elif act == _STOP:
                ready = self._stop_window(previous, current)
            elif ready:
                failure = self._call_handler()
                if current is not None and not self._started:
                    break  # the handler has stopped the profiler
        if failure is not None:
            self._late_failure = None
            raise failure
        self._raise_late_failure()

    def _stop_window(self, previous: ProfilerAction, current: ProfilerAction | None) -> bool:
        """Close the window; tell whether it is one that the handler should see."""
        if previous is _WARMUP and current is not _STOPPED:
            self._close()  # holds nothing of the program
            self._drop_session()
            return False
        if current is None and self.record_steps and self._opened_by_step == self.step_num:
            window = self._close()
            if window is None:
                return False
            if self.profiler is not None and not window.recorded.is_empty():
                self.profiler.keep(window)
                return True
            self._drop_session()
            return False
        self._keep_window()
        return True

    def _call_handler(self) -> BaseException | None:
        if self.on_trace_ready is None or self._in_handler:
            return None
        self._in_handler = True
        try:
            self.on_trace_ready(self)
        except BaseException as error:
            return error
        finally:
            self._in_handler = False
        return None


def _with_cuda(activities: Iterable[ActivityItem] | None, wanted: bool) -> list[ActivityItem]:
    chosen: list[ActivityItem] = list(supported_activities() if activities is None else activities)
    has = any(item == ProfilerActivity.CUDA or (isinstance(item, dict) and ProfilerActivity.CUDA in item) for item in chosen)
    if wanted:
        return chosen if has else [*chosen, ProfilerActivity.CUDA]
    without: list[ActivityItem] = []
    for item in chosen:
        if isinstance(item, dict):
            without.append({key: names for key, names in item.items() if key != ProfilerActivity.CUDA})
        elif item != ProfilerActivity.CUDA:
            without.append(item)
    return without
