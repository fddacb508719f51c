"""pprof's format: stacks with several values each, as ``pprof`` and the viewers around it read them.

The fields are those of pprof's ``profile.proto``.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Sequence

from kinetoscope.analyze.call_tree import call_tree
from kinetoscope.common.atomic_path import atomic_path
from kinetoscope.formats.protobuf import LENGTH, field, tag, varint
from kinetoscope.trace.trace import Trace

_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _TEXT, _DEFAULT = 1, 2, 4, 5, 6, 14
_FRAME = re.compile(r"(?P<file>.*)\((?P<line>\d{1,9})\): (?P<function>.*)", re.DOTALL)


_VALUES = {
    "cpu_ns": ("cpu", "nanoseconds"),
    "device_ns": ("device", "nanoseconds"),
    "bytes": ("allocated", "bytes"),
    "calls": ("calls", "count"),
}
"""Column of a call tree -> type and unit of a sample's value."""


def write_stacks(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write the stacks of a trace with CPU time, device time, allocated bytes and calls.

    Raises:
        OSError: the file cannot be written.
    """
    tree = call_tree(trace)
    columns = [tree.nodes[column].to_list() for column in _VALUES]
    samples = zip(tree.stacks(), zip(*columns, strict=True), strict=True)
    write_pprof(path, list(_VALUES.values()), ((stack, values) for stack, values in samples if any(values)))


def write_pprof(
    path: str | os.PathLike[str],
    types: Sequence[tuple[str, str]],
    samples: Iterable[tuple[Sequence[str], Sequence[int]]],
) -> None:
    """Write a profile, compressed with gzip as pprof expects it.

    Args:
        path: the file, which appears whole or not at all.
        types: what the values mean: (type, unit) pairs, such as ("cpu", "nanoseconds").
        samples: (frames, values) pairs, the innermost frame first. Python's frames, ``file(line): function``, are told as
            file, line and function.

    Raises:
        OSError: the file cannot be written.
    """
    texts: dict[str, int] = {"": 0}
    functions: dict[tuple[str, str], int] = {}
    locations: dict[str, int] = {}
    described: list[bytes] = []

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    def location(frame: str) -> int:
        known = locations.get(frame)
        if known is not None:
            return known
        match = _FRAME.fullmatch(frame)
        file, line, name = (match["file"], int(match["line"]), match["function"]) if match else ("", 0, frame)
        function = functions.get((file, name))
        if function is None:
            function = functions[file, name] = len(functions) + 1
            told = field(1, function) + field(2, text(name)) + field(3, text(name)) + field(4, text(file))
            described.append(field(_FUNCTION, told))
        number = locations[frame] = len(locations) + 1
        described.append(field(_LOCATION, field(1, number) + field(4, field(1, function) + field(2, line))))
        return number

    parts = [field(_SAMPLE_TYPE, field(1, text(kind)) + field(2, text(unit))) for kind, unit in types]
    for frames, values in samples:
        places = b"".join(varint(location(frame)) for frame in frames)
        numbers = b"".join(map(varint, values))
        packed = tag(1, LENGTH) + varint(len(places)) + places + tag(2, LENGTH) + varint(len(numbers)) + numbers
        parts.append(field(_SAMPLE, packed))
    parts += described
    parts.append(field(_DEFAULT, text(types[0][0])))
    parts += [field(_TEXT, value) for value in texts]
    with atomic_path(path) as partial, open(partial, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as out:
        out.write(b"".join(parts))
