"""The one module that touches what torch does not promise to keep.

Everything else under ``record`` takes torch's private names from here, under a public name. What stands here was
checked against the releases 2.6.0, 2.13.0 and 2.14.1. What differs among them:

- ``_prepare_profiler`` takes a filter of activity types in 2.13 and later, not in 2.6: :func:`prepare_profiler`;
- ``_is_kineto_stopped`` exists in 2.13 and later: :func:`is_kineto_stopped`;
- ``profiler_allow_cudagraph_cupti_lazy_reinit_cuda12`` exists in 2.13 and later:
  :func:`cuda_graphs_need_cupti_kept`;
- ``ProfilerActivity.HPU`` exists in 2.13 and later;
- ``ExperimentalConfig`` has more arguments in later releases; ``trace_only``, ``capture_overload_names`` and
  ``profile_all_threads`` are missing in 2.6.

Importing this module imports torch, and raises ImportError where torch is missing or not supported
(:mod:`kinetoscope.record.torch_version`).
"""

# ruff: noqa: E402 - the version is checked before the imports that would fail with a less helpful error.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from kinetoscope.record import torch_version

TORCH_VERSION = torch_version.require_torch()
"""(major, minor, patch) of the torch in use."""

import torch
import torch.autograd.profiler as autograd_profiler
from torch._C import _get_privateuse1_backend_name as privateuse1_backend_name
from torch._C._autograd import (
    DeviceType,
    _prepare_profiler,
    _profiler_enabled,
    _toggle_collection_dynamic,
    kineto_available,
)
from torch._C._autograd import (
    _add_metadata_json as add_metadata_json,
)
from torch._C._autograd import (
    _disable_profiler as disable_profiler,
)
from torch._C._autograd import (
    _enable_profiler as enable_profiler,
)
from torch._C._autograd import (
    _enable_record_function as enable_record_function,
)
from torch._C._autograd import (
    _KinetoEvent as KinetoEvent,
)
from torch._C._autograd import (
    _profiler_type as profiler_type,
)
from torch._C._autograd import (
    _ProfilerResult as ProfilerResult,
)
from torch._C._autograd import (
    _record_function_with_args_enter as record_function_with_args_enter,
)
from torch._C._autograd import (
    _record_function_with_args_exit as record_function_with_args_exit,
)
from torch._C._autograd import (
    _supported_activities as supported_activities,
)
from torch._C._profiler import (
    ActiveProfilerType,
    ProfilerActivity,
    ProfilerConfig,
    ProfilerState,
    RecordScope,
)
from torch._C._profiler import (
    _add_execution_trace_observer as add_execution_trace_observer,
)
from torch._C._profiler import (
    _disable_execution_trace_observer as disable_execution_trace_observer,
)
from torch._C._profiler import (
    _enable_execution_trace_observer as enable_execution_trace_observer,
)
from torch._C._profiler import (
    _ExperimentalConfig as ExperimentalConfig,
)
from torch._C._profiler import (
    _RecordFunctionFast as RecordFunctionFast,
)
from torch._C._profiler import (
    _remove_execution_trace_observer as remove_execution_trace_observer,
)
from torch.autograd.profiler import (
    KinetoStepTracker,
    record_function,
)
from torch.autograd.profiler import (
    _ProfilerStats as ProfilerStats,
)
from torch.autograd.profiler import (
    _run_on_profiler_start as set_profiler_enabled,
)
from torch.autograd.profiler import (
    _run_on_profiler_stop as set_profiler_disabled,
)
from torch.autograd.profiler import (
    profile as AutogradProfile,  # noqa: N812 - two classes of one name meet here
)
from torch.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg, Interval, Kernel
from torch.autograd.profiler_util import (
    _filter_stack_entry as keeps_stack_entry,
)
from torch.profiler import itt

__all__ = [
    "SUPPORTS_ACTIVITY_FILTERS",
    "TORCH_VERSION",
    "ActiveProfilerType",
    "AutogradProfile",
    "DeviceType",
    "EventList",
    "ExperimentalConfig",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "KinetoEvent",
    "KinetoStepTracker",
    "ProfilerActivity",
    "ProfilerConfig",
    "ProfilerResult",
    "ProfilerState",
    "ProfilerStats",
    "RecordFunctionFast",
    "RecordScope",
    "add_execution_trace_observer",
    "add_metadata_json",
    "all_process_group_configs",
    "build_event_metadata",
    "cuda_graphs_enabled",
    "cuda_graphs_need_cupti_kept",
    "demangle",
    "disable_execution_trace_observer",
    "disable_profiler",
    "enable_execution_trace_observer",
    "enable_profiler",
    "enable_record_function",
    "flop_registry",
    "inductor_source_files",
    "is_kineto_stopped",
    "itt",
    "keeps_stack_entry",
    "kineto_available",
    "operator_schemas",
    "optimizer_step_is_tracked",
    "prepare_profiler",
    "privateuse1_backend_name",
    "process_group_configs",
    "profiler_active",
    "profiler_type",
    "record_function",
    "record_function_with_args_enter",
    "record_function_with_args_exit",
    "recording_on_this_thread",
    "records_all_threads",
    "remove_execution_trace_observer",
    "require_activity_filters",
    "set_profiler_disabled",
    "set_profiler_enabled",
    "supported_activities",
    "synchronize",
    "takes_shapes",
    "toggle_collection_dynamic",
    "torch_release",
]

SUPPORTS_ACTIVITY_FILTERS = "activity_filter" in (_prepare_profiler.__doc__ or "")
"""True if this torch can restrict an activity to some of its activity types."""


torch_release = str(torch.__version__)
"""Version of the torch in use, as it says itself."""

# the engine


def require_activity_filters() -> None:
    """Check that this torch can filter by activity types.

    Raises:
        RuntimeError: it cannot; the message says what to pass instead.
    """
    if not SUPPORTS_ACTIVITY_FILTERS:
        raise RuntimeError(
            f"torch {torch.__version__} cannot restrict an activity to some of its types; pass the ProfilerActivity "
            "itself instead of a dict, or use a newer torch (2.13 can)"
        )


def prepare_profiler(
    config: ProfilerConfig,
    activities: Iterable[ProfilerActivity],
    activity_filters: dict[ProfilerActivity, set[str]] | None = None,
) -> None:
    """Prepare Kineto for a recording; ``activity_filters`` restricts an activity to the named activity types.

    Raises:
        RuntimeError: filters are given and this torch knows none; nothing has been touched then.
    """
    if activity_filters:
        require_activity_filters()
        _prepare_profiler(config, set(activities), activity_filters)
    else:
        _prepare_profiler(config, set(activities))


def toggle_collection_dynamic(enable: bool, activities: Iterable[ProfilerActivity]) -> None:
    """Turn the collection of some activities on or off while recording."""
    _toggle_collection_dynamic(enable, set(activities))


def is_kineto_stopped() -> bool:
    """Tell whether Kineto ended the collection of device activity early; False where this torch cannot say."""
    ask = getattr(torch.autograd, "_is_kineto_stopped", None)
    return bool(ask()) if ask is not None else False


def profiler_active() -> bool:
    """Tell whether any profiler of torch is recording: this one, ``torch.profiler`` or ``torch.autograd.profiler``.

    True on every thread while ``torch.autograd.profiler``'s own flag is set, and on the thread that enabled a profiler.
    """
    return bool(autograd_profiler._is_profiler_enabled) or bool(_profiler_enabled())


def synchronize(device: str) -> None:
    """Wait until a kind of device has done all that it was given; where torch cannot wait, nothing happens."""
    wait = getattr(getattr(torch, device, None), "synchronize", None)
    if wait is not None:
        wait()


def recording_on_this_thread() -> bool:
    """Tell whether a profiler records this thread; one of all threads does not count."""
    return bool(_profiler_enabled())


# events


def demangle(name: str) -> str:
    """Return a C++ name in readable form; other names, and names of one letter, as they are."""
    return str(torch._C._demangle(name)) if len(name) > 1 else name


def build_event_metadata(extra: dict[str, str]) -> Any:
    """Put Kineto's metadata of an event into torch's structure; None where this torch has none (before 2.13)."""
    build = getattr(torch.autograd.profiler_util, "_build_metadata", None)
    return build(extra) if build is not None else None


# operators and torch's flop counter


def operator_schemas(name: str) -> list[Any]:
    """Return the schemas of an operator's overloads, such as those of ``"aten::mm"``; none where there is no such one."""
    return list(torch._C._jit_get_schemas_for_operator(name))


def flop_registry() -> dict[Any, Callable[..., Any]]:
    """Return torch's registry of FLOP formulas; empty where it cannot be loaded."""
    try:
        from torch.utils import flop_counter
    except Exception:  # it imports much of torch, of which a part may not work here
        return {}
    return dict(flop_counter.flop_registry)


def takes_shapes(formula: Callable[..., Any]) -> bool:
    """Tell whether a formula of that registry takes shapes (torch wrapped it so), instead of tensors."""
    from torch.utils import flop_counter

    wrapped = flop_counter.shape_wrapper(formula)
    return getattr(formula, "__code__", None) is wrapped.__code__


# experimental options


def records_all_threads(config: Any) -> bool:
    """Tell whether experimental options ask for all threads; torch takes the option and does not give it back.

    So the place at which the option changes the state that torch pickles is looked at.
    """
    if config is None:
        return False
    try:
        options: list[Any] = [ExperimentalConfig(), ExperimentalConfig(profile_all_threads=True), config]
        states = zip(*(option.__getstate__() for option in options), strict=True)
        return any(without != with_it and own == with_it for without, with_it, own in states)
    except (TypeError, AttributeError, ValueError):  # a torch without the option, or another kind of configuration
        return bool(getattr(config, "profile_all_threads", False))


# CUDA graphs and CUPTI


def cuda_graphs_enabled() -> bool:
    """Tell whether inductor is set to use CUDA graphs.

    Loads inductor's configuration where it is not loaded yet, as torch's own profiler does. That is also what keeps the
    first optimizer inside a recording from importing half of torch there: with stacks, a million events.
    """
    try:
        from torch._inductor import config
    except Exception:  # not built, or broken by another package: then nobody has set it
        return False
    return bool(config.triton.cudagraphs)


def cuda_graphs_need_cupti_kept() -> bool:
    """Tell whether CUDA graphs break with this CUDA when CUPTI is torn down and initialised again."""
    import torch._utils_internal as internal

    allows = getattr(internal, "profiler_allow_cudagraph_cupti_lazy_reinit_cuda12", None)
    if allows is None or not allows():
        return True
    cuda = torch.version.cuda
    return cuda is not None and torch_version.parse_version(cuda)[:2] < (12, 6)


# lists of events


def built_event_list(events: Iterable[Any], **options: Any) -> Any:
    """Return torch's own list of events that know their parents and children already."""
    made = EventList(events, **options)
    made._tree_built = True
    return made


# memory


def some_memory() -> Any:
    """Return an object that holds a block of torch's host allocator."""
    return torch.empty(1)


def memory_profile(results: Any) -> Any:
    """Return torch's ``MemoryProfile`` of a Kineto result."""
    from torch.profiler._memory_profiler import MemoryProfile

    return MemoryProfile(results)


def memory_timeline(profile: Any) -> Any:
    """Return torch's ``MemoryProfileTimeline`` of a memory profile."""
    from torch.profiler._memory_profiler import MemoryProfileTimeline

    return MemoryProfileTimeline(profile)


# torch.distributed


def all_process_group_configs() -> list[dict[str, Any]]:
    """Return the configuration of every process group as the trace's ``distributedInfo`` has it."""
    from torch.distributed import distributed_c10d

    return list(distributed_c10d._get_all_pg_configs())


def process_group_configs() -> list[dict[str, Any]]:
    """Return the configuration of every process group as an execution trace has it."""
    from torch.distributed import distributed_c10d

    return list(distributed_c10d._world.pg_config_info)


# optimizers and inductor


def optimizer_step_is_tracked() -> bool:
    """Tell whether ``torch.profiler`` registered its own optimizer hook for the step tracker."""
    from torch.optim.optimizer import _global_optimizer_post_hooks
    from torch.profiler import _optimizer_post_hook

    return any(hook is _optimizer_post_hook for hook in _global_optimizer_post_hooks.values())


def inductor_source_files() -> list[str]:
    """Return the paths of the Python files that inductor generated and loaded in this process."""
    codecache = sys.modules.get("torch._inductor.codecache")
    if codecache is None:
        return []
    files = [getattr(module, "__file__", None) for module in codecache.PyCodeCache.modules]
    return [file for file in files if file]
