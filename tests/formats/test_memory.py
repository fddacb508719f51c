"""How much memory reading takes, measured in a process of its own."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared_traces import TRACES

STATUS = Path("/proc/self/status")

pytestmark = pytest.mark.skipif(not STATUS.exists(), reason="the peak of this process alone is known on Linux only")

# Not ru_maxrss: that counts what the parent held when it forked.
CHILD = """
import sys
from kinetoscope.formats.chrome.reader import parse_chrome, read_chrome

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

parse_chrome(b'[{"ph": "X", "name": "warm", "ts": 1, "dur": 1, "args": {"External id": 1}}]', "warm")
before = peak()
trace = read_chrome(sys.argv[1])
print(len(trace), peak() - before)
"""


def repeated(name: str, times: int) -> bytes:
    """A long trace: the events of a real one again and again, each time later."""
    data = json.loads(gzip.decompress((TRACES / name).read_bytes()))
    events = [event for event in data.pop("traceEvents") if event["ph"] != "M"]
    parts = []
    for _ in range(times):
        for event in events:
            event["ts"] += 10_000_000
            if "id" in event:
                event["id"] += 1_000_000
        parts.append(json.dumps(events, separators=(", ", ": "))[1:-1])
    return f'{json.dumps(data)[:-1]}, "traceEvents": [{", ".join(parts)}]}}'.encode()


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_at_most_two_and_a_half_times_the_text(suffix: str, tmp_path: Path) -> None:
    text = repeated("nvidia_nccl_2ranks_rank0.json.gz", 5)
    assert len(text) > 35_000_000
    path = tmp_path / f"t{suffix}"
    path.write_bytes(text if suffix == ".json" else gzip.compress(text, 1))
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True, timeout=300)
    rows, growth = map(int, done.stdout.split())
    assert rows == 5 * 40_535
    assert growth <= 2.5 * len(text), f"{growth / len(text):.2f} times the text"
    # A table that takes no room was not read.
    assert growth > 0.2 * len(text)


def test_a_small_file_is_not_dominated_by_a_fixed_part(tmp_path: Path) -> None:
    text = repeated("nvidia_nccl_2ranks_rank0.json.gz", 1)
    path = tmp_path / "t.json"
    path.write_bytes(text)
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True, timeout=300)
    rows, growth = map(int, done.stdout.split())
    assert rows == 40_535
    # The threads of Polars and what it keeps for them: some 12 MB, whatever the file.
    assert growth <= 2.5 * len(text) + 16e6, f"{growth / len(text):.2f} times the text"
