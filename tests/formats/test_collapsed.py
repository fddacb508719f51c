"""Collapsed stacks, as flamegraph.pl and speedscope read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kinetoscope.formats.collapsed import write_collapsed


def test_root_first_with_whole_numbers(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    write_collapsed(path, [(["inner.py(3): f", "main.py(1): <module>"], 12), (("main.py(1): <module>",), 5)])
    assert path.read_text() == "main.py(1): <module>;inner.py(3): f 12\nmain.py(1): <module> 5\n"


def test_equal_stacks_are_added_up(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    write_collapsed(path, iter([(["b", "a"], 1), (["c", "a"], 2), (["b", "a"], 3)]))
    assert path.read_text() == "a;b 4\na;c 2\n"


def test_values_below_one_and_empty_stacks_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    write_collapsed(path, [(["a"], 0), (["a"], -4), ([], 9), (["b"], 1)])
    assert path.read_text() == "b 1\n"


@pytest.mark.parametrize(
    ("frame", "written"),
    [
        ("a;b", "a:b"),
        ("a\nb\r\nc", "a b c"),
        ("tab\there", "tab here"),
        ("\n", "(no name)"),
        ("ü \u2028x", "ü  x"),
        ("n 12", "n 12"),
    ],
)
def test_frames_of_any_text_stay_one_line(frame: str, written: str, tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    write_collapsed(path, [([frame, "root"], 7)])
    text = path.read_text(encoding="utf-8")
    assert text == f"root;{written} 7\n"
    # What flamegraph.pl takes apart: everything, white space, a number.
    assert re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)", text.rstrip("\n"))


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    write_collapsed(path, [(["a\ud83d"], 7)])
    assert path.read_text(encoding="utf-8") == "a? 7\n"
