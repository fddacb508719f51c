"""Compressing a file that was written plain."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from isal import igzip

from kinetoscope.common.atomic_path import atomic_path


@contextmanager
def compressed_path(path: str | os.PathLike[str], compression: str) -> Iterator[Path]:
    """Yield a temporary path; what is written to it appears compressed at ``path``, whole or not at all.

    Args:
        path: the file.
        compression: ``.gz`` or ``.zst``.

    Raises:
        ValueError: zstandard is not installed; the message says how to get it.
        OSError: the file cannot be written.
    """
    if compression == ".zst":
        try:
            import zstandard
        except ImportError as error:
            raise ValueError(f"{os.fspath(path)}: writing .zst needs zstandard (pip install zstandard)") from error
    with atomic_path(path) as partial, TemporaryDirectory(prefix="kinetoscope-", dir=partial.parent) as folder:
        plain = Path(folder) / Path(path).name.removesuffix(compression)
        yield plain
        with open(plain, "rb") as source, open(partial, "wb") as target:
            if compression == ".zst":
                zstandard.ZstdCompressor(level=3).copy_stream(source, target)
            else:
                # No name and no time inside: the same trace gives the same file.
                with igzip.IGzipFile("", "wb", 2, target, mtime=0) as out:  # type: ignore[no-untyped-call]
                    shutil.copyfileobj(source, out, 1 << 20)
