"""The words that traces use: names of events and categories that mean something to us."""

from __future__ import annotations

STEP_PREFIX = "ProfilerStep#"
"""What the annotation of a step begins with; its number follows."""

STEP_PATTERN = r"^ProfilerStep#(\d+)$"
"""The annotation of a step, as a regular expression that captures its number."""

ALL_STEPS = "ProfilerStep*"
"""The name of all steps together, in lists and tables."""

MEMORY_EVENT = "[memory]"
OUT_OF_MEMORY_EVENT = "[OutOfMemory]"
MEMORY_EVENTS = (MEMORY_EVENT, OUT_OF_MEMORY_EVENT)
"""Names of allocations and frees, and of allocations that failed."""

MEMORY_CATEGORY = "cpu_instant_event"
"""Category of memory events."""

LAUNCH_PATTERN = r"_(?:runtime|driver)$"
"""Categories of calls into a device's runtime or driver (cuda_runtime, cuda_driver, xpu_runtime, ...)."""

ANNOTATION_CATEGORIES = ("user_annotation", "gpu_user_annotation")
"""Ranges that the program or torch marked, on the host and on a device."""

FRAME_CATEGORIES = ("Trace", "trace")
"""Spans that viewers draw around a recording; nothing that happened in the program."""

DEVICE_CATEGORIES = frozenset(
    {
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "gpu_user_annotation",
        "cuda_sync",
        "cuda_event",
        "cuda_profiler_range",
        "concurrent_kernel",
        "gpu_pm_counter",
        "mtia_ccp_events",
        "mtia_counters",
        "mtia_workloadd",
        "hpu_op",
        "collective_comm",
    }
)
"""Categories whose rows lie on a device: their process is a device's number, their thread a stream."""

DEVICE_ACTIVITY_CATEGORIES = DEVICE_CATEGORIES - {"gpu_user_annotation", "cuda_sync", "cuda_event", "cuda_profiler_range"}
"""Categories of what a device executes; annotations, waits and the ranges of counters only lie on its rows."""


def shown_name(name: str) -> str:
    """Name of an event in lists and tables, where all steps are one."""
    return ALL_STEPS if name.startswith(STEP_PREFIX) else name
