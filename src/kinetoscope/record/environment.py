"""What this machine and installation can record, as facts for people and for reports of faults."""

from __future__ import annotations

import importlib.util
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from kinetoscope.record import torch_version

LIBRARIES = ("polars", "numpy", "msgspec", "isal", "rich", "typer")
OPTIONAL = {
    "pandas": "to_pandas()",
    "pyarrow": "to_arrow() and to_pandas()",
    "zstandard": "reading .zst",
    "fsspec": "reading from URLs",
}
"""Package that is not needed -> what it is for."""


def environment() -> dict[str, Any]:
    """Facts by name: ``versions``, ``optional``, ``torch`` (version, supported, why), ``recording`` (what can be recorded).

    Imports torch where there is a supported one. Raises nothing.
    """
    facts: dict[str, Any] = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "versions": {name: _version(name) for name in ("kinetoscope", *LIBRARIES)},
        "optional": {name: _version(name) for name in OPTIONAL},
        "torch": _torch(),
    }
    facts["recording"] = _recording() if facts["torch"]["works"] else None
    return facts


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _torch() -> dict[str, Any]:
    found: dict[str, Any] = {"version": _version("torch"), "supported": torch_version.supported_range(), "works": False}
    if importlib.util.find_spec("torch") is None:
        return {**found, "why": "torch is not installed: traces can be read, not recorded"}
    try:
        torch_version.require_torch()
        from kinetoscope.record import torch_private
    except Exception as error:  # whatever a broken torch raises
        return {**found, "why": " ".join(str(error).split()) or type(error).__name__}
    return {**found, "version": torch_private.torch_release, "works": True, "why": None}


def _recording() -> dict[str, Any]:
    import torch

    from kinetoscope.record import torch_private
    from kinetoscope.record.activities import supported_activities

    return {
        "kineto": bool(torch_private.kineto_available()),
        "activities": sorted(activity.name for activity in supported_activities()),
        "activity_filters": torch_private.SUPPORTS_ACTIVITY_FILTERS,
        "cuda": torch.version.cuda,
        "devices": [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())],
    }
