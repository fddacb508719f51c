"""The words of Kineto's JSON and the columns that they stand in; shared by the reader and the writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kinetoscope.trace.vocabulary import DEVICE_CATEGORIES, MEMORY_CATEGORY

TODAYS_CATEGORIES: Mapping[str, str] = MappingProxyType(
    {
        "Operator": "cpu_op",
        "Runtime": "cuda_runtime",
        "Kernel": "kernel",
        "Memcpy": "gpu_memcpy",
        "Memset": "gpu_memset",
        "User Annotation": "user_annotation",
        "Python": "python_function",
        "Overhead": "overhead",
        "async": "ac2g",
    }
)
"""Category of traces of torch 1.8 -> its name of today. ``async`` was the flow from launch to kernel."""

ORIGINAL_CATEGORY = "Original category"
"""Argument that keeps the old name."""

MEMBERS = "chrome"
"""Argument that keeps members of the event which have no column (``s``, ``cname``, ``tts``, ...), as a JSON object."""

_BESIDE = ("id", "bp", "s", "cname", "scope", "id2", "bind_id", "flow_in", "flow_out", "tts", "tdur", "sf", "esf", "stack",
           "estack", "dur")  # fmt: skip
BESIDE: Mapping[str, int] = MappingProxyType({key: place for place, key in enumerate(_BESIDE)})
"""Members kept under :data:`MEMBERS` that are written beside the arguments again -> their order."""


@dataclass(frozen=True)
class Argument:
    """An argument that has a column. ``kind``: int, list (JSON text kept as it is), text, bool, device_type."""

    key: str
    column: str
    kind: str = "int"


EVERYWHERE = (
    Argument("External id", "external_id"),
    Argument("correlation", "correlation"),
    Argument("Sequence number", "sequence_number"),
    Argument("Fwd thread id", "forward_thread"),
    Argument("Record function id", "record_function_id"),
    Argument("Python id", "python_id"),
    Argument("Python parent id", "python_parent_id"),
    Argument("Python module id", "python_module_id"),
    Argument("Overload name", "overload_name", "text"),
    Argument("Record scope", "scope"),
    Argument("Is async", "is_async", "bool"),
    Argument("Concrete Inputs", "concrete_inputs", "list"),
    Argument("Input type", "input_types", "list"),
    Argument("Input Strides", "input_strides", "list"),
    Argument("Input Dims", "input_shapes", "list"),
    Argument("Flops", "flops"),
    Argument("Module Hierarchy", "module", "text"),
    Argument("Call stack", "stack", "stack"),
    Argument("Record thread", "record_thread"),
    Argument("Trace rank", "rank"),
)
ON_DEVICE = (
    Argument("device", "device"),
    Argument("stream", "stream"),
    Argument("bytes", "bytes"),
)
ON_MEMORY = (
    Argument("Total Reserved", "total_reserved"),
    Argument("Total Allocated", "total_allocated"),
    Argument("Bytes", "bytes"),
    Argument("Device Id", "device"),
    Argument("Device Type", "device_type", "device_type"),
    Argument("Addr", "address"),
)
_OLD_SPELLINGS = {"external id": "External id", "Input dims": "Input Dims"}

_BY_KEY = {argument.key: argument for argument in EVERYWHERE}
_BY_KEY.update({old: _BY_KEY[today] for old, today in _OLD_SPELLINGS.items()})
_DEVICE = _BY_KEY | {argument.key: argument for argument in ON_DEVICE}
_MEMORY = _BY_KEY | {argument.key: argument for argument in ON_MEMORY}


def arguments_of(category: str | None) -> Mapping[str, Argument]:
    """Key of an argument -> its column, for rows of a category."""
    if category in DEVICE_CATEGORIES:
        return _DEVICE
    if category == MEMORY_CATEGORY:
        return _MEMORY
    return _BY_KEY


OPTIONS = ("with_stack", "profile_memory", "record_shapes", "with_modules", "with_flops")
"""Top-level members that Kineto writes as 1 where the option was on."""

OWN_MEMBER = "kinetoscope"
"""Top-level member that carries what Kineto has no member for."""
