"""Keeping what was recorded when the process is told to die."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NAMES = ("SIGTERM", "SIGHUP")
"""Signals that end a process unless it handles them. SIGINT is not among them: Python makes it an exception."""


class LastWords:
    """Calls a function before the process dies by a signal that it does not handle itself.

    After the call the process dies by the same signal, as it would have without us: no ``finally`` and no exit handler
    of the program runs. A program that sets a handler of its own replaces ours, and a signal that is ignored stays so.
    Child processes made by fork have the default behaviour back.
    """

    def __init__(self, speak: Callable[[], None]) -> None:
        """Prepare to call ``speak``; nothing is installed yet."""
        self._speak = speak
        self._held = 0
        self._pending: int | None = None

    def install(self) -> None:
        """Set the handlers. Outside the main thread, where Python allows none, this does nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in self._numbers():
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._handle)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.remove)

    def remove(self) -> None:
        """Give the signals that still are ours their default behaviour back."""
        for number in self._numbers():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While the block runs, a signal waits: the block is not interrupted half way by the last words."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if not self._held and self._pending is not None:
                self._die(self._pending)

    def _handle(self, number: int, frame: object) -> None:
        if self._held:
            self._pending = number
        else:
            self._die(number)

    def _die(self, number: int) -> None:
        self._pending = None
        try:
            self._speak()
        finally:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    @staticmethod
    def _numbers() -> list[int]:
        return [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
