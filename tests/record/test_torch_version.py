from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kinetoscope.record import torch_version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.13.0+cpu", (2, 13, 0)),
        ("2.6.0", (2, 6, 0)),
        ("2.15.0a0+git1234", (2, 15, 0)),
        ("2.14.0.dev20260101+cu130", (2, 14, 0)),
        ("2.7", (2, 7, 0)),
        ("12.6", (12, 6, 0)),
    ],
)
def test_versions_are_read(text: str, expected: tuple[int, int, int]) -> None:
    assert torch_version.parse_version(text) == expected


def test_what_is_no_version() -> None:
    with pytest.raises(ValueError, match="nightly"):
        torch_version.parse_version("nightly")


def test_the_range() -> None:
    supported = [minor for minor in range(30) if torch_version.is_supported((2, minor, 1))]
    assert supported == list(range(6, 15))
    assert not torch_version.is_supported((1, 13, 0)) and not torch_version.is_supported((3, 6, 0))


def test_the_installed_torch_is_supported() -> None:
    import torch

    assert torch_version.require_torch() == torch_version.parse_version(torch.__version__)


def run_with(folder: Path, source: str, **environment: str) -> str:
    """Import the recorder in a process whose torch is the given source; return what the import said."""
    (folder / "torch.py").write_text(source)
    program = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        "try:\n"
        "    import kinetoscope.record.torch_private\n"
        "except BaseException as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PATH": "", **environment},
    )
    return done.stdout


@pytest.mark.parametrize("version", ["2.5.1", "1.13.0", "2.15.0", "3.0.0a0+git12"])
def test_a_torch_outside_the_range_is_refused(tmp_path: Path, version: str) -> None:
    said = run_with(tmp_path, f"__version__ = {version!r}")
    assert said.startswith("ImportError")
    assert "2.6 to 2.14" in said and version in said and "KINETOSCOPE_ALLOW_TORCH=1" in said


def test_the_override_lets_it_through(tmp_path: Path) -> None:
    said = run_with(tmp_path, "__version__ = '2.15.0'", KINETOSCOPE_ALLOW_TORCH="1")
    # The stand-in has nothing inside, so the next import fails: the check was passed.
    assert said.startswith("ModuleNotFoundError") and "2.6 to 2.14" not in said
    assert "2.6 to 2.14" in run_with(tmp_path, "__version__ = '2.15.0'", KINETOSCOPE_ALLOW_TORCH="0")


def test_a_missing_torch_says_how_to_get_it(tmp_path: Path) -> None:
    said = run_with(tmp_path, "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    assert said.startswith("ImportError") and "pip install 'kinetoscope[torch]'" in said


def test_a_broken_torch_says_what_is_broken(tmp_path: Path) -> None:
    said = run_with(tmp_path, "raise ImportError('libcudart.so.12: cannot open shared object file')")
    assert "libcudart.so.12" in said and "kinetoscope[torch]" not in said
    said = run_with(tmp_path, "import missing_dependency")
    assert "missing_dependency" in said and "kinetoscope[torch]" not in said
