"""A process that is told to die says what it has to say first, outside of the signal's handler."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading, time
from kinetoscope.launch.signals import LastWords
lock = threading.Lock()
def stop():
    print("stop", threading.current_thread() is threading.main_thread(), flush=True)
def speak():
    with lock:  # held by what the signal interrupts
        print("speak", threading.current_thread() is threading.main_thread(), words.is_dying(), flush=True)
    {speak}
words = LastWords(stop, speak)
words.install()
{body}
"""


def outcome(body: str, speak: str = "") -> tuple[int, list[str]]:
    program = PROGRAM.format(body=body, speak=speak)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout.splitlines()


WORDS = ["stop True", "speak False True"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_what_was_interrupted_goes_on_until_all_is_said(name: str) -> None:
    body = (
        f"with lock:\n    os.kill(os.getpid(), signal.{name})\n    time.sleep(0.3)\n    print('went on', flush=True)\n"
        "time.sleep(30)"
    )
    assert outcome(body) == (-getattr(signal, name), ["stop True", "went on", "speak False True"])


def test_a_program_that_ends_meanwhile_takes_nothing_with_it() -> None:
    assert outcome("os.kill(os.getpid(), signal.SIGTERM)", "time.sleep(0.5); print('all', flush=True)") == (
        -signal.SIGTERM,
        [*WORDS, "all"],
    )


def test_a_second_signal_ends_it_at_once() -> None:
    body = "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(0.5)\nos.kill(os.getpid(), signal.SIGTERM)"
    assert outcome(body, "time.sleep(30)") == (-signal.SIGTERM, WORDS)


def test_a_held_block_is_finished_first() -> None:
    body = "with words.held():\n    os.kill(os.getpid(), signal.SIGTERM)\n    print('held', flush=True)\ntime.sleep(30)"
    assert outcome(body) == (-signal.SIGTERM, ["held", *WORDS])


def test_words_that_fail_do_not_keep_it_alive() -> None:
    code, said = outcome("os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(30)", "raise RuntimeError")
    assert (code, said) == (-signal.SIGTERM, WORDS)


def test_handlers_of_the_program_stay() -> None:
    body = (
        "signal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True))\nwords.remove()\n"
        "os.kill(os.getpid(), signal.SIGTERM)"
    )
    assert outcome(body) == (0, ["mine"])
