"""``summary``, ``doctor`` and ``demo`` as users call them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.cli.main import main

TRACE = Path(__file__).parent.parent / "data" / "traces" / "nvidia_alexnet_cuda_sync.json.gz"


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("summary") / "trace.parquet"
    kinetoscope.read(TRACE).write(path)
    return path


def test_json_and_csv_hold_the_numbers_of_key_averages(parquet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {row.key: row for row in kinetoscope.read(TRACE).key_averages()}
    for path in (TRACE, parquet):
        assert main(["summary", str(path), "--json"]) == 0
        content = json.loads(capsys.readouterr().out)
        rows = {row["name"]: row for row in content["operators"]}
        assert content["trace"]["events"] == len(kinetoscope.read(TRACE))
        for name in ("aten::conv2d", "aten::relu_"):
            assert rows[name]["count"] == expected[name].count
            assert rows[name]["self_cpu_time_total"] == pytest.approx(expected[name].self_cpu_time_total)
            assert rows[name]["device_time_total"] == pytest.approx(expected[name].device_time_total)
    assert main(["summary", str(parquet), "--csv", "--sort", "count"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    counts = [int(line["count"]) for line in lines]
    assert counts == sorted(counts, reverse=True)
    assert {line["name"] for line in lines} == set(rows)


def test_filter_limit_sort_and_group(parquet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(parquet), "--filter", "CONV", "--limit", "2", "--json", "--sort", "cpu_time_total"]) == 0
    rows = json.loads(capsys.readouterr().out)["operators"]
    assert len(rows) == 2
    assert all("conv" in row["name"].lower() for row in rows)
    assert rows[0]["cpu_time_total"] >= rows[1]["cpu_time_total"]
    assert main(["summary", str(parquet), "--group-by-shape", "--csv"]) == 0
    grouped = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["summary", str(parquet), "--csv"]) == 0
    plain = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(grouped) >= len(plain)
    assert sum(int(row["count"]) for row in grouped) == sum(int(row["count"]) for row in plain)


def test_the_table_is_for_people(parquet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(parquet), "--limit", "3", "--percentiles"]) == 0
    shown = capsys.readouterr().out
    assert "Self CPU" in shown
    assert "p99" in shown.lower()
    assert "trace.parquet" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["summary", "no_such.parquet"], "no_such.parquet: no such file"),
        (["summary", str(TRACE), "--sort", "nonsense"], "self_cpu_time"),
        (["summary", str(TRACE), "--json", "--csv"], "one of --json and --csv"),
        (["summary", str(TRACE), "--filter", "("], "("),
        (["summary", __file__], "test_commands.py"),
        (["summary"], "Usage"),
        (["nonsense"], "nonsense"),
    ],
)
def test_errors_are_one_line_and_status_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    if said != "Usage":
        assert captured.out == ""
        assert captured.err.count("\n") == 1
    assert said in captured.out + captured.err


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    command = f"'{sys.executable}' -m kinetoscope summary '{TRACE}' --json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("{")
    assert done.stderr == ""


def test_doctor_knows_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["versions"]["kinetoscope"] == kinetoscope.__version__
    assert facts["python"] == sys.version.split()[0]
    assert facts["torch"]["supported"] == "2.6 to 2.14"
    if facts["torch"]["works"]:
        assert "CPU" in facts["recording"]["activities"]
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert f"polars {facts['versions']['polars']}" in shown
    assert "reading traces" in shown


def test_doctor_works_without_torch() -> None:
    code = (
        "import sys, importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
        "from kinetoscope.cli.main import main\n"
        "assert main(['doctor']) == 0\n"
        "assert 'torch' not in sys.modules\n"
        "assert main(['demo']) == 2\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "does not work: torch is not installed" in done.stdout
    assert done.stderr.startswith("kinetoscope: recording needs torch")


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kinetoscope {kinetoscope.__version__}\n"
    for command in ("run", "summary", "sql", "schema", "convert", "check", "doctor", "demo"):
        assert main([command, "--help"]) == 0
        assert "Examples" in capsys.readouterr().out


def test_the_demo_trains_and_leaves_its_files(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-m", "kinetoscope", "demo", "--output-dir", str(tmp_path / "out"), "--steps", "4"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "aten::" in done.stdout
    trace = kinetoscope.read(tmp_path / "out" / "demo.parquet")
    assert trace.metadata.steps == [2, 3]
    assert len(kinetoscope.read(tmp_path / "out" / "demo.json.gz").events) > 100
    assert "USDT" not in done.stderr
