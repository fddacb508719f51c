"""``KinetoProfile``: one recording after the other over torch's Kineto engine, without steps."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

from kinetoscope.common.user_warning import warn_user
from kinetoscope.record import guard, memory_timeline, torch_private
from kinetoscope.record.activities import ActivityItem, parse_activities, supported_activities, use_device_of
from kinetoscope.record.answers import Window
from kinetoscope.record.distributed import distributed_info
from kinetoscope.record.kineto.session import KinetoSession
from kinetoscope.record.options import RecordOptions
from kinetoscope.record.torch_private import ProfilerActivity
from kinetoscope.record.user_metadata import UserMetadata

if TYPE_CHECKING:
    from kinetoscope.record.event_list import EventList
    from kinetoscope.record.execution_trace.observer import TraceObserver
    from kinetoscope.trace.trace import Trace

_MARKS = ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops")
_warned: set[str] = set()


class Engine(Enum):
    """What the engine is doing for a profiler."""

    IDLE = "idle"
    PREPARED = "prepared"
    RECORDING = "recording"


class KinetoProfile:
    """Records what runs between :meth:`start` and :meth:`stop`; :class:`kinetoscope.profile` adds steps and schedules.

    Args:
        activities: kinds of activity to record, each a ``ProfilerActivity``, or a dict from activities to the names of
            the activity types to collect (torch 2.13 and later). Default: all that this torch and machine can record.
        record_shapes: record the sizes, types and scalar values of operators' inputs.
        profile_memory: record allocations and frees.
        with_stack: record the Python calls, and with them every operator's stack.
        with_flops: count floating point operations of operators with a formula; implies ``record_shapes``.
        with_modules: record the module hierarchy (of TorchScript modules: as far as Kineto can).
        experimental_config: torch's ``_ExperimentalConfig``.
        execution_trace_observer: anything with ``start``, ``stop`` and ``cleanup``; driven along with the recording.
        acc_events: keep the events of all windows, instead of the last one's.
        custom_trace_id_callback: gives each window's trace id; default: a random UUID.
        post_processing_timeout_s: answer from the events that could be read within this many seconds.

    Raises:
        ValueError: an activity is given twice, or the time limit is negative.
        TypeError: an item of ``activities`` is of another type.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ActivityItem] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: TraceObserver | None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        """See the class."""
        self._engine = Engine.IDLE
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError(f"post_processing_timeout_s must be non-negative, got {post_processing_timeout_s}")
        if activities is None:
            self.activities: set[ProfilerActivity] = supported_activities()
            self.activity_filters: dict[ProfilerActivity, set[str]] = {}
        else:
            self.activities, self.activity_filters = parse_activities(activities)
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.experimental_config = _checked(experimental_config, with_stack, profile_memory)
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.use_device = use_device_of(self.activities)
        self.has_cudagraphs = False
        self.mem_tl: Any = None
        self.preset_metadata: dict[str, str] = {}
        self.profiler: KinetoSession | None = None
        """torch's autograd profiler object of the current or last recording; None before the first."""
        self._previous: KinetoSession | None = None
        self._late_failure: BaseException | None = None
        self._metadata = UserMetadata()
        self._metadata_used = False
        self._process = os.getpid()
        self._thread = 0

    # recording

    def start(self) -> None:
        """Begin to record.

        Raises:
            RuntimeError: this or another profiler is already recording; nothing has been touched.
        """
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """End the recording; a second call does nothing.

        Raises:
            AssertionError: nothing was ever started.
            RuntimeError: the engine was stopped by others, or this is not the thread that started it.
        """
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Warm the engine up; what it sees until :meth:`start_trace` is thrown away."""
        if self._engine is not Engine.IDLE and self._is_mine():
            raise RuntimeError(f"start() was called, but this profiler is already {self._engine.value}; call stop() first")
        guard.claim(self)
        self._process = os.getpid()
        try:
            self.has_cudagraphs = torch_private.cuda_graphs_enabled()
            session = self._next_session()
            session.prepare()
        except BaseException:
            guard.release(self)
            raise
        if session is not self.profiler:
            self._previous, self.profiler = self.profiler, session
        if self._metadata_used:
            self._metadata, self._metadata_used = UserMetadata(), False
        self._engine = Engine.PREPARED

    def start_trace(self) -> None:
        """Begin to record, after :meth:`prepare_trace`."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before starting trace: call prepare_trace() or start()")
        if not self._is_mine():
            return
        if self._engine is Engine.RECORDING:
            raise RuntimeError("start_trace() was called, but this profiler is already recording")
        if self._engine is Engine.IDLE:
            raise RuntimeError("start_trace() was called without prepare_trace(); call start() for both")
        if torch_private.profiler_active():
            raise RuntimeError("Another profiler was started since this one was prepared; stop it first")
        try:
            if self.execution_trace_observer:
                self.execution_trace_observer.start()
            # Before the engine runs: with stacks it would record every call that this makes.
            self._write_marks(self.profiler)
            self._metadata_used, self._thread = True, threading.get_ident()
            self.profiler.start()
        except BaseException:
            self._roll_back(self.profiler)
            raise
        self._engine = Engine.RECORDING

    def _roll_back(self, session: KinetoSession) -> None:
        """Give the engine back after a start that failed half way, so that this or another profiler can start again."""
        self._engine = Engine.IDLE
        guard.release(self)
        with suppress(Exception):
            # The engine has no other way back from being prepared.
            if not torch_private.recording_on_this_thread():
                session.start()
            session.stop()
        torch_private.set_profiler_disabled()
        self._drop_session()

    def stop_trace(self) -> None:
        """End the recording and keep what it holds as the last window."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before stopping trace: nothing was started")
        self._keep_window()
        self._raise_late_failure()

    def _keep_window(self) -> None:
        window = self._close()
        if window is not None and self.profiler is not None:
            self.profiler.keep(window)

    def _raise_late_failure(self) -> None:
        """Raise what the observer raised when it was stopped, now that the window is kept."""
        failure, self._late_failure = self._late_failure, None
        if failure is not None:
            raise failure

    def _close(self) -> Window | None:
        """Stop the engine; return the window, or None where nothing was being recorded."""
        if self._engine is Engine.IDLE or not self._is_mine():
            return None
        assert self.profiler is not None
        if self._engine is Engine.PREPARED:
            # The engine has no other way back from being prepared.
            self.start_trace()
        self._require_own_thread()
        try:
            if self.execution_trace_observer:
                self.execution_trace_observer.stop()
        except BaseException as error:
            # Raised when the window is safe.
            self._late_failure = error
        self._engine = Engine.IDLE
        guard.release(self)
        return self._collect(self.profiler)

    def _require_own_thread(self) -> None:
        """Raise RuntimeError where the engine records on behalf of another thread, and cannot be stopped here."""
        recording = self._engine is Engine.RECORDING and self._is_mine()
        if recording and threading.get_ident() != self._thread and not self._records_all_threads():
            raise RuntimeError(
                "stop() must be called on the thread that called start(): torch's engine belongs to that thread. Nothing was "
                "stopped"
            )

    def _collect(self, session: KinetoSession) -> Window:
        if not (torch_private.recording_on_this_thread() or self._records_all_threads()):
            torch_private.set_profiler_disabled()
            raise RuntimeError(
                "The recording was ended by another profiler, which took its events: Kinetoscope and another profiler "
                "cannot record at the same time"
            )
        window = session.window_of(session.stop())
        window.user = self._metadata.current
        return window

    def _drop_session(self) -> None:
        """Answer again from the session before this one, where there is one that holds something."""
        if self._previous is not None and self._previous.window is not None and self.profiler is not self._previous:
            self.profiler, self._previous = self._previous, None

    def _is_mine(self) -> bool:
        """False in a process that was forked off: its parent's engine is not its own."""
        return self._process == os.getpid()

    def _abandon(self) -> None:
        if self._engine is Engine.IDLE or not self._is_mine():
            return
        try:
            self._close()
        except Exception:
            torch_private.set_profiler_disabled()
        self._engine = Engine.IDLE

    def __del__(self) -> None:
        """Leave the engine in order when a running profiler is forgotten."""
        # No global names here: when the interpreter ends they may be gone before the last profiler is.
        engine = getattr(self, "_engine", None)
        if engine is not None and engine.value != "idle":
            self._abandon()

    def _records_all_threads(self) -> bool:
        return torch_private.records_all_threads(self.experimental_config)

    def _next_session(self) -> KinetoSession:
        if self.profiler is not None and self.acc_events:
            return self.profiler
        if self.profiler is not None and self.profiler.window is not None:
            _warn_once(
                "Profiler clears events at the end of each cycle. Only events from the current cycle will be reported. "
                "To keep events across cycles, set acc_events=True."
            )
        return KinetoSession(
            options=RecordOptions(
                activities=tuple(sorted(activity.name for activity in self.activities)),
                record_shapes=self.record_shapes,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_flops=self.with_flops,
                with_modules=self.with_modules,
                post_processing_timeout_s=self.post_processing_timeout_s,
            ),
            use_cpu=ProfilerActivity.CPU in self.activities,
            use_device=self.use_device,
            record_shapes=self.record_shapes,
            with_flops=self.with_flops,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_modules=self.with_modules,
            use_kineto=True,
            experimental_config=self.experimental_config,
            acc_events=self.acc_events,
            custom_trace_id_callback=self.custom_trace_id_callback,
            post_processing_timeout_s=self.post_processing_timeout_s,
            activity_filters=self.activity_filters or None,
        )

    # metadata

    def _write_marks(self, session: KinetoSession) -> None:
        """Note in the trace how it is recorded; nothing that fails here ends the recording."""
        for option in _MARKS:
            if getattr(self, option):
                self._metadata.add(option, 1)
        session.distributed = self._get_distributed_info()
        if self.has_cudagraphs and torch_private.cuda_graphs_need_cupti_kept():
            # CUDA graphs break when CUPTI is torn down and set up again.
            os.environ["DISABLE_CUPTI_LAZY_REINIT"] = "1"
            os.environ["TEARDOWN_CUPTI"] = "0"
            self._metadata.add("DISABLE_CUPTI_LAZY_REINIT", 1)
        for key, text in self.preset_metadata.items():
            self._metadata.add_json(key, text)

    def add_metadata(self, key: str, value: str) -> None:
        """Attach a text to the trace of the current, last or coming recording."""
        self._metadata.add(key, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Attach a value, given as JSON text; text that is no JSON is kept as it is, with a warning."""
        self._metadata.add_json(key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Attach a value, given as JSON text, to every recording that starts from now on."""
        self.preset_metadata[key] = value

    def _get_distributed_info(self) -> dict[str, Any] | None:
        return distributed_info()

    # answers

    def _answering(self, what: str) -> KinetoSession:
        """The session that answers now."""
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {what}: nothing was recorded yet")
        if self._engine is Engine.RECORDING and self._is_mine():
            raise RuntimeError(f"The profiler is still recording; call stop() before {what}, or do it in on_trace_ready")
        if self._engine is Engine.PREPARED and self.profiler.window is None and self._previous is not None:
            return self._previous
        return self.profiler

    @property
    def trace(self) -> Trace:
        """The last window as a table; see :class:`kinetoscope.Trace`.

        Raises:
            RuntimeError: the profiler is recording.
            AssertionError: nothing was recorded yet.
        """
        return self._answering("reading its trace").last_trace()

    def events(self) -> EventList:
        """The events, unaggregated: a list with torch's ``FunctionEvent`` interface, times in microseconds.

        Raises:
            RuntimeError: the profiler is recording, or records with ``trace_only``.
            AssertionError: nothing was recorded yet.
        """
        return self._answering("accessing events").function_events  # type: ignore[no-any-return]

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool | None = None,
    ) -> EventList:
        """Averages of the events by operator, and by input shapes, innermost stack frames and overload where asked.

        ``include_python_functions`` None does as the installed torch: Python calls (``with_stack``) are averaged too
        before torch 2.14, and left out since.

        Raises:
            RuntimeError: the profiler is recording, or records with ``trace_only``.
            AssertionError: nothing was recorded yet.
        """
        return self._answering("getting key averages").key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )

    def export_chrome_trace(self, path: str | os.PathLike[str], use_python_export: bool = False) -> None:
        """Write the last window as Kineto/Chrome JSON, with gzip if the path ends in ``.gz``; any number of times.

        ``use_python_export`` is accepted because torch has it; every export here is the same.

        Raises:
            RuntimeError: the profiler is recording.
            AssertionError: nothing was recorded yet.
            OSError: the file cannot be written; the trace is kept.
        """
        self._answering("exporting chrome trace").export_chrome_trace(path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write one line a stack: frames from the root joined by ``;``, a space and the metric in whole microseconds.

        Raises:
            AssertionError: recorded without ``with_stack=True``, or nothing was recorded yet.
            ValueError: no such metric; the message lists those there are.
        """
        session = self._answering("exporting stacks")
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True when the profiler is made")
        session.function_events.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Turn the collection of host operators or device activity on or off; without a recording nothing happens."""
        if self.profiler is not None and self._engine is Engine.RECORDING and self._is_mine():
            self.profiler.toggle_collection_dynamic(enable, activities)

    # memory

    def _memory_profile(self) -> Any:
        missing = [f"{name}=True" for name in memory_timeline.NEEDS if not getattr(self, name)]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        results = self._answering("memory profiling").kineto_results
        if results is None:
            raise AssertionError("Nothing was recorded yet: there is no memory profile before the first stop()")
        return torch_private.memory_profile(results)

    def export_memory_timeline(self, path: str | os.PathLike[str], device: str | None = None) -> None:
        """Write memory over time by category: ``.html``, ``.json``, ``.json.gz`` or ``.raw.json.gz``.

        Args:
            path: the file; its suffix chooses the format.
            device: such as ``cpu`` or ``cuda:0``; default: the recorded device, else cuda:0 if there is one, else cpu.

        Raises:
            ValueError: recorded without ``record_shapes``, ``profile_memory`` or ``with_stack``.
        """
        self.mem_tl = torch_private.memory_timeline(self._memory_profile())
        memory_timeline.export(self.mem_tl, os.fspath(path), device or memory_timeline.default_device(self.use_device))


def _checked(config: Any, with_stack: bool, profile_memory: bool) -> Any:
    """The experimental options, without those that cannot be had together, and with those that others need."""
    if config is None and with_stack and not hasattr(torch_private.KinetoEvent, "is_python_function"):
        # This torch does not list the Python calls that stacks are made of; with this option it gives the stacks.
        return torch_private.ExperimentalConfig(verbose=True)
    if getattr(config, "trace_only", False) and with_stack:
        import copy

        warn_user("trace_only=True cannot give stacks (with_stack=True); trace_only is turned off")
        config = copy.copy(config)
        config.trace_only = False
    if profile_memory and torch_private.records_all_threads(config):
        warn_user("Kineto records no memory with profile_all_threads=True: the memory columns will be empty")
    return config


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warn_user(message)
