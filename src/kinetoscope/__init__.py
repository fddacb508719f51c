"""Kinetoscope: the profiler for PyTorch whose traces are tables.

Change ``from torch.profiler import ...`` to ``from kinetoscope import ...``; everything else stays. Traces that others
recorded open with :func:`read`, on machines without torch too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

__version__ = "0.1.0"

# Name -> module that defines it. Loaded when first used: importing kinetoscope needs no torch and takes milliseconds.
_HOMES = {
    "Trace": "kinetoscope.trace.trace",
    "Metadata": "kinetoscope.trace.metadata",
    "TraceError": "kinetoscope.trace.errors",
    "SchemaVersionError": "kinetoscope.trace.errors",
    "ForkedProcessError": "kinetoscope.common.forked",
    # torch.profiler's interface
    "profile": "kinetoscope.record.profiler",
    "KinetoProfile": "kinetoscope.record.profiler",
    "_KinetoProfile": "kinetoscope.record.profiler",
    "ProfilerAction": "kinetoscope.record.schedule",
    "schedule": "kinetoscope.record.schedule",
    "tensorboard_trace_handler": "kinetoscope.record.handlers",
    "ExecutionTraceObserver": "kinetoscope.record.execution_trace.observer",
    "register_flop_formula": "kinetoscope.record.flops.counting",
    "supported_activities": "kinetoscope.record.activities",
    "ProfilerActivity": "kinetoscope.record.activities",
    "kineto_available": "kinetoscope.record.torch_private",
    "DeviceType": "kinetoscope.record.torch_private",
    "record_function": "kinetoscope.record.torch_private",
    "KinetoStepTracker": "kinetoscope.record.torch_private",
    "itt": "kinetoscope.record.torch_private",
}

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ForkedProcessError",
    "KinetoProfile",
    "KinetoStepTracker",
    "Metadata",
    "ProfilerAction",
    "ProfilerActivity",
    "SchemaVersionError",
    "Trace",
    "TraceError",
    "__version__",
    "itt",
    "kineto_available",
    "profile",
    "read",
    "record_function",
    "register_flop_formula",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def read(path: str | os.PathLike[str]) -> Trace:
    """Read a trace file, whatever its format; see :meth:`kinetoscope.Trace.read`."""
    from kinetoscope.trace.trace import Trace

    return Trace.read(path)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kinetoscope' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


if TYPE_CHECKING:
    from kinetoscope.common.forked import ForkedProcessError
    from kinetoscope.record.activities import ProfilerActivity, supported_activities
    from kinetoscope.record.execution_trace.observer import ExecutionTraceObserver
    from kinetoscope.record.flops.counting import register_flop_formula
    from kinetoscope.record.handlers import tensorboard_trace_handler
    from kinetoscope.record.profiler import KinetoProfile, profile
    from kinetoscope.record.profiler import _KinetoProfile as _KinetoProfile
    from kinetoscope.record.schedule import ProfilerAction, schedule
    from kinetoscope.record.torch_private import DeviceType, KinetoStepTracker, itt, kineto_available, record_function
    from kinetoscope.trace.errors import SchemaVersionError, TraceError
    from kinetoscope.trace.metadata import Metadata
    from kinetoscope.trace.trace import Trace
