"""What a format is: a name, suffixes, a look, and what reads and writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Format:
    """One format of trace files, as data: nothing of it is loaded before it is used."""

    name: str
    suffixes: tuple[str, ...]
    """Ends of file names, in lower case; the first is the usual one."""
    purpose: str
    """What a person wants it for, in a few words."""
    reader: str | None = None
    """``module:function`` that makes a Trace of a :class:`~kinetoscope.formats.sources.Source`; None: it is only written."""
    writer: str | None = None
    """``module:function`` that takes a Trace, a path and the options below; None: it is only read."""
    streamer: str | None = None
    """``module:function`` that turns a source into Parquet in bounded memory; None: it is read whole."""
    magics: tuple[bytes, ...] = ()
    """What files of the format begin with; empty where text decides."""
    is_compressed: bool = False
    """The content is compressed already: compressing the file again gains nothing and hides it from its readers."""
    compresses_itself: tuple[str, ...] = ()
    """Endings of compressed files that the writer makes by itself."""
    options: tuple[str, ...] = ()
    """Names of the arguments that the writer takes besides."""

    def recognises(self, start: bytes) -> bool:
        """Tell whether a file may be of this format, from its first bytes."""
        return start.startswith(self.magics) if self.magics else False

    @property
    def read(self) -> Callable[..., Any] | None:
        """The function that reads it."""
        return None if self.reader is None else _loaded(self.reader)

    @property
    def to_parquet(self) -> Callable[..., Any] | None:
        """The function that turns it into Parquet in bounded memory."""
        return None if self.streamer is None else _loaded(self.streamer)

    @property
    def write(self) -> Callable[..., Any] | None:
        """The function that writes it."""
        return None if self.writer is None else _loaded(self.writer)


def _loaded(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
