"""Which releases of torch the recorder supports, and the check that the installed one is among them."""

from __future__ import annotations

import os
import re

OLDEST = (2, 6)
NEWEST = (2, 14)
"""First and last supported release, as (major, minor). Recording reaches into torch's private modules, so a release
counts as supported when the whole test suite has passed with it."""

OVERRIDE_VARIABLE = "KINETOSCOPE_ALLOW_TORCH"
"""Environment variable; set to 1 it lets an unsupported torch through, at the user's own risk."""


def parse_version(text: str) -> tuple[int, int, int]:
    """Return (major, minor, patch) of a version such as ``2.13.0+cpu`` or ``2.15.0a0+git1234``.

    Raises:
        ValueError: the text does not start with a version number.
    """
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if found is None:
        raise ValueError(f"{text!r} is no version of torch")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def is_supported(version: tuple[int, int, int]) -> bool:
    """Tell whether a release of torch lies in the supported range."""
    return OLDEST <= version[:2] <= NEWEST


def supported_range() -> str:
    """Return the range as text: ``2.6 to 2.14``."""
    return f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def require_torch() -> tuple[int, int, int]:
    """Import torch and return its version as (major, minor, patch).

    Raises:
        ImportError: there is no torch, or one outside the supported range; the message says what to do. An import of
            torch that fails for its own reasons raises what torch raised.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            "recording needs torch, which is not installed: pip install 'kinetoscope[torch]', or install the build of "
            "torch that fits your hardware (https://pytorch.org/get-started). Reading a trace needs no torch."
        ) from None
    version = parse_version(torch.__version__)
    if not is_supported(version) and os.environ.get(OVERRIDE_VARIABLE, "") in ("", "0"):
        raise ImportError(
            f"Kinetoscope records with torch {supported_range()}; the installed torch is {torch.__version__}. Install "
            f"another torch or another Kinetoscope, or try it all the same with {OVERRIDE_VARIABLE}=1 set."
        )
    return version
