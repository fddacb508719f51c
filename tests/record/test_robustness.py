"""A profiler must not break the program that it watches. What could end a process runs in one of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import kinetoscope
from kinetoscope import ProfilerAction, ProfilerActivity, profile, schedule
from kinetoscope.record import torch_private

CPU = [ProfilerActivity.CPU]


def work() -> None:
    with kinetoscope.record_function("work"):
        torch.ones(2)


def calls(prof: Any) -> int:
    return sum(event.name == "work" for event in prof.events())


def program(code: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    start = (
        "import gc, os, sys, threading, torch, kinetoscope\n"
        "from kinetoscope import profile, schedule, ProfilerActivity, record_function\n"
        "CPU = [ProfilerActivity.CPU]\n"
        "def work():\n    with record_function('work'):\n        torch.ones(2)\n"
        "def calls(prof):\n    return sum(event.name == 'work' for event in prof.events())\n"
    )
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, timeout=timeout, check=False)
    # What a torch with CUDA says once on a machine without a driver is an error of the machine, and not ours to hide.
    done.stderr = "".join(line for line in done.stderr.splitlines(True) if "gpuGetDeviceCount failed" not in line)
    return done


def succeeds(code: str) -> None:
    done = program(code)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


# handlers


def test_a_handler_that_raises_is_heard_once_and_loses_nothing() -> None:
    seen = []

    def handler(prof: Any) -> None:
        seen.append(calls(prof))
        if len(seen) == 1:
            raise OSError("disk full")

    heard = 0
    with profile(activities=CPU, schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=handler) as prof:
        for step in range(6):
            work()
            try:
                prof.step()
            except OSError:
                heard += 1
                assert step == 1
                assert calls(prof) == 1, "the recording is kept"
                assert prof.step_num == 2
    assert heard == 1
    assert seen == [1, 1, 1]


def test_a_handler_that_raises_at_the_end_ends_the_block_as_an_error() -> None:
    def handler(prof: Any) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), profile(activities=CPU, on_trace_ready=handler) as prof:
        work()
    assert calls(prof) == 1
    assert not torch_private.profiler_active()
    prof.stop()


def test_the_programs_own_error_comes_before_the_handlers() -> None:
    def handler(prof: Any) -> None:
        raise OSError("disk full")

    for error in (ValueError("mine"), KeyboardInterrupt(), SystemExit(3)):
        with (  # noqa: PT012, PT031 - the block is what is tested
            pytest.warns(UserWarning, match="disk full"),
            pytest.raises(type(error)),
            profile(activities=CPU, on_trace_ready=handler) as prof,
        ):
            work()
            raise error
        assert calls(prof) == 1
        assert not torch_private.profiler_active()


def test_a_handler_may_stop_and_step() -> None:
    seen = []

    def handler(prof: Any) -> None:
        seen.append(calls(prof))
        prof.stop()

    with profile(activities=CPU, schedule=schedule(wait=0, warmup=1, active=1, repeat=3), on_trace_ready=handler) as prof:
        for _ in range(2):
            work()
            prof.step()
    assert seen == [1]
    assert not torch_private.profiler_active()


# starting and stopping out of order


def test_stop_without_start_and_twice() -> None:
    prof = profile(activities=CPU)
    with pytest.raises(AssertionError, match="never called"):
        prof.stop()
    with prof:
        work()
    events = calls(prof)
    prof.stop()
    prof.stop()
    assert calls(prof) == events == 1


def test_start_twice_changes_nothing() -> None:
    with profile(activities=CPU) as prof:
        with pytest.raises(RuntimeError, match="already running"):
            prof.start()
        work()
    assert calls(prof) == 1
    low = kinetoscope.KinetoProfile(activities=CPU)
    low.start()
    with pytest.raises(RuntimeError, match="already recording"):
        low.start()
    low.stop()


def test_a_finite_schedule_begins_anew_with_each_start() -> None:
    seen: list[int] = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    prof = profile(activities=CPU, schedule=plan, on_trace_ready=lambda p: seen.append(calls(p)))
    for _ in range(2):
        prof.start()
        for _ in range(6):
            work()
            prof.step()
        prof.stop()
    assert seen == [2, 2]


@pytest.mark.filterwarnings("ignore:step")
def test_step_outside_of_a_run_does_nothing() -> None:
    prof = profile(activities=CPU, schedule=schedule(wait=0, warmup=1, active=1))
    prof.step()
    assert not torch_private.profiler_active()
    with prof:
        pass
    prof.step()
    assert prof.current_action in set(ProfilerAction)


def test_answers_while_recording_are_one_clear_error(tmp_path: Path) -> None:
    questions = {
        "events": lambda p: p.events(),
        "key averages": lambda p: p.key_averages(),
        "chrome trace": lambda p: p.export_chrome_trace(str(tmp_path / "t.json")),
        "stacks": lambda p: p.export_stacks(str(tmp_path / "s.txt")),
        "trace": lambda p: p.trace,
    }
    prof = profile(activities=CPU, with_stack=True)
    for what, question in questions.items():
        with pytest.raises(AssertionError, match=what):
            question(prof)
    with prof:
        work()
        for question in questions.values():
            with pytest.raises(RuntimeError, match="still recording; call stop"):
                question(prof)
    assert calls(prof) == 1


# other profilers


def test_a_profiler_within_a_profiler_is_refused_and_the_outer_is_whole() -> None:
    inner = profile(activities=CPU)
    with profile(activities=CPU) as outer:
        work()
        with pytest.raises(RuntimeError, match="Another profiler is already recording"):
            inner.start()
        work()
    assert calls(outer) == 2
    with inner:
        work()
    assert calls(inner) == 1
    for other in (torch.profiler.profile(activities=CPU), torch.autograd.profiler.profile(use_kineto=True)):
        with other:
            work()
            with pytest.raises(RuntimeError, match="Another profiler is already recording"):
                inner.start()
            work()
        events = other.events() if hasattr(other, "events") else other.function_events
        assert sum(event.name == "work" for event in events) == 2
        assert calls(inner) == 1


def test_a_profiler_that_another_took_the_events_from_says_so() -> None:
    prof = profile(activities=CPU)
    prof.start()
    torch_private.disable_profiler()
    with pytest.raises(RuntimeError, match="ended by another profiler"):
        prof.stop()
    with prof:
        work()
    assert calls(prof) == 1


# outputs


def test_an_unusable_path_keeps_the_trace(tmp_path: Path) -> None:
    with profile(activities=CPU) as prof:
        work()
    for path in (tmp_path / "no" / "such" / "trace.json", tmp_path / "no" / "trace.json.gz", tmp_path):
        with pytest.raises(OSError, match=r"no|directory"):
            prof.export_chrome_trace(str(path))
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "work" in kinetoscope.read(tmp_path / "trace.json").events["name"].to_list()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.json"], "no partial file is left"


# threads and processes


def test_a_thread_that_is_not_the_main_one() -> None:
    found = []

    def run() -> None:
        with profile(activities=CPU) as prof:
            work()
        found.append(calls(prof))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [1]


def test_stop_on_another_thread_is_refused_and_stop_still_works() -> None:
    failures = []
    prof = profile(activities=CPU)
    prof.start()
    work()

    def stop() -> None:
        try:
            prof.stop()
        except RuntimeError as error:
            failures.append(str(error))

    thread = threading.Thread(target=stop)
    thread.start()
    thread.join()
    assert len(failures) == 1
    assert "thread" in failures[0]
    prof.stop()
    assert calls(prof) == 1


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_forked_children_leave_the_engine_alone() -> None:
    succeeds(
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        "seen = []\n"
        "prof = profile(activities=CPU, schedule=schedule(wait=0, warmup=1, active=2, repeat=1),\n"
        "               on_trace_ready=lambda p: seen.append(os.getpid()))\n"
        "with prof:\n"
        "    work(); prof.step(); work()\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        prof.step(); work(); prof.step(); prof.stop()\n"
        "        os._exit(0 if seen == [] else 1)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    prof.step(); work(); prof.step()\n"
        "assert seen == [os.getpid()]\n"
        "assert calls(prof) == 2\n"
    )


def test_workers_of_a_loader_while_recording() -> None:
    succeeds(
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "if __name__ == '__main__':\n"
        "    data = TensorDataset(torch.arange(12.0).reshape(6, 2))\n"
        "    with profile(activities=CPU, record_shapes=True, with_stack=True) as prof:\n"
        "        for (batch,) in DataLoader(data, batch_size=2, num_workers=2):\n"
        "            work()\n"
        "    assert calls(prof) == 3\n"
    )


# ends


def test_a_program_that_ends_while_recording() -> None:
    for options in ("", ", with_stack=True, profile_memory=True", ", schedule=schedule(wait=0, warmup=5, active=1)"):
        succeeds(f"prof = profile(activities=CPU{options})\nprof.start()\nwork()\n")
    done = program("with profile(activities=CPU):\n    work()\n    sys.exit(5)\n")
    assert (done.returncode, done.stderr) == (5, "")


def test_a_profiler_that_is_forgotten_frees_the_engine() -> None:
    for plan in (None, schedule(wait=0, warmup=5, active=1)):
        prof = profile(activities=CPU, schedule=plan)
        prof.start()
        work()
        del prof
        assert not torch_private.profiler_active()
        with profile(activities=CPU) as following:
            work()
        assert calls(following) == 1


def test_a_profiler_that_outlives_its_module_ends_quietly() -> None:
    for ending in ("prof.stop()", "pass"):
        succeeds(
            f"prof = profile(activities=CPU)\nprof.start()\nwork()\n{ending}\n"
            "module = sys.modules['kinetoscope.record.kineto_profile']\n"
            "sys.kept = prof\n"
            "import atexit\n"
            "def clear():\n"
            "    for name in list(vars(module)):\n"
            "        if not name.startswith('__'):\n            setattr(module, name, None)\n"
            "atexit.register(clear) if prof._engine.value == 'idle' else None\n"
        )


def test_a_plain_run_says_nothing_on_stderr() -> None:
    succeeds(
        "with profile(activities=CPU, schedule=schedule(wait=1, warmup=1, active=1), acc_events=True) as prof:\n"
        "    for _ in range(9):\n        work(); prof.step()\n"
        "assert calls(prof) == 3\n"
    )
