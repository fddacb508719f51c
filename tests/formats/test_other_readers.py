"""What we write passes torch's own validator as the original does, and reads the same in other programs' ways."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kinetoscope.formats.chrome.reader import read_chrome
from kinetoscope.formats.chrome.writer import write_chrome
from tests.shared_traces import FACTS, NAMES, TRACES

# Bare lists and files without arguments are outside of what the validator expects.
CHECKED = [name for name in NAMES if FACTS[name]["bytes"] < 900_000]


@pytest.mark.parametrize("name", CHECKED)
def test_torchs_validator_says_the_same(name: str, tmp_path: Path) -> None:
    validator = pytest.importorskip("torch.profiler._trace_validator")
    path = tmp_path / "t.json.gz"
    write_chrome(read_chrome(TRACES / name), path)
    passed, violations = validator.validate_trace(str(path))
    passed_before, violations_before = validator.validate_trace(str(TRACES / name))
    assert (passed, sorted(map(str, violations))) == (passed_before, sorted(map(str, violations_before)))


@pytest.mark.parametrize("name", ["gpu_user_annotations.json.gz", "sglang_decode.json.gz", "nvidia_alexnet_cuda_sync.json.gz"])
def test_the_json_says_what_the_original_said(name: str, tmp_path: Path) -> None:
    """Event by event, in order: the members and arguments of the original are all there, with their values."""
    path = tmp_path / "t.json"
    write_chrome(read_chrome(TRACES / name), path)
    before = json.loads(gzip.decompress((TRACES / name).read_bytes()))["traceEvents"]
    after = json.loads(path.read_text())["traceEvents"]
    before = [event for event in before if event["ph"] != "M"]
    after = [event for event in after if event["ph"] != "M"]
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        arguments = old.pop("args", {})
        assert new.get("args", {}) == {**new.get("args", {}), **arguments}
        assert {key: value for key, value in new.items() if key != "args"} == old
