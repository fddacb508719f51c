"""One recording at a time: torch's engine is shared by the whole process, and must be left in order.

A second profiler that starts while another runs would silently empty the first, so it is refused before anything is
touched. A process that was forked off while its parent recorded leaves the engine alone. A program that ends while
recording is ended in order.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Protocol

from kinetoscope.record import torch_private


class Recording(Protocol):
    """What holds the engine."""

    def _abandon(self) -> None:
        """Close the engine and forget what was being recorded; raises nothing."""


_holder: weakref.ref[Recording] | None = None
_process = 0
# One may be interrupted by itself: a garbage collection or a signal ends a forgotten profiler.
_lock = threading.RLock()


def holder() -> Recording | None:
    """What holds the engine in this process, if anything does."""
    return _holder() if _holder is not None and _process == os.getpid() else None


def claim(recording: Recording) -> None:
    """Take the engine.

    Raises:
        RuntimeError: another profiler, ours or torch's, is running; nothing has been touched.
    """
    global _holder, _process
    with _lock:
        other = holder()
        if other is recording:
            return
        if other is None and not torch_private.profiler_active():
            _holder, _process = weakref.ref(recording), os.getpid()
            return
        forked = _holder is not None and _process != os.getpid()
    raise RuntimeError(
        "This process was forked while its parent was recording, and cannot record itself: start the process before "
        "the recording, or with the start method 'spawn'"
        if forked
        else "Another profiler is already recording in this process (a kinetoscope.profile, a torch.profiler.profile "
        "or a torch.autograd.profiler.profile); stop it first. To serve a program that calls torch.profiler itself, "
        "run it with: kinetoscope run --patch"
    )


def release(recording: Recording) -> None:
    """Give the engine back."""
    global _holder
    with _lock:
        if _holder is not None and _holder() in (recording, None):
            _holder = None


@atexit.register
def _at_exit() -> None:
    last = holder()
    if last is not None:
        last._abandon()


def _in_child() -> None:
    global _lock
    # Another thread of the parent may have held it at that moment, and does not exist here.
    _lock = threading.RLock()
    # The child inherits the parent's observers, which would go on to fill memory that nobody will read.
    if _holder is not None:
        torch_private.enable_record_function(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
