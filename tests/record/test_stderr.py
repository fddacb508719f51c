"""Kineto's notices stay off stderr, everything else passes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading

import pytest

pytest.importorskip("torch")

from kinetoscope import ProfilerActivity, profile
from kinetoscope.record import torch_private
from kinetoscope.record.kineto.stderr import without_kineto_notices


@pytest.fixture(autouse=True)
def only_threads_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the threads that the tests' runner has of its own."""
    enumerate_all, before = threading.enumerate, set(threading.enumerate())
    monkeypatch.setattr(threading, "enumerate", lambda: [thread for thread in enumerate_all() if thread not in before])


NOTICE = b"USDT:2026-12-01 12:02:37 3925:3925 SyncActivityProfilerHandler.cpp:52] profiler_start\n"


def test_notices_go_and_the_rest_stays(capfd: pytest.CaptureFixture[str]) -> None:
    with without_kineto_notices():
        os.write(2, NOTICE + b"an error\n" + NOTICE + b"USDT: something else\nhalf a line")
    assert capfd.readouterr().err == "an error\nUSDT: something else\nhalf a line"


def test_the_last_words_of_a_process_that_aborts_arrive() -> None:
    program = (
        "import os\n"
        "from kinetoscope.record.kineto.stderr import without_kineto_notices\n"
        "with without_kineto_notices() as quiet:\n"
        "    assert quiet\n"
        f"    os.write(2, {NOTICE!r} + b'terminate called after the end of the world\\n')\n"
        "    os.abort()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (-signal.SIGABRT, "terminate called after the end of the world\n")


def test_a_process_that_keeps_the_pipe_open_holds_nobody_up(capfd: pytest.CaptureFixture[str]) -> None:
    with without_kineto_notices():
        child = subprocess.Popen(["sleep", "20"])
    os.write(2, b"after\n")
    assert child.poll() is None
    child.kill()
    child.wait()
    assert capfd.readouterr().err == "after\n"


def test_memory_of_before_is_freed_without_a_word() -> None:
    program = (
        "import torch\nfrom kinetoscope import profile, ProfilerActivity\n"
        "before = [torch.ones(1000) for _ in range(20)]\n"
        "with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:\n"
        "    del before\n    kept = torch.ones(5)\n"
        "assert sum(e.self_cpu_memory_usage for e in prof.events()) == 20, prof.events()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_inside_still_passes_what_was_said(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with without_kineto_notices():
            os.write(2, b"the reason\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert capfd.readouterr().err == "the reason\n"


def test_other_threads_keep_it_out_of_the_way_but_not_a_loaders(capfd: pytest.CaptureFixture[str]) -> None:
    for name, passes in (("QueueFeederThread", False), ("worker", True)):
        waiting: queue.Queue[None] = queue.Queue()
        thread = threading.Thread(target=waiting.get, name=name)
        thread.start()
        with without_kineto_notices():
            os.write(2, NOTICE)
        waiting.put(None)
        thread.join()
        assert bool(capfd.readouterr().err) == passes


def test_it_can_be_turned_off(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETOSCOPE_QUIET", "0")
    with without_kineto_notices():
        os.write(2, NOTICE)
    assert capfd.readouterr().err == NOTICE.decode()


def test_memory_on_all_threads_is_warned_of() -> None:
    try:
        config = torch_private.ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        pytest.skip("this torch cannot record all threads")
    assert torch_private.records_all_threads(config)
    assert not torch_private.records_all_threads(torch_private.ExperimentalConfig(verbose=True))
    with pytest.warns(UserWarning, match="no memory with profile_all_threads"):
        profile(activities=[ProfilerActivity.CPU], profile_memory=True, experimental_config=config)
