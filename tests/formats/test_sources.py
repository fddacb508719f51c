"""Traces in files, archives, URLs and standard input, recognised by what they hold."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kinetoscope.formats import registry as formats
from kinetoscope.formats import sources
from kinetoscope.trace.errors import TraceError
from kinetoscope.trace.issues import Issues
from tests.shared_traces import parse, slice_

TEXT = json.dumps({"schemaVersion": 1, "traceEvents": [slice_("found", 1, 1)]}).encode()
OTHER = json.dumps({"schemaVersion": 1, "traceEvents": [slice_("other", 1, 1)]}).encode()


def names(path: Path | str) -> list[str | None]:
    return formats.read(path).events["name"].to_list()


def zipped(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def tarred(*members: tuple[str, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zstandard_of(content: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    compressed: bytes = zstandard.ZstdCompressor().compress(content)
    return compressed


PACKED = {
    "plain": lambda: TEXT,
    "with a byte order mark": lambda: b"\xef\xbb\xbf" + TEXT,
    "gzip": lambda: gzip.compress(TEXT),
    "gzip twice": lambda: gzip.compress(gzip.compress(TEXT)),
    "zip": lambda: zipped(("readme.txt", b"no"), ("a/t.pt.trace.json", TEXT)),
    "zip of gzip": lambda: zipped(("t.json.gz", gzip.compress(TEXT)), ("__MACOSX/._t.json", b"no")),
    "zip of one file": lambda: zipped(("trace", TEXT)),
    "tar": lambda: tarred(("readme", b"no"), ("a/t.json", TEXT), mode="w"),
    "tar.gz": lambda: tarred(("t.json", TEXT)),
    "tar.gz of gzip": lambda: tarred(("t.json.gz", gzip.compress(TEXT)), ("x.txt", b"no")),
    "zstd": lambda: zstandard_of(TEXT),
    "zstd in two frames": lambda: zstandard_of(TEXT[:40]) + zstandard_of(TEXT[40:]),
}


@pytest.mark.parametrize("kind", list(PACKED))
def test_recognised_by_content_not_by_name(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "misnamed.parquet"
    path.write_bytes(PACKED[kind]())
    assert names(path) == ["found"]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_member_of_an_archive(kind: str, tmp_path: Path) -> None:
    pack = zipped if kind == "zip" else tarred
    path = tmp_path / f"t.{kind}"
    path.write_bytes(pack(("a.json", TEXT), ("b.json", OTHER), ("c.txt", TEXT)))
    with pytest.raises(TraceError, match=r"holds 2 traces; name one, as in .*::a\.json"):
        formats.read(path)
    assert names(f"{path}::b.json") == ["other"]
    assert names(f"{path}::c.txt") == ["found"]
    with pytest.raises(TraceError, match=r"no such member; it has a\.json, b\.json, c\.txt"):
        formats.read(f"{path}::d.json")


def test_archives_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.zip"
    path.write_bytes(zipped(("a.txt", b"no"), ("b.txt", b"no")))
    with pytest.raises(TraceError, match="an archive without a trace: it has a.txt, b.txt"):
        formats.read(path)
    path.write_bytes(PACKED["zip"]()[:60])
    with pytest.raises(TraceError, match="zip archive that cannot be read"):
        formats.read(path)
    path.write_bytes(gzip.compress(gzip.compress(gzip.compress(gzip.compress(gzip.compress(TEXT))))))
    with pytest.raises(TraceError, match="packed more than three times"):
        formats.read(path)


def test_what_inflates_beyond_measure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "RATIO_COUNTS_FROM", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (8 << 20)))
    with pytest.raises(TraceError, match=r"bomb\.json\.gz inflates more than 400-fold"):
        formats.read(path)


def test_no_more_than_a_block_is_inflated_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b" " * (8 << 20)))
    blocks = list(sources.text_blocks(path, Issues()))
    assert sum(map(len, blocks)) == 8 << 20
    assert max(map(len, blocks)) <= sources.BLOCK_BYTES


@pytest.fixture
def memory_url() -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/folder/t.json.gz", gzip.compress(TEXT))
    memory.pipe("/folder/t.zip", zipped(("a.json", TEXT)))
    yield "memory://folder"
    memory.rm("/folder", recursive=True)


def test_urls(memory_url: str) -> None:
    assert names(f"{memory_url}/t.json.gz") == ["found"]
    assert names(f"{memory_url}/t.zip") == ["found"]
    with pytest.raises(FileNotFoundError):
        formats.read(f"{memory_url}/none.json")
    with pytest.raises(TraceError, match="nosuchscheme"):
        formats.read("nosuchscheme://x/t.json")


def test_parquet_from_a_url(memory_url: str, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    trace = parse([slice_("a", 1, 1)])
    trace.write(tmp_path / "t.parquet")
    fsspec.filesystem("memory").pipe("/folder/t.parquet", (tmp_path / "t.parquet").read_bytes())
    assert formats.read(f"{memory_url}/t.parquet").events.equals(trace.events)


def test_standard_input() -> None:
    code = "import kinetoscope; print(kinetoscope.read('-').events['name'].to_list())"
    done = subprocess.run([sys.executable, "-c", code], input=gzip.compress(TEXT), capture_output=True, check=True, timeout=120)
    assert done.stdout.decode().strip() == "['found']"


def test_writing_by_suffix(tmp_path: Path) -> None:
    trace = parse([slice_("a", 1, 1)])
    for suffix in (".json", ".json.gz", ".parquet", ".JSON"):
        trace.write(tmp_path / f"t{suffix}")
        assert formats.read(tmp_path / f"t{suffix}").events.equals(trace.events), suffix
    with pytest.raises(ValueError, match=r"t\.doc: unknown suffix; write to \.parquet"):
        trace.write(tmp_path / "t.doc")
