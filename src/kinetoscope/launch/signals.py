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
    """Has a function called before the process dies by a signal that it does not handle itself.

    The handler only stops what must be stopped where the signal arrives. The function itself runs after it has returned, on a
    thread of its own: what the signal interrupted may hold locks that the function needs, and goes on until it has ended. Then
    the process dies by the same signal, as it would have without us: no ``finally`` and no exit handler of the program
    runs. A second signal ends it at once. A program that sets a handler of its own replaces ours, and a signal that is ignored
    stays so. Child processes made by fork have the default behaviour back.
    """

    def __init__(self, stop: Callable[[], None], speak: Callable[[], None]) -> None:
        """Prepare to call ``stop`` in the handler and ``speak`` after it; nothing is installed yet."""
        self._stop = stop
        self._speak = speak
        self._held = 0
        self._pending: int | None = None
        self._dying: threading.Thread | None = None

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

    def is_dying(self) -> bool:
        """Whether a signal has arrived: the function is being called, and the process ends after it."""
        return self._dying is not None

    def wait(self) -> None:
        """Where the process is dying, wait for its end; else return at once."""
        if self._dying is not None and self._dying is not threading.current_thread():
            self._dying.join()

    @contextmanager
    def held(self) -> Iterator[None]:
        """While the block runs, a signal waits: the block is not interrupted half way."""
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
        # Here, since only the main thread may set handlers.
        self.remove()
        # Python waits for it before it ends: a program that ends meanwhile takes nothing with it.
        self._dying = threading.Thread(target=self._speak_and_die, args=(number,), name="kinetoscope-last-words", daemon=False)
        try:
            self._stop()
        finally:
            self._dying.start()

    def _speak_and_die(self, number: int) -> None:
        try:
            self._speak()
        finally:
            os.kill(os.getpid(), number)

    @staticmethod
    def _numbers() -> list[int]:
        return [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
