"""A Kineto result made from a trace file: what a device's recording looks like, on a machine without the device."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from torch.autograd import DeviceType

DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
RUNTIME_CATEGORIES = ("cuda_runtime", "cuda_driver", "overhead", "cuda_sync")


class FakeEvent:
    """Answers as torch's ``_KinetoEvent``, from one event of a Chrome trace."""

    def __init__(self, event: dict[str, Any], number: int, thread: int) -> None:
        self.event = event
        self.arguments: dict[str, Any] = event.get("args", {})
        self.category: str = event.get("cat", "")
        self.number = number
        self.thread = thread
        self.start = int(Decimal(str(event["ts"])) * 1000)
        self.duration = int(Decimal(str(event.get("dur", 0))) * 1000)

    def name(self) -> str:
        return str(self.event["name"])

    def overload_name(self) -> str:
        return ""

    def start_ns(self) -> int:
        return self.start

    def duration_ns(self) -> int:
        return self.duration

    def end_ns(self) -> int:
        return self.start + self.duration

    def is_async(self) -> bool:
        return False

    def is_hidden_event(self) -> bool:
        return False

    def is_user_annotation(self) -> bool:
        return self.category in ("user_annotation", "gpu_user_annotation")

    def is_python_function(self) -> bool:
        return self.category == "python_function"

    def activity_type(self) -> str:
        return self.category

    def device_type(self) -> DeviceType:
        if self.category == "cpu_instant_event":
            return DeviceType.CUDA if self.arguments.get("Device Type") == 1 else DeviceType.CPU
        return DeviceType.CUDA if self.category in DEVICE_CATEGORIES else DeviceType.CPU

    def device_index(self) -> int:
        return int(self.arguments.get("device", 0))

    def device_resource_id(self) -> int:
        return int(str(self.arguments.get("stream", 0)), 0)

    def correlation_id(self) -> int:
        if self.category in ("cpu_op", "user_annotation"):
            return int(self.arguments.get("External id", 0))
        return int(self.arguments.get("correlation", 0))

    def linked_correlation_id(self) -> int:
        if self.category in DEVICE_CATEGORIES + RUNTIME_CATEGORIES:
            return max(int(self.arguments.get("External id", 0)), 0)
        return 0

    def external_id(self) -> int:
        return int(self.arguments.get("External id", 0))

    def start_thread_id(self) -> int:
        return self.thread

    def end_thread_id(self) -> int:
        return self.thread

    def fwd_thread_id(self) -> int:
        return int(self.arguments.get("Fwd thread id", 0))

    def sequence_nr(self) -> int:
        return int(self.arguments.get("Sequence number", -1))

    def scope(self) -> int:
        return 1 if "Fwd thread id" in self.arguments else 0

    def nbytes(self) -> int:
        return int(self.arguments.get("Bytes", 0))

    def shapes(self) -> list[Any]:
        return [shape if all(isinstance(size, int) for size in shape) else [] for shape in self.structured_input_shapes()]

    def structured_input_shapes(self) -> list[Any]:
        return [shape if isinstance(shape, list) else [] for shape in self.arguments.get("Input Dims", [])]

    def structured_input_strides(self) -> list[Any]:
        return []

    def concrete_inputs(self) -> list[Any]:
        return list(self.arguments.get("Concrete Inputs", []))

    def dtypes(self) -> list[str]:
        return list(self.arguments.get("Input type", []))

    def kwinputs(self) -> dict[str, Any]:
        return {}

    def stack(self) -> list[str]:
        return []

    def flops(self) -> int:
        return 0

    def flow_id(self) -> int:
        return 0

    def flow_type(self) -> int:
        return 0

    def flow_start(self) -> bool:
        return False

    def metadata_json(self) -> str:
        return ""

    def typed_metadata(self) -> dict[str, Any]:
        return {}

    def extra_meta(self) -> dict[str, str]:
        return {}

    def python_id(self) -> int:
        return -1

    def python_parent_id(self) -> int:
        return -1

    def python_module_id(self) -> int:
        return -1

    def cuda_elapsed_us(self) -> float:
        return 0.0

    def privateuse1_elapsed_us(self) -> float:
        return 0.0


class FakeResult:
    """Answers as torch's ``_ProfilerResult``."""

    def __init__(self, path: Path, most: int) -> None:
        """Take the first ``most`` events of a file."""
        document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
        wanted = [
            event
            for event in document["traceEvents"]
            if (event.get("ph") == "X" and event.get("dur", 0) >= 0)
            or (event.get("ph") == "i" and event.get("name") == "[memory]")
        ]
        wanted = sorted(wanted, key=lambda event: event["ts"])[:most]
        threads: dict[Any, int] = {}
        self.all = [
            FakeEvent(event, number, threads.setdefault((event["pid"], event["tid"]), len(threads) + 1))
            for number, event in enumerate(wanted)
            if event.get("cat") != "Trace"
        ]

    def events(self) -> list[FakeEvent]:
        return self.all

    def trace_start_ns(self) -> int:
        return min(event.start for event in self.all)
