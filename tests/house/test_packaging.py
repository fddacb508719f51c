"""What is in the wheel, and what its metadata promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import kinetoscope

from .pages import ROOT


def built(target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    return built("sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    return built("wheel", tmp_path_factory.mktemp("wheel"))


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


def test_a_wheel_made_of_the_sdist_is_the_same(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert {"LICENSE", "README.md", "SECURITY.md", "CHANGELOG.md", "pyproject.toml"} <= {path.name for path in source.iterdir()}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "made")]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    (made,) = (tmp_path / "made").iterdir()

    def content(path: Path) -> dict[str, int]:
        with zipfile.ZipFile(path) as archive:
            return {info.filename: info.CRC for info in archive.infolist()}

    assert content(made) == content(wheel)


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_and_works_in_an_empty_environment(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    package: Path = request.getfixturevalue(kind)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "empty")], check=True, timeout=120)
    scripts = tmp_path / "empty" / ("Scripts" if os.name == "nt" else "bin")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=400)
        assert done.returncode == 0, done.stderr
        return done

    run(str(scripts / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", str(package))
    kinetoscope_command = str(scripts / "kinetoscope")
    assert run(kinetoscope_command, "--version").stdout == f"kinetoscope {kinetoscope.__version__}\n"
    trace = ROOT / "tests" / "data" / "traces" / "nvidia_alexnet_cuda_sync.json.gz"
    assert "aten::conv2d" in run(kinetoscope_command, "summary", str(trace), "--limit", "0").stdout
    run(kinetoscope_command, "convert", str(trace), "out.parquet")
    assert "torch is not installed" in run(kinetoscope_command, "doctor").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_learns_the_commands(shell: str) -> None:
    program = "import sys; from kinetoscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
    completing = {
        "bash": {"COMP_WORDS": "kinetoscope sum", "COMP_CWORD": "1"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "kinetoscope sum"},
        "fish": {"_TYPER_COMPLETE_ARGS": "kinetoscope sum", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **completing, "_KINETOSCOPE_COMPLETE": f"complete_{shell}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "summary" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr


def test_the_workflow_tests_what_the_package_promises() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for version in re.findall(r"Python :: (3\.\d+)", project):
        assert f'"{version}"' in workflow
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = re.findall(r"run: make ([^\n]*)", workflow)
    assert called
    for line in called:
        words = re.sub(r"\S+=\S*\{\{.*?\}\}|\S+=\S+|--\S+", "", line).split()
        assert words and set(words) <= targets, line
