"""The memory timeline of a recording, by torch's own analysis of Kineto's event tree."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path
from typing import Any

NEEDS = ("record_shapes", "profile_memory", "with_stack")
"""Options that the analysis needs."""


def default_device(use_device: str | None) -> str:
    """The device whose memory is shown if none is named."""
    import torch

    if use_device and use_device != "cuda":
        return f"{use_device}:0"
    return "cuda:0" if torch.cuda.is_available() else "cpu"


def export(timeline: Any, path: str, device: str) -> None:
    """Write a timeline in the format of the suffix."""
    if path.endswith(".html"):
        timeline.export_memory_timeline_html(path, device)
        return
    write = timeline.export_memory_timeline_raw if path.endswith("raw.json.gz") else timeline.export_memory_timeline
    with tempfile.TemporaryDirectory(prefix="kinetoscope-") as folder:
        plain = os.path.join(folder, "timeline.json")
        write(plain, device)
        content = Path(plain).read_bytes()
    Path(path).write_bytes(gzip.compress(content, 6) if path.endswith(".gz") else content)
