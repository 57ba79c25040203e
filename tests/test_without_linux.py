"""What only Linux has is not needed, since macOS lacks it.

Nobody has tried klogtool on a Mac. This takes away what is not there.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from running import ROOT

# What Python 3.11 has on Linux and not on macOS, of what a program like this might use.
OF_LINUX = {
    "os": """copy_file_range eventfd fdatasync getxattr listxattr memfd_create pipe2 posix_fadvise posix_fallocate
        removexattr sched_getaffinity sched_setaffinity setxattr splice O_DIRECT O_NOATIME O_PATH O_TMPFILE""",
    "fcntl": "F_GETLEASE F_SETLEASE F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_NOTIFY F_SETSIG F_GETPIPE_SZ F_SETPIPE_SZ",
    "mmap": "MAP_POPULATE MAP_NORESERVE MADV_DONTFORK MADV_HUGEPAGE MADV_REMOVE",
    "select": "epoll",
    "signal": "SIGPWR SIGPOLL sigtimedwait sigwaitinfo",
    "resource": "prlimit",
}
# sendfile of macOS sends to sockets only.
AS_ON_MAC = f"""
import errno, importlib, os, sys
for name, words in {OF_LINUX!r}.items():
    module = importlib.import_module(name)
    for word in words.split():
        if hasattr(module, word):
            delattr(module, word)
def sendfile(*_):
    raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
os.sendfile = sendfile
sys.platform = "darwin"
from klogtool.cli.main import main
main()
"""
# Ids; blocks of the journal; how fast this run was.
UNLIKE = re.compile(rb"\b[0-9a-f]{12}(-\d+)?\b|[\d,]+ bytes are held|[\d.,]+ m?s at the rate")
WORK = [
    "doctor logs",
    "verify logs",
    "dump-log logs/flip-bit-0 --format json",
    "dump-log logs/flip-bit-0",
    "salvage logs/flip-bit-0 --output saved",
    "verify saved",
    "read logs/remove-indexes-0 --offset 0 --raw raw",
    "read logs/remove-indexes-0 --offset 0 --raw -",
    "recover logs/flip-bit-0 --apply",
    "rebuild-index logs/remove-indexes-0 --output rebuilt",
    "verify logs",
    "undo logs",
    "verify logs",
    "help verify",
]


def run(folder: pathlib.Path, start: list[str], line: str) -> tuple[int, bytes, bytes]:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *start, *line.split()], cwd=folder, env=environment, capture_output=True, timeout=120
    )
    name = os.fsencode(folder)
    return done.returncode, *(UNLIKE.sub(b"", text.replace(name, b"")) for text in (done.stdout, done.stderr))


def bytes_below(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".klogtool" not in str(path) and path.name not in (".lock", "manifest.json")
    }


@pytest.mark.slow
def test_all_that_macos_lacks_is_away_and_the_answers_and_files_are_equal(tmp_path: pathlib.Path) -> None:
    done = []
    for kind, start in (("linux", ["-m", "klogtool"]), ("macos", ["-c", AS_ON_MAC])):
        folder = tmp_path / kind
        shutil.copytree(ROOT / "fixtures/killed-mid-append/logdir", folder / "logs")
        answers = [run(folder, start, f"{line} --quiet" if "help" not in line else line) for line in WORK]
        done.append((answers, bytes_below(folder)))
    (ours, our_files), (theirs, their_files) = done
    for line, one, other in zip(WORK, ours, theirs, strict=True):
        assert one == other, line
    assert our_files == their_files
    assert max(status for status, _, _ in ours) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="this takes away what Linux has")
def test_what_is_taken_away_is_there_on_linux() -> None:
    import fcntl

    assert hasattr(os, "copy_file_range")
    assert hasattr(fcntl, "F_SETLEASE")
