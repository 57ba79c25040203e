"""What `klogtool read` prints of the records of a fetch: all of it, and nothing that a terminal would obey."""

from __future__ import annotations

import pathlib

import pytest
from raw_batches import build_batch
from running import FIXTURES, run_here

from klogtool.cli import read
from klogtool.escape import escaped
from klogtool.format.batch import Record

LONG = "é…\u202e\x1b[2J\U0001f600abc".encode() * 20 + b"\xff\xc3" + b"x\n" * 30


def records_as_text(log: pathlib.Path) -> tuple[str, str]:
    """Of `read`, behind its answer; and of `dump-log`, behind its heading, each line escaped."""
    folder = log.parent
    words = ["--offset", "0", "--max-bytes", "9999999", "--records", "-q", "--last-stop", "clean"]
    shown = run_here(["read", str(folder), *words], folder).out.decode()
    dumped = run_here(["dump-log", "--files", str(log), "--print-data-log"], folder).out.decode(
        errors="surrogateescape"
    )
    behind = dumped[dumped.index("baseOffset:") :]
    return shown[shown.index("baseOffset:") :], "\n".join(map(escaped, behind.split("\n")))


@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_records_are_the_lines_of_a_dump_escaped(
    at_once: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "ESCAPED_AT_ONCE_BYTES", at_once)
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = folder / "00000000000000000000.log"
    records = [Record(offset, 5, b"k%d" % offset, LONG) for offset in range(3)]
    log.write_bytes(build_batch(records) + build_batch([Record(3, 5, None, b"")]))
    shown, expected = records_as_text(log)
    assert shown == expected


@pytest.mark.parametrize("name", ["every-codec/logdir/create-0"])
def test_so_are_those_of_a_broker(name: str) -> None:
    shown, expected = records_as_text(FIXTURES / name / "00000000000000000000.log")
    assert shown == expected
