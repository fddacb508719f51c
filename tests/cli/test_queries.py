"""``sql``, ``schema``, ``convert`` and ``check`` as users call them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import kinetoscope
from kinetoscope.cli.main import main
from kinetoscope.trace import schema

TRACES = Path(__file__).parent.parent / "data" / "traces"
TRACE = TRACES / "nvidia_ns_resolution_train.json.gz"


@pytest.fixture(scope="module")
def whole() -> kinetoscope.Trace:
    return kinetoscope.read(TRACE)


@pytest.fixture(scope="module")
def parquet(whole: kinetoscope.Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries") / "trace.parquet"
    whole.write(path)
    return path


COUNTS = "select category, count(*) as n from events where category is not null group by category order by n desc, category"


def test_sql_gives_the_same_rows_in_every_form(
    whole: kinetoscope.Trace, parquet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = whole.sql(COUNTS)
    rows = expected.to_dicts()
    for place in (TRACE, parquet):
        assert main(["sql", str(place), COUNTS, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == rows
    assert main(["sql", str(parquet), COUNTS, "--format", "ndjson"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows
    assert main(["sql", str(parquet), COUNTS, "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [{"category": line["category"], "n": int(line["n"])} for line in lines] == rows
    assert main(["sql", str(parquet), COUNTS]) == 0
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()]
    assert table[0] == ["category", "n"]
    assert table[2:] == [[row["category"], str(row["n"])] for row in rows]
    for suffix, read in (("csv", pl.read_csv), ("json", pl.read_json), ("ndjson", pl.read_ndjson),
                         ("parquet", pl.read_parquet), ("arrow", pl.read_ipc)):  # fmt: skip
        path = tmp_path / f"rows.{suffix}"
        assert main(["sql", str(parquet), COUNTS, "--output", str(path)]) == 0
        assert read(path).cast({"n": pl.Int64}).to_dicts() == rows  # type: ignore[operator]
        assert f"wrote {len(rows)} rows" in capsys.readouterr().err


def test_sql_over_a_folder_says_which_file(
    whole: kinetoscope.Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep").mkdir()
    whole.write(tmp_path / "a.parquet")
    kinetoscope.read(TRACES / "cpu_only_small.json.gz").write(tmp_path / "deep" / "b.json")
    (tmp_path / "notes.txt").write_text("no trace, and not taken for one")
    (tmp_path / "config.json").write_text('{"lr": 1}')
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "other.parquet")
    query = "select file, count(*) as n from events group by file order by file"
    assert main(["sql", str(tmp_path), query, "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == [{"file": "a.parquet", "n": len(whole)}, {"file": "deep/b.json", "n": 18}]
    assert captured.err.count("left out:") == 2
    assert "config.json" in captured.err and "other.parquet" in captured.err
    assert main(["sql", str(tmp_path / "deep"), "select rank from events limit 1", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "rank\n34\n"


def test_names_reach_a_terminal_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinetoscope.Trace(pl.DataFrame({"name": ["\x1b[31mred\nnext"], "start_ns": [0]})).write(tmp_path / "t.parquet")
    assert main(["sql", str(tmp_path / "t.parquet"), "select name from events"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\\x1b[31mred\\x0anext" in out


def test_schema_tells_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    out = capsys.readouterr().out
    assert all(f"| {column.name} " in out and column.meaning.split("|")[0] in out for column in schema.COLUMNS)
    assert main(["schema", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [column["name"] for column in told["columns"]] == list(schema.SCHEMA)
    assert told["schema_version"] == schema.SCHEMA_VERSION


def test_convert_there_and_back_gives_the_same_table(whole: kinetoscope.Trace, tmp_path: Path) -> None:
    place: Path = TRACE
    for name in ("a.parquet", "b.json.gz", "c.json", "d.parquet"):
        assert main(["convert", str(place), str(tmp_path / name)]) == 0
        place = tmp_path / name
        assert_frame_equal(kinetoscope.read(place).events, whole.events)


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "arrow", "speedscope.json"])
def test_convert_writes_what_its_suffix_says(suffix: str, parquet: Path, whole: kinetoscope.Trace, tmp_path: Path) -> None:
    path = tmp_path / f"out.{suffix}"
    assert main(["convert", str(parquet), str(path)]) == 0
    if suffix == "speedscope.json":
        assert json.loads(path.read_text())["exporter"] == "kinetoscope"
    else:
        reader = {"csv": pl.read_csv, "ndjson": pl.read_ndjson, "arrow": pl.read_ipc}[suffix]
        assert reader(path, **({"infer_schema_length": None} if suffix != "arrow" else {})).height == len(whole)  # type: ignore[operator]


def test_convert_a_part(whole: kinetoscope.Trace, parquet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "part.parquet"
    condition = ["--category", "kernel,gpu_memcpy", "--where", "duration_ns > 5000 or name like 'Memcpy%'"]
    assert main(["convert", str(parquet), str(out), *condition]) == 0
    events = kinetoscope.read(out).events
    chosen = whole.events.filter(
        ((pl.col("category") == "kernel") & (pl.col("duration_ns") > 5000)) | (pl.col("category") == "gpu_memcpy")
    ).filter((pl.col("duration_ns") > 5000) | pl.col("name").str.starts_with("Memcpy"))
    assert events["start_ns"].to_list() == chosen["start_ns"].to_list() != []
    assert f"wrote {len(events):,} events" in capsys.readouterr().err
    first = whole.metadata.steps[0]
    assert main(["convert", str(parquet), str(out), "--steps", f"{first}-{first}"]) == 0
    part = kinetoscope.read(out)
    assert part.metadata.steps == [first]
    assert 0 < len(part) < len(whole)


def test_convert_for_sharing(parquet: Path, whole: kinetoscope.Trace, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        key = ["--anonymize-key", "k"] if name != "three" else []
        assert main(["convert", str(parquet), str(tmp_path / f"{name}.json.gz"), "--anonymize", *key]) == 0
    one, two, three = (kinetoscope.read(tmp_path / f"{name}.json.gz") for name in ("one", "two", "three"))
    assert_frame_equal(one.events, two.events)
    assert one.events["name"].to_list() != three.events["name"].to_list()
    assert one.events["start_ns"].to_list() == whole.events["start_ns"].to_list()


def test_check_tells_faults_and_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(TRACE)]) == 0
    assert "sound" in capsys.readouterr().out
    cut = tmp_path / "cut.json"
    cut.write_bytes(gzip.decompress(TRACE.read_bytes())[:200_000])
    none = tmp_path / "none.json"
    none.write_text("hello")
    assert main(["check", str(cut)]) == 1
    assert "truncated" in capsys.readouterr().out
    assert main(["check", str(none), str(TRACE), str(cut), "--json"]) == 2
    captured = capsys.readouterr()
    reports = [json.loads(line) for line in captured.out.splitlines()]
    assert [report["path"] for report in reports] == [str(TRACE), str(cut)]
    assert "truncated" in {fault["kind"] for fault in reports[1]["faults"]}
    assert captured.err.count("\n") == 1 and "none.json" in captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sql", "TRACE", "select nme from events"], 'unable to find column "nme"'),
        (["sql", "TRACE", "select * from event"], "the table is called events"),
        (["sql", "TRACE", "selct"], "found: selct"),
        (["sql", "TRACE", "select 1", "--output", "x.foo"], "unknown suffix"),
        (["sql", "TRACE", "select 1", "--output", "x.csv", "--format", "csv"], "one of --format and --output"),
        (["sql", "no_such", "select 1"], "no such file"),
        (["sql", "EMPTY", "select 1"], "no traces in this folder"),
        (["sql", "TRACE", "select 1 as a", "--output", "no_such_folder/x.csv"], "no_such_folder"),
        (["convert", "TRACE", "x.foo"], "unknown suffix; write to .parquet"),
        (["convert", "TRACE", "x.json", "--steps", "a"], "names no steps"),
        (["convert", "TRACE", "x.json", "--steps", "999"], "no such step"),
        (["convert", "TRACE", "x.json", "--rank", "7"], "--rank 7: not in this trace"),
        (["convert", "TRACE", "x.json", "--category", "kernl"], "did you mean kernel?"),
        (["convert", "TRACE", "x.json", "--where", "foo = 1"], 'unable to find column "foo"'),
        (["convert", "TRACE", "no_such_folder/x.json"], "no_such_folder"),
        (["convert", "no_such", "x.json"], "no such file"),
        (["check", "EMPTY"], "is a folder"),
    ],
)
def test_errors_are_one_line_and_status_2(
    arguments: list[str], said: str, parquet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    given = [{"TRACE": str(parquet), "EMPTY": "empty"}.get(argument, argument) for argument in arguments]
    assert main(given) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.startswith("kinetoscope: ")
    assert said.lower() in captured.err.lower()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


def test_faults_of_what_is_read_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress(TRACE.read_bytes())[:200_000])
    assert main(["convert", str(path), str(tmp_path / "x.parquet")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("kinetoscope: ") and "read with faults" in lines[0]


def test_traces_come_from_standard_input() -> None:
    command = [sys.executable, "-m", "kinetoscope", "sql", "-", "select count(*) as n from events", "--format", "csv"]
    done = subprocess.run(command, input=TRACE.read_bytes(), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f"n\n{len(kinetoscope.read(TRACE))}\n".encode())
    command = [sys.executable, "-m", "kinetoscope", "summary", "-", "--json"]
    done = subprocess.run(command, input=TRACE.read_bytes(), capture_output=True, timeout=60, check=False)
    assert json.loads(done.stdout)["trace"]["events"] == len(kinetoscope.read(TRACE))
