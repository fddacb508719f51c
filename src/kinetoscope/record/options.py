"""How a window is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RecordOptions:
    """What is recorded, as torch.profiler's arguments say it."""

    use_device: str | None = None
    activities: tuple[str, ...] = ()
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    fallback: str | None = None
    """cuda or privateuse1 where torch measures device time itself."""
    post_processing_timeout_s: float | None = None

    def described(self, recorder: str) -> dict[str, Any]:
        """The options as a trace's metadata has them.

        Args:
            recorder: name of the engine that recorded.
        """
        return {
            "recorder": recorder,
            "activities": sorted(self.activities),
            "use_device": self.use_device,
            "record_shapes": self.record_shapes,
            "profile_memory": self.profile_memory,
            "with_stack": self.with_stack,
            "with_flops": self.with_flops,
            "with_modules": self.with_modules,
        }
