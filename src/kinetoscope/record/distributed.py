"""What is known about a distributed run, for the metadata of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kinetoscope.common.user_warning import warn_user
from kinetoscope.record import torch_private

_warned: set[str] = set()


def distributed_info() -> dict[str, Any] | None:
    """Return backend, rank, world_size, pg_count, pg_config (and nccl_version) of the run as JSON values.

    None where ``torch.distributed`` is missing or not initialised. A fact that torch fails to give is left out, with
    one warning; nothing is ever raised.
    """
    try:
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            return None
    except Exception as error:
        _warn_once("whether it is initialised", error)
        return None
    facts: dict[str, Callable[[], Any]] = {
        "backend": dist.get_backend,
        "rank": dist.get_rank,
        "world_size": dist.get_world_size,
        "pg_count": dist.get_pg_count,
        "pg_config": torch_private.all_process_group_configs,
    }
    info: dict[str, Any] = {}
    for name, ask in facts.items():
        _note(info, name, ask)
    if info.get("backend") == "nccl":
        _note(info, "nccl_version", _nccl_version)
    return info or None


def json_safe(value: Any) -> Any:
    """Return ``value`` as JSON can hold it: NumPy numbers and arrays plain, keys as text, the unknown as its text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_safe(item) for item in value]
    plain = getattr(value, "tolist", None)  # of NumPy's numbers and arrays alike
    return json_safe(plain()) if callable(plain) else str(value)


def _note(info: dict[str, Any], name: str, ask: Callable[[], Any]) -> None:
    try:
        info[name] = json_safe(ask())
    except Exception as error:
        _warn_once(name, error)


def _nccl_version() -> str:
    import torch

    version = torch.cuda.nccl.version()
    return ".".join(str(part) for part in version) if isinstance(version, tuple) else str(version)


def _warn_once(what: str, error: Exception) -> None:
    if what not in _warned:
        _warned.add(what)
        warn_user(f"torch.distributed does not tell {what}, the trace goes without it: {error!r}")
