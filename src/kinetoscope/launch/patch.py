"""Making ``torch.profiler`` give Kinetoscope, for programs that cannot or should not be changed.

After :func:`install`, ``from torch.profiler import profile``, ``torch.profiler.profile`` and their companions are ours,
in the package and in ``torch.profiler.profiler``. What was taken from there earlier stays torch's.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

NAMES = (
    "profile",
    "_KinetoProfile",
    "schedule",
    "ProfilerAction",
    "tensorboard_trace_handler",
    "ExecutionTraceObserver",
    "supported_activities",
)
"""What is replaced. The rest of ``torch.profiler`` is the same in both."""

MODULES = ("torch.profiler", "torch.profiler.profiler")

_originals: dict[tuple[str, str], Any] = {}


def install() -> None:
    """Replace the names by ours; a second call changes nothing.

    Raises:
        ImportError: torch is missing or not supported.
    """
    if _originals:
        return
    import kinetoscope

    # All of ours first: what they take from torch.profiler must be torch's own.
    ours = {name: getattr(kinetoscope, name) for name in NAMES}
    for module_name in MODULES:
        module = import_module(module_name)
        for name in NAMES:
            if hasattr(module, name):
                _originals[module_name, name] = getattr(module, name)
                setattr(module, name, ours[name])


def uninstall() -> None:
    """Put torch's own back; without :func:`install` nothing changes."""
    for (module_name, name), original in _originals.items():
        setattr(import_module(module_name), name, original)
    _originals.clear()


def is_installed() -> bool:
    """Tell whether ``torch.profiler`` is ours now."""
    return bool(_originals)
