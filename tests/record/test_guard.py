"""One recording at a time, whoever asks first, from however many threads."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("torch")

from kinetoscope.record import guard, torch_private


class Recording:
    def _abandon(self) -> None:
        raise AssertionError


def test_of_many_threads_one_gets_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = 0
    most = 0

    def slowly() -> bool:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.002)
        inside -= 1
        return False

    monkeypatch.setattr(torch_private, "profiler_active", slowly)
    recordings = [Recording() for _ in range(8)]
    claimed: list[Recording] = []
    barrier = threading.Barrier(len(recordings))

    def claim(recording: Recording) -> None:
        barrier.wait()
        try:
            guard.claim(recording)
        except RuntimeError:
            return
        claimed.append(recording)

    threads = [threading.Thread(target=claim, args=(one,)) for one in recordings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == 1
    assert most == 1, "two threads looked at the engine at once"
    assert guard.holder() is claimed[0]
    guard.release(claimed[0])
    assert guard.holder() is None
