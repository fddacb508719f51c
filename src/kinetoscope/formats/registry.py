"""Which file format is meant: by content when reading, by suffix when writing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetoscope.common.forked import require_polars
from kinetoscope.formats.format import Format

if TYPE_CHECKING:
    from kinetoscope.formats.sources import Source
    from kinetoscope.trace.issues import Issues
    from kinetoscope.trace.trace import Trace

FORMATS: tuple[Format, ...] = (
    Format(
        "Parquet",
        (".parquet",),
        "the complete table; Polars, pandas, DuckDB, Spark",
        reader="kinetoscope.formats.parquet:read",
        writer="kinetoscope.formats.parquet:write",
        magics=(b"PAR1",),
        is_compressed=True,
    ),
    Format(
        "Kineto JSON",
        (".json",),
        "Perfetto, TensorBoard, chrome://tracing, HTA",
        reader="kinetoscope.formats.chrome.reader:read_source",
        writer="kinetoscope.formats.chrome.writer:write_chrome",
        streamer="kinetoscope.formats.chrome.streamed:convert_to_parquet",
        compresses_itself=(".gz",),
    ),
    Format(
        "Perfetto",
        (".pftrace", ".perfetto-trace"),
        "ui.perfetto.dev, trace_processor; long traces",
        writer="kinetoscope.formats.perfetto.writer:write_perfetto",
        is_compressed=True,
    ),
    Format(
        "speedscope",
        (".speedscope.json",),
        "speedscope.app",
        writer="kinetoscope.formats.speedscope:write_speedscope",
    ),
    Format(
        "collapsed stacks",
        (".folded", ".collapsed"),
        "flame graphs with flamegraph.pl, inferno, speedscope",
        writer="kinetoscope.formats.collapsed:write_stacks",
        options=("metric",),
    ),
    Format(
        "pprof",
        (".pb.gz", ".pprof"),
        "pprof and the viewers around it",
        writer="kinetoscope.formats.pprof:write_stacks",
        is_compressed=True,
    ),
    Format("CSV", (".csv",), "spreadsheets", writer="kinetoscope.formats.tables:write_csv"),
    Format("NDJSON", (".ndjson", ".jsonl"), "a JSON object for each row", writer="kinetoscope.formats.tables:write_ndjson"),
    Format(
        "Arrow",
        (".arrow", ".feather"),
        "Polars, pandas, Arrow in any language",
        writer="kinetoscope.formats.tables:write_arrow",
        magics=(b"ARROW1",),
        is_compressed=True,
    ),
)
"""Every format, in the order in which it is told of."""

KINETO_JSON = FORMATS[1]

COMPRESSIONS = (".gz", ".zst")
"""Endings that may follow the suffix of a format that is not compressed in itself."""


def read(path: str | os.PathLike[str], issues: Issues | None = None) -> Trace:
    """Read a trace, its format recognised by its first bytes.

    Args:
        path: a local path, a URL that fsspec knows, ``-`` for standard input, or ``archive.zip::member``.
        issues: takes the faults that reading finds, with their first positions.

    Raises:
        FileNotFoundError: there is no such file.
        TraceError: the file holds no trace, or one in a format that is only written; the message says what it looks like.
        ForkedProcessError: the process was forked off from one that had used Polars.
    """
    from kinetoscope.formats.sources import Source
    from kinetoscope.trace.errors import TraceError

    require_polars("Reading a trace")
    source = Source(os.fspath(path), issues)
    format_ = _format_of(source)
    if format_.read is None:
        raise TraceError(f"{source.name} holds no trace that can be read: it is {format_.name}, which is only written")
    trace: Trace = format_.read(source)
    return trace


def to_parquet(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> int:
    """Turn a trace of any format that can be read into Parquet, in bounded memory where it is text.

    Returns:
        The number of events.

    Raises:
        FileNotFoundError, TraceError, ForkedProcessError: as from :func:`read`.
        OSError: the file cannot be written.
    """
    from kinetoscope.formats.sources import Source

    require_polars("Reading a trace")
    source = Source(os.fspath(path))
    convert = _format_of(source).to_parquet
    if convert is not None:
        return int(convert(source, out))
    source.close()
    trace = read(path)
    write(trace, out)
    return len(trace)


def _format_of(source: Source) -> Format:
    return next((one for one in FORMATS if one.recognises(source.start)), KINETO_JSON)


def write(trace: Trace, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a trace in the format that the suffix names, compressed where ``.gz`` or ``.zst`` follows it.

    Raises:
        ValueError: the suffix names no format, or the format has no such option; the message lists those there are.
        OSError: the file cannot be written.
        ForkedProcessError: the process was forked off from one that had used Polars.
    """
    require_polars("Writing a trace")
    format_, compression = format_of(path)
    unknown = [name for name in options if name not in format_.options]
    if unknown:
        having = [one.name for one in FORMATS if unknown[0] in one.options]
        hint = f"only {', '.join(having)} has it" if having else f"it has {', '.join(format_.options) or 'none'}"
        raise ValueError(f"{format_.name} has no option {unknown[0]!r}; {hint}")
    writer = format_.write
    assert writer is not None
    if compression is None or compression in format_.compresses_itself:
        writer(trace, path, **options)
        return
    from kinetoscope.formats.compressed import compressed_path

    with compressed_path(path, compression) as plain:
        writer(trace, plain, **options)


def format_of(path: str | os.PathLike[str]) -> tuple[Format, str | None]:
    """The format that a name asks for, and the ending of its compression if it has one.

    Raises:
        ValueError: the suffix names no format, or one that is compressed already; the message says what to write instead.
    """
    name = Path(path).name.lower()
    # The longest suffix first: .speedscope.json is not .json, and .pb.gz is a suffix of its own.
    known = sorted(((suffix, one) for one in FORMATS if one.writer for suffix in one.suffixes), key=lambda pair: -len(pair[0]))
    for suffix, format_ in known:
        if name.endswith(suffix):
            return format_, None
    for compression in COMPRESSIONS:
        inner = name.removesuffix(compression)
        for suffix, format_ in known:
            if inner != name and inner.endswith(suffix):
                if format_.is_compressed:
                    raise ValueError(
                        f"{os.fspath(path)}: {format_.name} is compressed already; write to a name that ends in {suffix}"
                    )
                return format_, compression
    raise ValueError(f"{os.fspath(path)}: unknown suffix; write to {', '.join(suffixes())}")


def suffixes() -> list[str]:
    """The suffixes that can be written, and how they may be compressed."""
    plain = [suffix for one in FORMATS if one.writer for suffix in one.suffixes]
    packable = [one.suffixes[0] for one in FORMATS if one.writer and not one.is_compressed]
    return [*plain, *(suffix + compression for suffix in packable for compression in COMPRESSIONS)]


def describe() -> str:
    """Return the formats as a Markdown table, one row a format."""
    lines = ["| format | suffix | read | written | for |", "|---|---|---|---|---|"]
    for one in FORMATS:
        endings = " ".join(f"`{suffix}`" for suffix in one.suffixes)
        packed = "" if one.is_compressed else ", and with " + " ".join(f"`{ending}`" for ending in COMPRESSIONS)
        cells = (one.name, endings + packed, "yes" if one.reader else "", "yes" if one.writer else "", one.purpose)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
