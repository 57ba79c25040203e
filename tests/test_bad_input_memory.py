"""A machine with hardly any memory, or threads: one line and status 4, wherever it ends; or the whole answer."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from running import FIXTURES, with_memory

from klogtool.log.thread_pool import in_order

LOGS = FIXTURES / "leader-epochs" / "logdir"
SIZES = [size << 20 for size in range(18, 72, 3)]  # Python itself needs the least of these, klogtool some more
COULD_NOT = 4


def run(size: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run with so many bytes of address space."""
    command = [sys.executable, "-m", "klogtool", *words]
    return subprocess.run(
        command, capture_output=True, text=True, preexec_fn=with_memory(size), timeout=120, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--version"], ["verify", str(LOGS)], ["doctor", str(LOGS)]], ids=lambda w: w[0])
def test_a_start_without_memory_is_one_line(words: list[str]) -> None:
    statuses = set()
    for size in SIZES:
        bare = [sys.executable, "-c", "pass"]
        if subprocess.run(bare, capture_output=True, preexec_fn=with_memory(size), check=False).returncode:
            continue  # Python does not start either
        done = run(size, *words)
        statuses.add(done.returncode)
        assert "Traceback" not in done.stderr, (size >> 20, done.stderr)
        assert done.returncode in (0, COULD_NOT), (size >> 20, done)
        if done.returncode == COULD_NOT:
            assert done.stderr.count("klogtool: ") >= 1, size >> 20
    assert statuses == {0, COULD_NOT}


@pytest.mark.parametrize("most", [0, 1, 2])
def test_work_is_done_by_as_many_threads_as_there_are(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if len(started) >= most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    found = list(in_order(lambda: lambda piece: piece * 2, iter(range(50)), 4))
    assert found == [(piece, piece * 2) for piece in range(50)]
    assert len(started) == most
