from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from kinetoscope.record.handlers import tensorboard_trace_handler


class Recorder:
    """Stands for a profiler: remembers where it was told to export."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def export_chrome_trace(self, path: str) -> None:
        Path(path).write_text("{}")
        self.paths.append(path)


def test_the_folder_is_made_and_the_file_is_named_after_worker_and_time(tmp_path: Path) -> None:
    recorder = Recorder()
    folder = tmp_path / "a" / "b"
    handler = tensorboard_trace_handler(str(folder))
    assert not folder.exists()
    handler(recorder)
    handler(recorder)
    assert sorted(recorder.paths) == sorted(str(path) for path in folder.iterdir())
    assert len(recorder.paths) == 2
    worker = re.escape(f"{socket.gethostname()}_{os.getpid()}")
    for path in recorder.paths:
        assert re.fullmatch(worker + r"\.\d{19}\.pt\.trace\.json", Path(path).name)


def test_worker_name_and_gzip(tmp_path: Path) -> None:
    recorder = Recorder()
    tensorboard_trace_handler(tmp_path, "worker0", use_gzip=True, use_python_export=True)(recorder)
    assert re.fullmatch(r"worker0\.\d+\.pt\.trace\.json\.gz", Path(recorder.paths[0]).name)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_each_process_writes_under_its_own_id(tmp_path: Path) -> None:
    handler = tensorboard_trace_handler(tmp_path)
    handler(Recorder())
    child = os.fork()
    if child == 0:
        try:
            handler(Recorder())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    workers = {path.name.split(".")[0].rsplit("_", 1)[1] for path in tmp_path.iterdir()}
    assert workers == {str(os.getpid()), str(child)}


def test_a_folder_that_never_can_be_is_an_error_before_anything_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "below", file / "far" / "below"):
        with pytest.raises(RuntimeError, match=re.escape(str(folder))):
            tensorboard_trace_handler(str(folder))
    assert file.read_text() == "" and list(tmp_path.iterdir()) == [file]


def test_a_folder_that_becomes_impossible_later(tmp_path: Path) -> None:
    handler = tensorboard_trace_handler(str(tmp_path / "folder"))
    (tmp_path / "folder").write_text("in the way")
    with pytest.raises(RuntimeError, match=re.escape(str(tmp_path / "folder"))):
        handler(Recorder())


def test_a_relative_folder_is_taken_from_where_the_program_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tensorboard_trace_handler("here")(Recorder())
    assert len(list((tmp_path / "here").iterdir())) == 1
