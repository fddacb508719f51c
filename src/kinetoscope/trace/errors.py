"""The errors that reading and writing traces raise."""

from __future__ import annotations


class TraceError(ValueError):
    """A file holds no trace, or a trace that this version cannot read; the message says what it looks like instead."""


class SchemaVersionError(TraceError):
    """The file was written by a newer Kinetoscope, with a schema that this one does not know."""
