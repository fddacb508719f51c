"""What is in the wheel, and what its metadata promises."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import kinetoscope

from .pages import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = folder.glob("*.whl")
    return built


def metadata_of(wheel: Path) -> tuple[dict[str, list[str]], str]:
    """Headers of the wheel's METADATA, and the text of its entry points."""
    with zipfile.ZipFile(wheel) as archive:
        (folder,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        message = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        points = archive.read(f"{folder}/entry_points.txt").decode()
    return {key: message.get_all(key, []) for key in message}, points


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    sources = (ROOT / "src").rglob("*")
    expected = {path.relative_to(ROOT / "src").as_posix() for path in sources if path.is_file() and path.suffix != ".pyc"}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
    assert held == expected
    assert "kinetoscope/py.typed" in held
    assert len(licences) == 1


def test_the_wheel_runs_anywhere(wheel: Path) -> None:
    assert wheel.name == f"kinetoscope-{kinetoscope.__version__}-py3-none-any.whl"


def test_installing_never_brings_torch_unasked(wheel: Path) -> None:
    headers, _ = metadata_of(wheel)
    required = [line for line in headers["Requires-Dist"] if "extra ==" not in line]
    names = sorted(line.split(">")[0].split("<")[0].strip() for line in required)
    assert names == ["isal", "msgspec", "numpy", "polars", "rich", "typer"]
    torch = [line for line in headers["Requires-Dist"] if line.startswith("torch")]
    assert len(torch) == 1
    assert "extra == 'torch'" in torch[0]


def test_the_supported_torch_is_the_same_in_code_and_metadata(wheel: Path) -> None:
    from kinetoscope.record.torch_version import NEWEST, OLDEST

    headers, _ = metadata_of(wheel)
    (torch,) = (line for line in headers["Requires-Dist"] if line.startswith("torch"))
    assert f">={OLDEST[0]}.{OLDEST[1]}" in torch
    assert f"<{NEWEST[0]}.{NEWEST[1] + 1}" in torch


def test_the_command_is_the_one_that_turns_errors_into_a_status(wheel: Path) -> None:
    _, points = metadata_of(wheel)
    assert "kinetoscope = kinetoscope.cli.main:main" in points
