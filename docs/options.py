"""A hook of MkDocs: the options of a command, from the command itself, where a page has ``<!-- options of NAME -->``."""

from __future__ import annotations

import re
from typing import Any

import typer

MARK = re.compile(r"^<!-- options of (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables of options in."""
    return MARK.sub(lambda mark: table_of(mark[1]), markdown)


def table_of(command: str) -> str:
    """The options of a command as a Markdown table.

    Raises:
        KeyError: there is no such command.
    """
    from kinetoscope.cli.main import app

    lines = ["| option | what it does |", "|---|---|"]
    for option in typer.main.get_command(app).commands[command].params:  # type: ignore[attr-defined]
        if not option.opts[0].startswith("-"):
            continue
        takes_value = not getattr(option, "is_flag", False)
        value = f" {option.metavar or option.type.name.upper()}" if takes_value else ""
        names = ", ".join(f"`{name}{value}`" for name in (*option.opts, *option.secondary_opts))
        text = getattr(option, "help", "") or ""
        default = option.default if takes_value and getattr(option, "show_default", False) else None
        if default not in (None, (), []):
            text += f" Default: {default}."
        lines.append(f"| {_in_cell(names)} | {_in_cell(text)} |")
    return "\n".join(lines)


def _in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
