"""What leaves klogtool: stdout in large pieces, and stderr never before it."""

from __future__ import annotations

import io

import pytest

from klogtool.cli import output
from klogtool.cli.output import GATHER_BYTES, Output, ReaderGone, note


class Sink(io.RawIOBase):
    """Remembers what was written to it, piece by piece."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.pieces.append(bytes(data))
        return len(data)


def test_small_pieces_are_gathered() -> None:
    sink = Sink()
    out = Output(sink)  # type: ignore[arg-type]
    for _ in range(1000):
        out.write(b"x" * 100)
    out.flush()
    assert b"".join(sink.pieces) == b"x" * 100_000
    assert len(sink.pieces) == 2
    assert max(map(len, sink.pieces)) <= GATHER_BYTES


def test_large_ones_are_not_copied_together() -> None:
    sink = Sink()
    out = Output(sink)  # type: ignore[arg-type]
    out.write(b"first")
    out.write(memoryview(b"y" * (GATHER_BYTES + 1)))
    out.write(b"last")
    assert [len(piece) for piece in sink.pieces] == [5, GATHER_BYTES + 1]
    out.flush()
    assert sink.pieces[2:] == [b"last"]


def test_a_line_is_one_line_of_utf8_whatever_is_in_it() -> None:
    sink = Sink()
    out = Output(sink)  # type: ignore[arg-type]
    out.line("ü \udcff\n\x1b")
    out.flush()
    assert sink.pieces == ["ü ".encode() + b"\\xff\\n\\x1b\n"]


def test_a_note_comes_after_what_was_written_before(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink()
    out = Output(sink)  # type: ignore[arg-type]
    seen: list[tuple[list[bytes], str]] = []
    monkeypatch.setattr(output, "note", lambda text: seen.append((list(sink.pieces), text)))
    out.write(b"a line\n")
    out.note("a note")
    assert seen == [([b"a line\n"], "a note")]


def test_when_the_reader_goes_away() -> None:
    class Gone(io.RawIOBase):
        def write(self, _: bytes) -> int:  # type: ignore[override]
            raise BrokenPipeError

    out = Output(Gone())  # type: ignore[arg-type]
    out.write(b"x")
    with pytest.raises(ReaderGone):
        out.flush()


def test_a_full_disk_says_of_what(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.RawIOBase):
        def write(self, _: bytes) -> int:  # type: ignore[override]
            raise OSError(28, "No space left on device")

    out = Output(Full())  # type: ignore[arg-type]
    out.write(b"x")
    with pytest.raises(OSError, match="No space left") as found:
        out.flush()
    assert found.value.filename == "stdout"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü", "plain ü\n"),
        ("byte \udcff", "byte \\xff\n"),
        ("escape \x1b[2J", "escape \\x1b[2J\n"),
        ("a\tb\nc", "a\\tb\\nc\n"),
    ],
)
def test_a_note_moves_nobodys_cursor(text: str, shown: str, capfd: pytest.CaptureFixture[str]) -> None:
    note(text)
    assert capfd.readouterr().err == shown
