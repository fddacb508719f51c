"""Long lists of events on several cores: processes of our own turn chunks of text into columns.

A worker is a plain child process that reads chunks from its standard input. Nothing of the program that reads a trace is
imported there, so it needs no guard around its main module, and its threads and locks do not matter. Threads would not do:
decoding JSON holds Python's lock.
"""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import msgspec
import polars as pl

from kinetoscope.formats.chrome.columns import Builder, Piece
from kinetoscope.formats.chrome.events import Event
from kinetoscope.formats.chrome.pieces import decoded, last_cuts

CHUNK_BYTES = 4 << 20
"""Text that a worker gets at a time."""

WORTH_BYTES = 96 << 20
"""Text that is read without workers first: starting one takes as long as reading some of it, and 100 MB of memory."""

MOST_WORKERS = 8

WORKERS_VARIABLE = "KINETOSCOPE_WORKERS"

_SUB_PIECE_BYTES = 1 << 20
_SIZE_BYTES = 8
_GONE = (OSError, EOFError, msgspec.MsgspecError, pl.exceptions.PolarsError)


@dataclass
class Chunk:
    """The columns of one chunk of text, with numbers of their own for texts."""

    pieces: list[Piece]
    texts: dict[str, list[str | None]]
    """The texts that the columns of phases, names and categories number."""
    text_ids: dict[str, str]
    metadata_events: list[Event]


def chunk_of(text: bytes) -> Chunk | None:
    """The columns of a chunk of events, with the comma behind it; None where anything in it is not as it should be."""
    builder = Builder()
    place = 0
    text = text.rstrip().removesuffix(b",")
    while place < len(text):
        window = text[place : place + _SUB_PIECE_BYTES]
        is_last = place + _SUB_PIECE_BYTES >= len(text)
        cuts = [(len(window), len(window))] if is_last else last_cuts(window)
        for stop, next_start in cuts:
            try:
                builder.add(decoded(b"[" + window[:stop] + b"]", builder.issues))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            place += next_start
            break
        else:
            return None
        if builder.issues:
            return None
    return Chunk(builder.pieces, builder.texts, builder.ids.text_ids, builder.metadata_events)


def worker_count() -> int:
    """How many workers may run beside this process: one for each further core, none where there is no Python to start.

    The variable ``KINETOSCOPE_WORKERS`` sets another number.
    """
    wanted = os.environ.get(WORKERS_VARIABLE, "")
    if wanted.isdigit():
        return min(int(wanted), MOST_WORKERS)
    if not Path(sys.executable or "").name.lower().startswith("python"):
        return 0  # embedded in another program
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores - 1, MOST_WORKERS)


class Workers:
    """Turns chunks into columns, several at a time, and gives them back in their order."""

    def __init__(self, count: int) -> None:
        """Start some workers."""
        self._threads = ThreadPoolExecutor(max_workers=count)
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        self._all = [_Worker() for _ in range(count)]
        for worker in self._all:
            self._free.put(worker)
        self._at_work: deque[tuple[bytes, Future[Chunk | None]]] = deque()

    def give(self, text: bytes) -> None:
        """Take a chunk: a worker's if one has nothing waiting, else done here."""
        unfinished = sum(not future.done() for _, future in self._at_work)
        if unfinished <= len(self._all):
            future = self._threads.submit(self._ask, text)
        else:
            future = Future()
            future.set_result(chunk_of(text))
        self._at_work.append((text, future))

    def done(self, wait: bool = False) -> Iterator[tuple[bytes, Chunk | None]]:
        """The chunks that are done, in the order in which they were given; with ``wait`` all of them.

        None stands for a chunk that is not as it should be, or whose worker has died.
        """
        # Those behind an unfinished one wait too, and must not become too many.
        while self._at_work and (wait or self._at_work[0][1].done() or len(self._at_work) > 3 * len(self._all) + 1):
            text, future = self._at_work[0]
            try:
                chunk = future.result()
            except _GONE:
                chunk = None
            self._at_work.popleft()
            yield text, chunk

    def _ask(self, text: bytes) -> Chunk | None:
        worker = self._free.get()
        try:
            return worker.ask(text)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """End the workers, whatever they are at."""
        for worker in self._all:
            worker.end()
        self._threads.shutdown(wait=True, cancel_futures=True)


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """Workers for the time of a block."""
    started = Workers(count)
    try:
        yield started
    finally:
        started.close()


class _Worker:
    """One child process, asked by one thread at a time."""

    def __init__(self) -> None:
        package = str(Path(__file__).resolve().parents[3])
        paths = [package, *filter(None, sys.path)]
        program = "import sys; sys.path[:0] = sys.argv[1:]; from kinetoscope.formats.chrome.parallel import serve; serve()"
        self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
            [sys.executable, "-c", program, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "POLARS_MAX_THREADS": "1"},
        )

    def ask(self, text: bytes) -> Chunk | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _send(self._process.stdin, text)
        head = _receive(self._process.stdout)
        if not head:
            return None
        count, texts, text_ids, events = msgspec.msgpack.decode(head)
        pieces = [pl.read_ipc(io.BytesIO(_receive(self._process.stdout))).to_dict() for _ in range(count)]
        return Chunk(pieces, texts, text_ids, list(map(_event, events)))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was still to be written
                    pipe.close()


def serve() -> None:
    """Be a worker: answer chunks from standard input until it ends."""
    gc.disable()
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            text = _receive(source)
        except EOFError:
            return
        chunk = chunk_of(text)
        if chunk is None:
            _send(target, b"")
            continue
        events = [(event.ph, event.name, event.pid, event.tid, _raw(event.args)) for event in chunk.metadata_events]
        _send(target, msgspec.msgpack.encode((len(chunk.pieces), chunk.texts, chunk.text_ids, events)))
        for piece in chunk.pieces:
            content = io.BytesIO()
            pl.DataFrame(piece).write_ipc(content)
            _send(target, content.getbuffer())


def _raw(args: dict[str, msgspec.Raw] | None) -> dict[str, bytes] | None:
    return None if args is None else {key: bytes(raw) for key, raw in args.items()}


def _event(values: tuple[Any, ...]) -> Event:
    phase, name, process, thread, args = values
    raw = None if args is None else {key: msgspec.Raw(value) for key, value in args.items()}
    return Event(ph=phase, name=name, pid=process, tid=thread, args=raw)


def _send(pipe: IO[bytes], data: bytes | memoryview) -> None:
    pipe.write(len(data).to_bytes(_SIZE_BYTES, "little"))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    size = pipe.read(_SIZE_BYTES)
    if len(size) < _SIZE_BYTES:
        raise EOFError("the other side has gone")
    count = int.from_bytes(size, "little")
    data = pipe.read(count)
    if len(data) < count:
        raise EOFError("the other side has gone")
    return data
