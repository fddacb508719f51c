"""A griffe extension: our docstrings, which are read in terminals and editors too, as Markdown for the API page.

Roles such as ``:class:`kinetoscope.Trace``` become code, and examples with ``>>>`` blocks of code without the prompts.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|data|mod):`~?\.?([^`]+)`")
_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> )\S.*\n?|^\.\.\..*\n?)*)+", re.MULTILINE)


def as_markdown(text: str) -> str:
    """A docstring as Markdown."""
    return _EXAMPLE.sub(lambda example: _fenced(example[0]), _ROLE.sub(r"`\1`", text))


def _fenced(example: str) -> str:
    lines = []
    for line in example.splitlines():
        code = re.sub(r"^(>>>|\.\.\.) ?", "", line)
        lines.append(re.sub(r"\s*# doctest:.*", "", code) if line.startswith((">>>", "...")) else f"# {line}")
    return "\n".join(["```python", *lines, "```", ""])


class Markdown(griffe.Extension):
    """Hands every docstring through :func:`as_markdown`."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of an object that was loaded."""
        if obj.docstring is None:
            return
        if obj.docstring.value == "See the class.":
            obj.docstring = None  # the two are shown together
        else:
            obj.docstring.value = as_markdown(obj.docstring.value)
