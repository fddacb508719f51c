"""The pages of the documentation and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: what stands behind the fence, its text, and the line in the page on which the text begins."""

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """The README and all pages of the site."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page that are of one of the languages."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], found["text"], text.count("\n", 0, found.start()) + 2)
        for found in _FENCE.finditer(text)
        if found["language"] in languages
    ]


def name_of(page: Path) -> str:
    """Path of a page as the names of tests show it."""
    return page.relative_to(ROOT).as_posix()


def loaded(path: Path) -> ModuleType:
    """A Python file that is in no package, as a module."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
