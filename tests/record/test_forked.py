"""In a process that was forked off after its parent used Polars, torch's interface works and nothing waits for ever."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "forked_calls.py"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

CALLS = re.findall(r'^    "([^"]+)": ', PROGRAM.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("forked")
    done = subprocess.run([sys.executable, str(PROGRAM), str(folder)], capture_output=True, text=True, check=False, timeout=500)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(CALLS), done.stderr
    return {line["call"]: line for line in lines}


# One process forks for all of them: on one worker.
@pytest.mark.xdist_group("forked")
@pytest.mark.parametrize("call", CALLS)
def test_in_a_forked_child(call: str, outcomes: dict[str, Any]) -> None:
    assert outcomes[call]["outcome"] == "fine", outcomes[call]["said"]


def test_a_child_forked_before_polars_was_used_has_all(tmp_path: Path) -> None:
    program = """
import os, signal, polars, torch, kinetoscope, kinetoscope.trace.trace
child = os.fork()
if child == 0:
    signal.alarm(60)
    with kinetoscope.profile(activities=[kinetoscope.ProfilerActivity.CPU]) as prof:
        torch.ones(3).cos()
    prof.trace.write("t.parquet")
    os._exit(0 if kinetoscope.read("t.parquet").sql("select count(*) from events where name = 'aten::cos'").item() == 1 else 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
