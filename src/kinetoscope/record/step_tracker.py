"""Telling Kineto's daemon how far the program is.

With ``KINETO_USE_DAEMON`` in the environment, a daemon outside the process may ask for a trace "from step N on".
Kineto counts the steps that ``torch.autograd.profiler.KinetoStepTracker`` reports: the furthest of all who count, which
are the profiler's ``step()`` and the optimizers. Importing this module registers the optimizers' hook, where the
variable is set.
"""

from __future__ import annotations

import os
from typing import Any

from kinetoscope.record import torch_private
from kinetoscope.record.torch_private import KinetoStepTracker

DAEMON_VARIABLE = "KINETO_USE_DAEMON"
PROFILER_NAME = "ProfilerStep"
OPTIMIZER_NAME = "Optimizer"

_hook_registered = False


def daemon_in_use() -> bool:
    """Tell whether a daemon is to know the program's steps."""
    return bool(os.environ.get(DAEMON_VARIABLE, ""))


def register_profiler() -> None:
    """Begin to count the profiler's steps, from the furthest step so far."""
    KinetoStepTracker.init_step_count(PROFILER_NAME)


def advance_profiler() -> None:
    """Count one step of the profiler, if a daemon is to know it."""
    if daemon_in_use():
        KinetoStepTracker.increment_step(PROFILER_NAME)


def erase_profiler() -> None:
    """Stop counting the profiler's steps."""
    KinetoStepTracker.erase_step_count(PROFILER_NAME)


def register_optimizer_hook() -> None:
    """Count every optimizer's steps, if a daemon is to know them and nobody counts them yet."""
    global _hook_registered
    # torch.profiler registers a hook of its own when the variable was set before torch was imported.
    if _hook_registered or not daemon_in_use() or torch_private.optimizer_step_is_tracked():
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_count_optimizer_step)
    _hook_registered = True


def _count_optimizer_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    KinetoStepTracker.increment_step(OPTIMIZER_NAME)


register_optimizer_hook()
