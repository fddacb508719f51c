"""Files appear whole or not at all, as what they were."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from kinetoscope.common.atomic_path import atomic_path


def write(path: Path, text: str) -> None:
    with atomic_path(path) as partial:
        partial.write_text(text)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "real.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to(folder / "real.json")
    write(link, "new")
    assert link.is_symlink()
    assert (folder / "real.json").read_text() == "new"
    assert sorted(path.name for path in folder.iterdir()) == ["real.json"]


def test_a_link_to_nothing_makes_its_file(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to("later.json")
    write(link, "new")
    assert link.is_symlink() and (tmp_path / "later.json").read_text() == "new"


def test_permissions_are_those_of_a_new_file_or_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("made by open()")
    write(tmp_path / "ours", "x")
    assert mode(tmp_path / "ours") == mode(tmp_path / "plain")
    (tmp_path / "ours").chmod(0o640)
    write(tmp_path / "ours", "y")
    assert mode(tmp_path / "ours") == 0o640


def test_the_umask_of_the_process_is_never_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(mask: int) -> int:
        raise AssertionError("another thread would make files that anybody can write")

    monkeypatch.setattr(os, "umask", touched)
    write(tmp_path / "x", "x")
    assert (tmp_path / "x").read_text() == "x"


def test_what_is_no_file_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe, "through")
    reader.join(timeout=20)
    assert got == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write(Path(os.devnull), "away")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")

    def fail() -> None:
        with atomic_path(tmp_path / "x") as partial:
            partial.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "old"


def test_the_longest_names_that_a_folder_takes(tmp_path: Path) -> None:
    name = "n" * 240 + ".json.gz"
    write(tmp_path / name, "x")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_errors_name_what_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as folder, atomic_path(tmp_path):
        pass
    assert folder.value.filename == str(tmp_path)
    with pytest.raises(FileNotFoundError) as missing, atomic_path(tmp_path / "no" / "x.json"):
        pass
    assert missing.value.filename == str(tmp_path / "no")
