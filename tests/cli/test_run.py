"""``kinetoscope run``: the program is left alone, and its trace is there at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import kinetoscope

pytest.importorskip("torch")

SCRIPT = """
import sys
print("argv", sys.argv, __name__, sys.path[0], flush=True)
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(6):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ENDINGS = {
    "exit": "sys.exit(3)",
    "fail": "raise ValueError('mine')",
    "sleep": "print('ready', flush=True)\nimport time\ntime.sleep(60)",
    "nothing": "",
}


def script(folder: Path, ending: str = "nothing") -> Path:
    path = folder / f"{ending}_script.py"
    path.write_text(SCRIPT + ENDINGS[ending] + "\n")
    return path


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kinetoscope", "run", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_script_runs_as_it_would_and_leaves_its_trace(tmp_path: Path) -> None:
    script(tmp_path)
    done = run(tmp_path, "--shapes", "--memory", "nothing_script.py", "--epochs", "1", "-o", "own")
    assert done.returncode == 0
    # All that stands behind the program is the program's, and its stdout is its own.
    assert done.stdout == f"argv ['nothing_script.py', '--epochs', '1', '-o', 'own'] __main__ {tmp_path}\n"
    trace = kinetoscope.read(tmp_path / "nothing_script.parquet")
    counts = {row.key: row.count for row in trace.key_averages()}
    assert counts["Optimizer.step#SGD.step"] == 6
    assert counts["aten::linear"] == 6
    assert trace.metadata.options["record_shapes"] is True
    assert any(row.cpu_memory_usage for row in trace.key_averages())
    assert "Optimizer.step#SGD.step" in done.stderr, "the summary is on stderr"
    assert "kinetoscope summary nothing_script.parquet" in done.stderr
    assert "USDT" not in done.stderr


def test_exit_status_and_traceback_are_the_programs(tmp_path: Path) -> None:
    script(tmp_path, "exit")
    done = run(tmp_path, "--no-summary", "-o", "trace.json.gz", "exit_script.py")
    assert done.returncode == 3
    assert len(kinetoscope.read(tmp_path / "trace.json.gz")) > 100
    script(tmp_path, "fail")
    done = run(tmp_path, "--no-summary", "fail_script.py")
    assert done.returncode == 1
    trace, _, rest = done.stderr.partition("ValueError: mine\n")
    assert trace.startswith("Traceback (most recent call last):\n  File ")
    assert trace.count("  File ") == 1, "no frame of ours"
    assert rest.startswith("kinetoscope: the trace is in")


def test_steps_of_the_optimizer_are_recorded_by_schedule(tmp_path: Path) -> None:
    script(tmp_path)
    done = run(tmp_path, "--no-summary", "--warmup", "1", "--active", "2", "-m", "nothing_script", "a")
    assert done.returncode == 0
    assert done.stdout.startswith(f"argv ['{tmp_path}/nothing_script.py', 'a'] __main__ ")
    trace = kinetoscope.read(tmp_path / "nothing_script.parquet")
    assert trace.metadata.steps == [1, 2]
    assert trace.events.filter(pl.col("name") == "Optimizer.step#SGD.step").height == 2


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_still_leaves_a_trace(tmp_path: Path, number: signal.Signals) -> None:
    script(tmp_path, "sleep")
    program = subprocess.Popen(
        [sys.executable, "-m", "kinetoscope", "run", "--no-summary", "sleep_script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        while program.stdout.readline() != "ready\n":
            assert program.poll() is None
        time.sleep(0.2)
        program.send_signal(number)
        _, errors = program.communicate(timeout=60)
    finally:
        program.kill()
    assert program.returncode == -number, errors
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    assert "kinetoscope/" not in errors.replace(str(tmp_path), ""), "no frame of ours"
    counts = {row.key: row.count for row in kinetoscope.read(tmp_path / "sleep_script.parquet").key_averages()}
    assert counts["Optimizer.step#SGD.step"] == 6


def test_patch_gives_the_program_our_profiler(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from torch.profiler import profile, schedule, ProfilerActivity\n"
        "import torch\n"
        "with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=2)) as prof:\n"
        "    for _ in range(3):\n"
        "        torch.ones(2).add(1)\n"
        "        prof.step()\n"
        "print(type(prof).__module__, sum(event.name == 'aten::add' for event in prof.events()))\n"
        "prof.export_chrome_trace('one.json'), prof.export_chrome_trace('two.json')\n"
    )
    done = run(tmp_path, "--patch", "own.py")
    assert (done.returncode, done.stdout) == (0, "kinetoscope.record.profiler 2\n")
    assert json.loads((tmp_path / "two.json").read_bytes())["traceEvents"]
    assert not (tmp_path / "own.parquet").exists()


def test_a_program_without_torch_is_told(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print('hello')\n")
    done = run(tmp_path, "plain.py")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert done.stderr == "kinetoscope: nothing was recorded: the program did not import torch\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no_such.py",), "no_such.py: no such file"),
        (("-o", "trace.txt", "s.py"), "ends in .parquet, .json, .json.gz"),
        (("-o", "no/such/trace.json", "s.py"), "there is no folder"),
        (("-o", "folder.json", "s.py"), "is a folder"),
        (("--active", "0", "s.py"), "active=0"),
        (("--wait", "2", "s.py"), "needs --active"),
        (("--activities", "cpu,nonsense", "s.py"), "unknown nonsense; choose from cpu, cuda"),
        (("--patch", "--shapes", "s.py"), "without --output and other options"),
        (("--no-such-option", "s.py"), "kinetoscope run --help"),
    ],
)
def test_what_cannot_be_run_is_one_line_before_anything_runs(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    from kinetoscope.cli import main as commands

    (tmp_path / "folder.json").mkdir()
    (tmp_path / "s.py").write_text("raise SystemExit('it ran')\n")
    code = "import sys; from kinetoscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.startswith(f"{commands.NAME}: ")
    assert done.stderr.count("\n") == 1
