"""Which format a name asks for, and which a content is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
import zstandard
from polars.testing import assert_frame_equal

import kinetoscope
from kinetoscope.formats.registry import COMPRESSIONS, FORMATS, format_of, write
from kinetoscope.trace.nesting import nested
from kinetoscope.trace.trace import Trace


def small() -> Trace:
    rows = {"name": ["aten::mm", "inner"], "phase": "X", "category": "cpu_op", "start_ns": [0, 10], "duration_ns": [50, 20],
            "process": 1, "thread": 2}  # fmt: skip
    return Trace(nested(Trace(pl.DataFrame(rows)).events))


NAMED = [(suffix, one.name) for one in FORMATS for suffix in one.suffixes]


@pytest.mark.parametrize(("suffix", "name"), NAMED)
def test_a_suffix_means_its_format_in_any_case(suffix: str, name: str) -> None:
    for path in (f"x{suffix}", f"x.json{suffix}", f"X{suffix.upper()}", Path("folder.csv") / f"a.b{suffix}"):
        assert (format_of(path)[0].name, format_of(path)[1]) == (name, None)


@pytest.mark.parametrize(("suffix", "name"), NAMED)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_compressed_name_is_that_format_compressed_or_an_error(
    suffix: str, name: str, compression: str, tmp_path: Path
) -> None:
    path = tmp_path / f"x{suffix}{compression}"
    (format_,) = (one for one in FORMATS if one.name == name)
    if format_.is_compressed:
        with pytest.raises(ValueError, match=f"{name} is compressed already; write to a name that ends in {suffix}"):
            write(small(), path)
        assert not list(tmp_path.iterdir())
        return
    write(small(), path)
    write(small(), tmp_path / f"x{suffix}")
    inflate = (
        gzip.decompress if compression == ".gz" else lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)
    )
    assert inflate(path.read_bytes()) == (tmp_path / f"x{suffix}").read_bytes()
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([path.name, f"x{suffix}"])


def test_a_compressed_speedscope_file_is_no_kineto_json(tmp_path: Path) -> None:
    small().write(tmp_path / "x.speedscope.json.gz")
    assert "speedscope" in json.loads(gzip.decompress((tmp_path / "x.speedscope.json.gz").read_bytes()))["$schema"]


@pytest.mark.parametrize("name", ["x", "x.xyz", "x.gz", "x.json.bz2", "json", "x.pb", "x.jsonx"])
def test_an_unknown_suffix_lists_those_there_are(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown suffix; write to \.parquet, \.json, .*\.speedscope\.json.*\.json\.gz"):
        small().write(tmp_path / name)


def test_options_belong_to_formats(tmp_path: Path) -> None:
    small().write(tmp_path / "x.folded.gz", metric="calls")
    assert gzip.decompress((tmp_path / "x.folded.gz").read_bytes()) == b"aten::mm 1\naten::mm;inner 1\n"
    with pytest.raises(ValueError, match="CSV has no option 'metric'; only collapsed stacks has it"):
        small().write(tmp_path / "x.csv", metric="calls")


def test_what_is_only_written_is_named_when_it_is_read(tmp_path: Path) -> None:
    small().write(tmp_path / "x.arrow")
    with pytest.raises(kinetoscope.TraceError, match="it is Arrow, which is only written"):
        kinetoscope.read(tmp_path / "x.arrow")


def test_side_tables_are_kept_in_the_parquet_file(tmp_path: Path) -> None:
    tables = {"snapshots": pl.DataFrame({"address": [1, 2**62], "frames": [["a"], []]}), "empty": pl.DataFrame({"x": []})}
    trace = Trace(small().events, tables=tables)
    trace.write(tmp_path / "t.parquet")
    again = kinetoscope.read(tmp_path / "t.parquet")
    assert again.tables.keys() == tables.keys()
    for name, table in tables.items():
        assert_frame_equal(again.tables[name], table)
    # Every Parquet reader opens the events alone.
    assert_frame_equal(pl.read_parquet(tmp_path / "t.parquet"), trace.events)
    assert again.sql("select max(address) as a from snapshots").item() == 2**62
    assert again.part("name = 'inner'").tables["snapshots"].height == 2
    with pytest.raises(TypeError):
        again.tables["other"] = pl.DataFrame()  # type: ignore[index]


def test_a_file_of_the_first_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.parquet"
    small().events.write_parquet(path, metadata={"kinetoscope": '{"schema_version":1,"steps":[3]}'})
    old = kinetoscope.read(path)
    assert (old.metadata.steps, dict(old.tables), len(old)) == ([3], {}, 2)
    old.write(tmp_path / "new.parquet")
    assert kinetoscope.read(tmp_path / "new.parquet").metadata.schema_version == 2
