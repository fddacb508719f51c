"""Writing a file so that it appears whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and rename it into place if the block succeeds.

    A writer that is killed or fails leaves the old file or none, never half a file under the name. A symbolic link stays
    one: the file that it leads to is replaced. A file that was there keeps its permissions. What is no file (a pipe, a
    terminal, ``/dev/null``) is written into.

    Raises:
        OSError: the folder is missing or cannot be written; the message names it.
    """
    wanted = Path(path)
    # Errors speak of the path that was asked for, not of the temporary one.
    if wanted.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(wanted))
    if _is_stream(wanted):
        with TemporaryDirectory(prefix="kinetoscope-") as folder:
            whole = Path(folder) / wanted.name
            yield whole
            with open(whole, "rb") as source, open(wanted, "wb") as stream:
                shutil.copyfileobj(source, stream)
        return
    target = Path(os.path.realpath(wanted))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder to write to", str(target.parent))
    # The suffix stays last: writers choose compression by it.
    suffix = ".part" + "".join(target.suffixes)
    partial = _new_file(target.parent, f".{target.name}.", suffix)
    try:
        yield partial
        with suppress(OSError):
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        with open(partial, "rb+") as handle:
            os.fsync(handle.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _is_stream(path: Path) -> bool:
    """Whether a path names something that is written into instead of replaced."""
    if path.is_absolute() and path.parts[1:2] in (("dev",), ("proc",)):
        return True
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _new_file(folder: Path, prefix: str, suffix: str) -> Path:
    """An empty file with a name of its own and the permissions that any new file gets."""
    while True:
        # Names have at most 255 bytes: of a long one the end is kept, which tells the format.
        token = secrets.token_hex(6)
        name = f"{prefix}{token}{suffix}"
        if len(name.encode(errors="surrogateescape")) > 255:
            name = f".{token}{suffix[-200:]}"
        candidate = folder / name
        try:
            os.close(os.open(candidate, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        return candidate
