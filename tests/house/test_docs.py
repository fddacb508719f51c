"""What the documentation says is so: its programs run, its commands exist, its lists are whole."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.cli.sql import answer
from kinetoscope.formats import registry
from kinetoscope.show.frame_table import frame_table
from kinetoscope.trace import schema

from .pages import DOCS, ROOT, blocks, loaded, name_of, pages

PROGRAMS = [page for page in pages() if blocks(page, "python")]


@pytest.mark.filterwarnings("ignore:Profiler clears events:UserWarning")
@pytest.mark.parametrize("page", PROGRAMS, ids=name_of)
def test_programs_of_a_page_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page, "python"):
        # Blank lines before it make the line numbers of a failure those of the page.
        exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), namespace)


def test_programs_are_found() -> None:
    names = {name_of(page) for page in PROGRAMS}
    assert {"docs/index.md", "docs/tables.md", "docs/traces.md", "docs/differences.md"} <= names
    first = blocks(DOCS / "traces.md", "python")[0]
    assert (DOCS / "traces.md").read_text(encoding="utf-8").splitlines()[first.line - 1] == "import torch"


def test_the_schema_is_the_one_of_the_code() -> None:
    page = (DOCS / "schema.md").read_text(encoding="utf-8")
    _, mark, table = page.partition("<!-- from here on: kinetoscope.trace.schema.describe() -->\n\n")
    assert mark
    assert table == schema.describe(), "docs/schema.md is out of date: paste kinetoscope.trace.schema.describe() into it"
    assert f"- Version: {schema.SCHEMA_VERSION}. " in page


def test_the_formats_are_those_of_the_code() -> None:
    page = (DOCS / "exporting.md").read_text(encoding="utf-8")
    _, mark, after = page.partition("<!-- from here on: kinetoscope.formats.registry.describe() -->\n\n")
    assert mark
    assert after.startswith(registry.describe() + "\n"), "paste kinetoscope.formats.registry.describe() into docs/exporting.md"


def test_every_public_name_is_documented() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    documented = {path.rpartition(".")[2] for path in re.findall(r"^::: (\S+)$", page, re.MULTILINE)}
    documented |= set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert set(kinetoscope.__all__) - documented == {"__version__"}


def test_what_the_api_page_names_exists() -> None:
    pytest.importorskip("torch")
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    for path in re.findall(r"^::: (\S+)$", page, re.MULTILINE):
        module, _, name = path.rpartition(".")
        assert hasattr(__import__(module, fromlist=[name]), name), path
    for name in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE):
        assert hasattr(kinetoscope, name), name


def test_docstrings_become_markdown() -> None:
    pytest.importorskip("griffe")
    module = loaded(DOCS / "docstrings.py")
    docstring = "See :func:`kinetoscope.read`.\n\n>>> for i in (1,):  # doctest: +SKIP\n...     print(i)\n1\n\nAnd so on."
    expected = "See `kinetoscope.read`.\n\n```python\nfor i in (1,):\n    print(i)\n# 1\n```\n\nAnd so on."
    assert module.as_markdown(docstring) == expected


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", changelog, re.MULTILINE)
    assert versions[0] == kinetoscope.__version__


# the command line


def command_options() -> dict[str, set[str]]:
    """Command -> its options, as they are typed."""
    import typer

    from kinetoscope.cli.main import app

    group = typer.main.get_command(app)
    return {
        name: {text for option in command.params for text in (*option.opts, *option.secondary_opts) if text.startswith("-")}
        | {"--help", "-h"}
        for name, command in group.commands.items()  # type: ignore[attr-defined]
    }


def shown_commands(page: Path) -> list[list[str]]:
    """The command lines of a page that call kinetoscope, in words."""
    lines = [line for block in blocks(page, "console") for line in block.text.splitlines() if line.startswith("$ ")]
    words = [shlex.split(line[2:], comments=True) for line in lines]
    return [line for line in words if line[:1] == ["kinetoscope"]]


def test_shown_commands_exist() -> None:
    known = command_options()
    seen = 0
    for page in pages():
        for _, command, *words in shown_commands(page):
            if command.startswith("-"):
                continue
            seen += 1
            assert command in known, f"{page}: {command}"
            for word in words:
                if command == "run" and not word.startswith("-") and word.endswith(".py"):
                    break  # what follows is the script's
                if word.startswith("--") or re.fullmatch(r"-\w", word):
                    assert word.partition("=")[0] in known[command], f"{page}: {command} {word}"
                if command == "run" and word == "-m":
                    break
    assert seen > 5


def test_every_command_has_a_page_with_its_options() -> None:
    tables = loaded(DOCS / "options.py")
    for command, options in command_options().items():
        page = (DOCS / "commands" / f"{command}.md").read_text(encoding="utf-8")
        shown = set(re.findall(r"`(--?[a-zA-Z][\w-]*)", tables.on_page_markdown(page)))
        assert options - {"--help", "-h"} <= shown, command


def test_links_between_pages_lead_somewhere() -> None:
    for page in pages():
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{name_of(page)}: {target}"


def test_the_cookbook_gives_the_answers_that_it_shows() -> None:
    trace = str(ROOT / "tests" / "data" / "traces" / "h100_qwen_0.5b.json.gz")
    queries, answers = blocks(DOCS / "cookbook.md", "sql"), blocks(DOCS / "cookbook.md", "text")
    assert len(queries) == len(answers) == 20
    for query, shown in zip(queries, answers, strict=True):
        assert frame_table(answer(trace, query.text)) == shown.text, f"line {query.line}"
