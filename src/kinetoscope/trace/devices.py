"""The kinds of devices, by the numbers that torch gives them (``c10/core/DeviceType.h``)."""

from __future__ import annotations

DEVICE_NAMES: dict[int, str] = {
    0: "cpu",
    1: "cuda",
    2: "mkldnn",
    3: "opengl",
    4: "opencl",
    5: "ideep",
    6: "hip",
    7: "fpga",
    8: "maia",
    9: "xla",
    10: "vulkan",
    11: "metal",
    12: "xpu",
    13: "mps",
    14: "meta",
    15: "hpu",
    16: "ve",
    17: "lazy",
    18: "ipu",
    19: "mtia",
    20: "privateuseone",
}
"""Number -> name, as in ``Device Type`` of memory events and in the column ``device_type``."""

DEVICE_NUMBERS: dict[str, int] = {name: number for number, name in DEVICE_NAMES.items()}
"""Name -> number."""
