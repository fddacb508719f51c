"""The file of an execution trace, before torch opens it and after torch closed it."""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil

from isal import igzip

from kinetoscope.common.atomic_path import atomic_path

# torch writes `"id": 3, "name": "aten::add", "ctrl_deps": 2,` at the start of each node, the name as it is.
_NODE_START = re.compile(rb'"id": \d+, "name": "')
_SOUND_NODE = re.compile(rb'"id": \d+, "name": "[^"\\\x00-\x1f]*", "ctrl_deps": ')
_ANY_NODE = re.compile(rb'("id": \d+, "name": ")(.*?)(", "ctrl_deps": \d+,\n)', re.DOTALL)


def check_writable(path: str) -> None:
    """Raise OSError if a file cannot be opened for writing; leave no new file behind."""
    new = not os.path.lexists(path)
    with open(path, "ab"):
        pass
    if new:
        os.unlink(path)


def escape_names(path: str) -> int:
    """Make a trace whose node names hold quotes, backslashes or control characters valid JSON, in place.

    torch writes names unescaped, so that such a name makes the file unreadable, or another name. A sound file is only
    read, through a memory map.

    Returns:
        How many names were escaped.

    Raises:
        OSError: the file cannot be read or replaced; it is as it was.
    """
    if not os.path.isfile(path) or os.path.getsize(path) == 0:
        return 0
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as text:
        unsound = sum(1 for _ in _NODE_START.finditer(text)) - sum(1 for _ in _SOUND_NODE.finditer(text))
        if unsound <= 0:
            return 0
        # Through links, so that the file is replaced and not the link.
        with atomic_path(path) as partial, open(partial, "wb") as out:
            done = 0
            for node in _ANY_NODE.finditer(text):
                out.write(text[done : node.start(2)])
                out.write(json.dumps(node[2].decode(errors="replace"), ensure_ascii=False)[1:-1].encode())
                done = node.end(2)
            out.write(text[done:])
    return unsound


def compress(source: str, target: str) -> None:
    """Write ``source``, compressed with gzip, to ``target``, which appears whole or not at all.

    Raises:
        OSError: one of them cannot be read or written.
    """
    with (
        atomic_path(target) as partial,
        open(source, "rb") as plain,
        igzip.open(partial, "wb") as packed,  # type: ignore[no-untyped-call]
    ):
        shutil.copyfileobj(plain, packed, 1 << 20)
