"""torch's autograd profiler object, its results kept as windows and answered from columns.

Programs reach in through ``prof.profiler``; what they find is a ``torch.autograd.profiler.profile`` with torch's
members, so torch's own helpers (``_utils``, ``_memory_profiler``, ``_pattern_matcher``) work on it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, Literal, cast

from kinetoscope.record import torch_private
from kinetoscope.record.answers import Answers, Window
from kinetoscope.record.event_list import LISTS_PYTHON_FUNCTIONS, EventList
from kinetoscope.record.kineto.result import KinetoResult
from kinetoscope.record.kineto.stderr import without_kineto_notices
from kinetoscope.record.options import RecordOptions
from kinetoscope.trace.trace import Trace

# States in which torch measures device time itself -> the event's method that gives it.
_FALLBACKS = {"KINETO_GPU_FALLBACK": "cuda", "KINETO_PRIVATEUSE1_FALLBACK": "privateuse1"}

_ACCEPTED = inspect.signature(torch_private.AutogradProfile.__init__).parameters


class _SavedAnyTimes:
    """torch's ``_ProfilerResult``, which can be saved any number of times."""

    def __init__(self, window: Window) -> None:
        """Stand before torch's result."""
        self._window = window

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as Chrome JSON."""
        self._window.export_chrome(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._window.recorded.result, name)  # type: ignore[attr-defined]


class KinetoSession(torch_private.AutogradProfile):  # type: ignore[misc]
    """The engine's side of a profiler: prepares, starts and stops Kineto, and keeps the windows that it recorded.

    It is an :class:`~kinetoscope.record.engine.Engine`. One session records one window after the other; it keeps the last,
    or all with ``acc_events``.
    """

    def __init__(self, *, options: RecordOptions, **kwargs: Any) -> None:
        """Take torch's arguments; those that this torch does not know yet are left out."""
        super().__init__(**{name: value for name, value in kwargs.items() if name in _ACCEPTED})
        self.acc_events = bool(kwargs.get("acc_events", False))
        self.activity_filters = kwargs.get("activity_filters") or {}
        self.post_processing_timeout_s = kwargs.get("post_processing_timeout_s")
        fallback = _FALLBACKS.get(self.profiler_kind.name)
        self._options = replace(options, use_device=self.use_device, fallback=fallback)
        self._windows: list[Window] = []
        self._answers: Answers | None = None
        self.distributed: dict[str, Any] | None = None

    # recording

    def prepare(self) -> None:
        """Warm Kineto up."""
        started = perf_counter_ns()
        config = self.config(create_trace_id=True)
        torch_private.prepare_profiler(config, self.kineto_activities, self.activity_filters)
        self.entered = True
        self._stats.profiler_prepare_call_duration_us = (perf_counter_ns() - started) // 1000

    def start(self) -> None:
        """Begin to record."""
        self.entered = True
        config = self.config(create_trace_id=False)
        torch_private.set_profiler_enabled()
        started = perf_counter_ns()
        try:
            # torch's allocator speaks up at the first block that it frees and did not see allocated: let it be this one.
            forgotten = torch_private.some_memory() if self.profile_memory else None
            with without_kineto_notices() as quiet:
                torch_private.enable_profiler(config, self.kineto_activities)
                if quiet:
                    del forgotten
        except BaseException:
            torch_private.set_profiler_disabled()
            raise
        ended = perf_counter_ns()
        self._stats.profiler_enable_call_duration_us = (ended - started) // 1000
        self.profiling_start_time_ns = ended

    # What torch's own class calls them.
    _prepare_trace = prepare
    _start_trace = start

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Literal[False]:
        if self.enabled:
            self.keep(self.window_of(self.stop()))
        return False

    def stop(self) -> KinetoResult:
        """Stop the engine and give what it recorded; the session's windows stay as they are."""
        self._synchronize()
        started = perf_counter_ns()
        try:
            with without_kineto_notices():
                result = torch_private.disable_profiler()
        finally:
            torch_private.set_profiler_disabled()
        self._stats.profiler_disable_call_duration_us = (perf_counter_ns() - started) // 1000
        self.profiling_end_time_ns = started
        self._stats.profiling_window_duration_sec = (started - self.profiling_start_time_ns) / 1e9
        return KinetoResult(result, self._options)

    def window_of(self, recorded: KinetoResult) -> Window:
        """What was just recorded, with what the session knows about it."""
        return Window(recorded, self._options, self.trace_id, distributed=self.distributed)

    def keep(self, window: Window) -> None:
        """Add a window to the session: as the only one, or to the others with ``acc_events``."""
        self._windows = [window, *(self._windows if self.acc_events else [])]
        self.forget_answers()

    def _synchronize(self) -> None:
        if self.use_device:
            torch_private.synchronize(self.use_device)

    # results

    def forget_answers(self) -> None:
        """Answer from the windows anew."""
        self._answers = None
        self._function_events: Any = None
        self._needs_processing = bool(self._windows)
        self.kineto_results = _SavedAnyTimes(self._windows[0]) if self._windows else None

    @property
    def window(self) -> Window | None:
        """The last window; None before the first stop."""
        return self._windows[0] if self._windows else None

    @property
    def answers(self) -> Answers:
        """The answers of the windows.

        Raises:
            RuntimeError: the recording was made with ``trace_only``.
        """
        if getattr(self.experimental_config, "trace_only", False):
            raise RuntimeError(
                "events() is not available when trace_only=True in ExperimentalConfig. "
                "Use export_chrome_trace() instead, or prof.trace."
            )
        if self._answers is None:
            self._answers = Answers(self._windows, self.profile_memory, self.with_flops)
            started = perf_counter_ns()
            for window in self._windows:
                _ = window.recorded.columns
            parsed = perf_counter_ns()
            count = sum(len(window.operators) for window in self._windows)
            self._stats.parse_kineto_call_duration_us = (parsed - started) // 1000
            self._stats.function_events_build_tree_call_duration_us = (perf_counter_ns() - parsed) // 1000
            self._stats.number_of_events = count
        return self._answers

    def _ensure_function_events(self) -> None:
        self._needs_processing = False
        if self._function_events is None:
            if self._windows:
                self._function_events = self.answers.events
            else:
                self._function_events = EventList(
                    use_device=self.use_device, profile_memory=self.profile_memory, with_flops=self.with_flops
                )
                self._function_events._tree_built = True

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool | None = None,
    ) -> EventList:
        """Grouped averages; see :meth:`kinetoscope.KinetoProfile.key_averages`."""
        python_functions = LISTS_PYTHON_FUNCTIONS if include_python_functions is None else include_python_functions
        if not self._windows:
            return cast(
                "EventList", self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)
            )
        return self.answers.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name, python_functions)

    def export_chrome_trace(self, path: str | os.PathLike[str], *_: Any, **__: Any) -> None:
        """Write the last window as Chrome JSON.

        Raises:
            AssertionError: nothing has been recorded yet.
        """
        self._last_window().export_chrome(path)

    def last_trace(self) -> Trace:
        """The table of the last window.

        Raises:
            AssertionError: nothing has been recorded yet.
        """
        return self._last_window().trace

    def _last_window(self) -> Window:
        if self.window is None:
            raise AssertionError("Nothing has been recorded yet: there is no trace before the first stop()")
        return self.window

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Turn the collection of some activities on or off while recording."""
        torch_private.toggle_collection_dynamic(enabled, activities)
