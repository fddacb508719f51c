"""Running an unchanged program under the profiler: the torch side of ``kinetoscope run``.

The program decides when torch is imported, and recording begins right then: what it sets in its environment for torch
before that holds, and there is nothing to record earlier. Recording ends with the program: when its main module has
ended and the threads that Python waits for have ended, or by SIGTERM or SIGHUP. Whatever fails in recording is told at
the end and changes nothing for the program.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetoscope.launch import script
from kinetoscope.launch.script import Ending, Target
from kinetoscope.launch.signals import LastWords
from kinetoscope.launch.torch_import import when_torch_is_imported
from kinetoscope.record import torch_version
from kinetoscope.record.schedule import schedule

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace

DEVICE_CHOICE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
"""Variables that choose devices and are read when the device is first touched, which recording does early."""

ACTIVITIES = ("cpu", "cuda", "xpu", "mtia", "hpu", "privateuse1")
"""Names of activities, as :class:`RunOptions` takes them; those of ``ProfilerActivity`` in lower case."""


class CannotRecord(Exception):
    """Nothing can be recorded in this installation; the message says why and what to do."""


@dataclass(frozen=True)
class RunOptions:
    """What is recorded; see ``torch.profiler.profile`` for the meaning of the first six.

    ``steps`` holds the arguments of :func:`kinetoscope.schedule`; each step of the program's optimizer ends one step.
    Without it everything is recorded.
    """

    activities: tuple[str, ...] | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_modules: bool = False
    with_flops: bool = False
    all_threads: bool = False
    steps: dict[str, int] | None = None


@dataclass(frozen=True)
class Plan:
    """A program, what to record of it and where to put the trace.

    Without ``output`` nothing is recorded. With ``patch`` the program's ``torch.profiler`` is ours.
    """

    target: Target
    options: RunOptions = field(default_factory=RunOptions)
    output: Path | None = None
    patch: bool = False


@dataclass
class Outcome:
    """What came of a recording: the trace and its file, or neither, and remarks for the person who started it."""

    trace: Trace | None = None
    path: Path | None = None
    remarks: list[str] = field(default_factory=list)


def require_recording() -> None:
    """Check, without importing torch, that there is a torch that we can record with.

    Raises:
        CannotRecord: there is none; the message says what to install.
    """
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise CannotRecord("recording needs torch, which is not installed here: pip install 'kinetoscope[torch]'")
    try:
        installed = version("torch")
        supported = torch_version.is_supported(torch_version.parse_version(installed))
    except (PackageNotFoundError, ValueError):
        return  # a torch built in place; what it is shows when it is imported
    if not supported and os.environ.get(torch_version.OVERRIDE_VARIABLE, "") in ("", "0"):
        raise CannotRecord(
            f"Kinetoscope records with torch {torch_version.supported_range()}; installed is {installed}. Install another "
            f"of the two, or set {torch_version.OVERRIDE_VARIABLE}=1 to try all the same"
        )


def launch(plan: Plan, report: Callable[[Outcome], None]) -> Ending:
    """Run the plan's program in this process and return how it ended.

    ``report`` is called once with what was recorded, after the program and before its exit handlers; not at all if the
    plan records nothing and nothing went wrong.

    Raises:
        script.ScriptError: there is no such program; nothing has been run.
    """
    try:
        program = script.load(plan.target)
    except script.ScriptError:
        raise
    except KeyboardInterrupt as error:
        script.show_exception(error)
        return Ending(130, interrupted=True)
    except SystemExit as error:
        return Ending(script.exit_status(error.code))
    except BaseException as error:  # a syntax error, or what a parent package raised: the program's own failure
        script.show_exception(error)
        return Ending(1)
    recording = _Recording(plan, report)
    when_torch_is_imported(recording.begin)
    ending = script.run(program)
    try:
        recording.end()
    except KeyboardInterrupt:
        _say("interrupted while finishing the trace; it may be missing")
        return Ending(130, interrupted=True)
    return ending


class _Recording:
    """The recording that accompanies one program."""

    def __init__(self, plan: Plan, report: Callable[[Outcome], None]) -> None:
        self._plan = plan
        self._report = report
        self._outcome = Outcome()
        self._process = os.getpid()
        self._ended = False
        self._profiler: Any = None
        self._steps: _OptimizerSteps | None = None
        self._devices_chosen: dict[str, str | None] = {}
        self._signals = LastWords(self._stop, self._finish)
        self._stopped = False

    def begin(self) -> None:
        """Start recording; called when the program has imported torch."""
        with self._signals.held():
            try:
                if self._plan.patch:
                    from kinetoscope.launch import patch

                    patch.install()
                if self._plan.output is not None:
                    self._start()
            except Exception as error:
                self._remark(f"recording did not start: {error}")

    def _start(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            self._remark("torch was first imported outside the main thread, where no recording can be started")
            return
        import kinetoscope

        # Loaded now, as the end may come inside a signal handler or when the program has changed what can be imported.
        import kinetoscope.analyze.averages
        import kinetoscope.show.averages
        import kinetoscope.show.facts
        import kinetoscope.show.operator_table

        options = self._plan.options
        self._devices_chosen = _devices_chosen()
        arguments: dict[str, Any] = {
            "activities": self._activities(options.activities),
            "record_shapes": options.record_shapes,
            "profile_memory": options.profile_memory,
            "with_stack": options.with_stack,
            "with_modules": options.with_modules,
            "with_flops": options.with_flops,
            "experimental_config": self._experimental_config(options.all_threads),
        }
        if options.steps is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the command line has said what it has to say about the schedule
                arguments["schedule"] = schedule(**options.steps)
            if options.steps.get("repeat") == 1:
                # The window is over long before the program may be, and the program may end in a way that we don't see.
                arguments["on_trace_ready"] = self._on_window
            else:
                arguments["acc_events"] = True
        profiler = kinetoscope.profile(**arguments)
        profiler.start()
        self._profiler = profiler
        self._signals.install()
        if options.steps is not None:
            self._steps = _OptimizerSteps(self._step)

    def _activities(self, names: tuple[str, ...] | None) -> list[Any] | None:
        if names is None:
            return None
        from kinetoscope.record.activities import ProfilerActivity, supported_activities

        known = {activity.lower(): getattr(ProfilerActivity, activity) for activity in ProfilerActivity.__members__}
        supported = {known["cpu"]} if set(names) <= {"cpu"} else supported_activities()
        missing = [name for name in names if known.get(name) not in supported]
        if missing:
            self._remark(f"this torch on this machine cannot record {', '.join(missing)}")
        chosen = [known[name] for name in names if name not in missing]
        if not chosen:
            raise CannotRecord("none of the chosen activities can be recorded")
        return chosen

    def _experimental_config(self, all_threads: bool) -> Any:
        if not all_threads:
            return None
        from kinetoscope.record.torch_private import ExperimentalConfig

        try:
            return ExperimentalConfig(profile_all_threads=True)
        except TypeError:
            self._remark("this torch cannot record threads that were started before the recording; a newer one can")
            return None

    def _step(self) -> None:
        with self._signals.held():
            try:
                self._profiler.step()
            except Exception as error:
                self._remark(f"recording stopped early: {error}")
                if self._steps is not None:
                    self._steps.remove()

    def end(self) -> None:
        """Finish now, or once the threads have ended that Python waits for before it exits."""
        others = (thread for thread in threading.enumerate() if thread is not threading.current_thread())
        if any(not thread.daemon for thread in others):
            # Python waits for them before it calls exit handlers. To wait here could be for ever: some, such as the
            # workers of concurrent.futures, end only when Python tells them to at exit.
            atexit.register(self._finish)
        else:
            self._finish()

    def _finish(self) -> None:
        # A child made by fork inherits all this, but the recording is its parent's.
        if os.getpid() != self._process:
            return
        # A signal has come: the trace is being written on a thread of its own, and the process ends by the signal.
        self._signals.wait()
        if self._ended:
            return
        self._ended = True
        with self._signals.held():
            if self._profiler is not None:
                self._stop()
                self._keep()
            elif self._plan.output is not None and not self._outcome.remarks:
                self._remark("nothing was recorded: the program did not import torch")
            if self._outcome.path is not None or self._outcome.remarks:
                try:
                    self._report(self._outcome)
                except BrokenPipeError:
                    return
                except Exception as error:
                    _say(f"the summary failed: {type(error).__name__}: {error}")

    def _on_window(self, profiler: Any) -> None:
        # Not in a signal's handler, where what was interrupted may hold what writing needs.
        if not self._signals.is_dying():
            self._write(profiler.trace)

    def _stop(self) -> None:
        """End the recording, on the thread that began it; also called in the handler of a signal."""
        if self._stopped or self._profiler is None or os.getpid() != self._process:
            return
        self._stopped = True
        if self._steps is not None:
            self._steps.remove()
        try:
            self._profiler.stop()
        except Exception as error:
            self._remark(f"ending the recording failed: {error}")

    def _keep(self) -> None:
        """Write what was recorded."""
        try:
            if self._outcome.path is None:
                self._write(self._profiler.trace)
        except Exception as error:
            self._remark(f"no trace: {error}")
        changed = [name for name, value in _devices_chosen().items() if value != self._devices_chosen[name]]
        if changed:
            self._remark(
                f"the program set {', '.join(changed)} after it had imported torch, when recording had begun; the setting "
                "may have come too late. Set it outside, or before torch is imported"
            )

    def _write(self, trace: Trace | None) -> None:
        if trace is None or not len(trace):
            self._remark(self._why_empty())
            return
        assert self._plan.output is not None
        self._outcome.trace = trace
        try:
            trace.write(self._plan.output)
            self._outcome.path = self._plan.output
        except OSError as error:
            elsewhere = Path(tempfile.mkdtemp(prefix="kinetoscope-")) / self._plan.output.name
            trace.write(elsewhere)
            self._outcome.path = elsewhere
            self._remark(f"{self._plan.output} could not be written ({error}); the trace went to {elsewhere}")

    def _why_empty(self) -> str:
        if self._steps is None:
            return "nothing was recorded: the program called no operator of torch"
        steps = self._plan.options.steps or {}
        skipped = sum(steps.get(name, 0) for name in ("skip_first", "wait", "warmup"))
        return (
            f"nothing was recorded: the schedule records after {skipped} steps of the optimizer, and the program made "
            f"{self._steps.count}"
        )

    def _remark(self, text: str) -> None:
        self._outcome.remarks.append(text)


class _OptimizerSteps:
    """Calls a function after each step of the program's optimizer.

    Of several optimizers the one that stepped first counts, so that a program with two of them has one step for each
    round; when it is gone, the next one to step takes its place.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.count = 0
        self._action = action
        self._leader: weakref.ref[Any] | None = None
        self._handle = register_optimizer_step_post_hook(self._after_step)

    def remove(self) -> None:
        """Stop listening."""
        self._handle.remove()

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # The engine can be stopped only on the thread that started it.
        if threading.current_thread() is not threading.main_thread():
            return
        leader = self._leader() if self._leader is not None else None
        if leader is None:
            self._leader = weakref.ref(optimizer)
        elif leader is not optimizer:
            return
        self.count += 1
        self._action()


def _devices_chosen() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in DEVICE_CHOICE}


def _say(text: str) -> None:
    try:
        print(f"kinetoscope: {text}", file=sys.stderr)
    except Exception:
        return  # no stderr, nobody to tell
