"""The output of klogtool: stdout in large pieces, errors and notes on stderr.

Every line of text is escaped here (see `klogtool.escape`) and, on a terminal, coloured. Only `Output.write` writes
bytes unchanged: JSON, and what kafka-dump-log would print.

The second line of an error: what to do about it, if that is known.

An error that has a cure shows it. Otherwise the hint depends on the type of the error, never on its text. An error that
no option and no other spelling helps against has none.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from typing import Any, BinaryIO, TextIO

from klogtool import interrupts
from klogtool.cli.status import was_listed
from klogtool.errors import Changed, Corrupt, FileCause, KlogError
from klogtool.escape import escaped, escaped_json, quoted
from klogtool.format.names import FileKind, parse_file_name
from klogtool.render.terminal import is_in_colour, painted

GATHER_BYTES = 1 << 16
STDOUT_NAME = "stdout"
DEBUG = "klogtool.debug"  # in click's context: whether to show tracebacks


class ReaderGone(Exception):
    """The reader of our stdout has gone: this ends the run, and is not an error."""


class _Stdin(io.FileIO):
    """stdin. A signal ends the wait for what somebody is to type."""

    def readinto(self, buffer: Any) -> int | None:
        """Raises Unreadable if it cannot be read: an OSError would be taken for one of stdout."""
        from klogtool.log.file import ReadErrors

        with ReadErrors("-"):
            interrupts.wait_to_read(self.fileno())
            return super().readinto(buffer)


class Output:
    """stdout for bytes. Small writes are buffered; stderr is written only after earlier stdout."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = sys.stdout.buffer if stream is None else stream
        self._gathered = bytearray()
        self._is_file = stream is not None
        self._colour = stream is None and is_in_colour(sys.stdout)

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes, now or later. Raises ReaderGone if nobody reads them."""
        if len(self._gathered) + len(data) > GATHER_BYTES:
            self.flush()
        if len(data) > GATHER_BYTES:
            self._send(data)
        else:
            self._gathered += data

    def line(self, text: str) -> None:
        """Write a line of text; whatever it contains, it stays one line."""
        self.write(_shown(text, colour=self._colour))

    def text(self, text: str) -> None:
        """Write lines of text."""
        for line in text.split("\n"):
            self.line(line)

    def write_json(self, data: bytes | memoryview) -> None:
        """Write JSON in complete characters; on a terminal, characters that it would not show are escaped."""
        if self._is_file or not sys.stdout.isatty():
            self.write(data)
            return
        self.write(escaped_json(bytes(data).decode()).encode())

    def write_csv(self, data: bytes | memoryview) -> None:
        """Write CSV; on a terminal, characters that it would not show are escaped, and lines end as its lines do."""
        if self._is_file or not sys.stdout.isatty():
            self.write(data)
            return
        self.write(escaped_json(bytes(data).decode(errors="replace").replace("\r\n", "\n")).encode())

    def flush(self) -> None:
        """Write everything that is buffered."""
        if self._gathered:
            self._send(bytes(self._gathered))
            self._gathered.clear()
        self._send(b"")

    def note(self, *lines: str) -> None:
        """Write lines to stderr, after everything that was written before."""
        self.flush()
        note(*lines)

    def _send(self, data: bytes | memoryview) -> None:
        try:
            if data:
                self._stream.write(data)
            else:
                self._stream.flush()
        except BrokenPipeError as gone:
            raise ReaderGone from gone
        except OSError as error:
            error.filename = STDOUT_NAME
            raise


def note(*lines: str) -> None:
    """Write lines to stderr, in UTF-8 whatever the locale."""
    colour = is_in_colour(sys.stderr)
    try:
        sys.stderr.flush()
        sys.stderr.buffer.write(b"".join(_shown(line, colour=colour) for line in lines))
        sys.stderr.buffer.flush()
    except OSError:  # it is full, or nobody reads it: there is nowhere to tell that
        _forget(sys.stderr)


def _shown(line: str, *, colour: bool) -> bytes:
    line = escaped(line)
    if colour:
        line = painted(line)
    return line.encode() + b"\n"


def error_lines(error: KlogError, form: str | None = None, *, resyncs: bool = False) -> list[str]:
    """Return an error as users see it: where and what; a second line with what to do; with --debug, the traceback
    before it.

    form, resyncs: of a dump.
    """
    click = sys.modules.get("click")  # if click is not loaded yet, no command is running
    context = click and click.get_current_context(silent=True)
    lines = traceback_lines(error) if context is not None and context.meta.get(DEBUG) else []
    hint = hint_of(error, form, resyncs=resyncs)
    return [*lines, f"klogtool: {error}", *([hint] if hint else [])]


def traceback_lines(error: BaseException) -> list[str]:
    """Return where an error came from."""
    return "".join(traceback.format_exception(error)).splitlines()


def hold_streams() -> None:
    """Have a stdin, stdout and stderr. A write to a closed stdout fails, a write to a closed stderr is dropped.

    Else the next file that is opened would take their number, and Python would drop what is written to stdout.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:  # it is closed
            _put_nowhere(number, flags)
    if sys.stdin is sys.__stdin__ and sys.stdin is not None:
        buffer = io.BufferedReader(_Stdin(0, closefd=False))
        sys.stdin = io.TextIOWrapper(buffer, encoding=sys.stdin.encoding, errors=sys.stdin.errors)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def read_stdin(most_bytes: int) -> bytes:
    """Return what stdin has up to its end, at most so many bytes. Raises KlogError if it is closed."""
    if sys.stdin is None:
        raise KlogError(FileCause.STDIN_CLOSED(), path="-")
    return sys.stdin.buffer.read(most_bytes)


def stdout_lost() -> bool:
    """Whether stdout takes no more of what was written to it. It is dropped then: at its end Python would fail on it,
    with a message and an exit status of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        forget_stdout()
        return True
    return False


def forget_stdout() -> None:
    """Drop stdout, which nobody reads any more; Python would flush it at the end, and fail."""
    _forget(sys.stdout)


def _forget(stream: TextIO) -> None:
    _put_nowhere(stream.fileno(), os.O_WRONLY)


def _put_nowhere(number: int, flags: int) -> None:
    """Let a file descriptor lead nowhere."""
    fd = os.open(os.devnull, flags) if os.path.exists(os.devnull) else _open_nothing(flags)
    if fd != number:
        os.dup2(fd, number)
        os.close(fd)


def _open_nothing(flags: int) -> int:
    """Return what stands for /dev/null in a chroot that has none."""
    if flags & os.O_WRONLY:
        return os.memfd_create("nothing")
    fd, other = os.pipe()
    os.close(other)
    return fd


BY_KAFKA_CLASS = {
    "OffsetOutOfRangeException": "klogtool lookup PARTITION --timestamp earliest --timestamp earliest-local "
    "--timestamp latest tells from where to where it goes. klogtool remote fetch brings what a tiered topic has below "
    "earliest-local.",
    "ClassNotFoundException": "There are StringDecoder, DefaultDecoder, IntegerDecoder, LongDecoder, "
    "with org.apache.kafka.tools.api. before the name.",
    "MultipleArgumentsForOptionException": "Give the option once. --files takes several files, separated by commas.",
}
GONE = (
    "A broker, or something else, changes the files while klogtool reads them. Run the command again; if that happens "
    "often, stop the broker or make a copy first."
)
BY_ERRNO = {
    errno.EIO: "The disk cannot read it: see dmesg. klogtool salvage PARTITION --output DIR keeps what can be read.",
    errno.EACCES: "Read it as the user that the broker runs as, or as root.",
    errno.EPERM: "Read it as the user that the broker runs as, or as root.",
}


def hint_of(error: KlogError, form: str | None, *, resyncs: bool) -> str | None:
    """Return what to do about an error, or None. form: of the output of dump-log; None for other commands. resyncs: a
    dump goes on after damage."""
    from klogtool.log.opened import NoLogDir  # loads much, and most runs have no error

    if isinstance(error, NoLogDir):
        if error.below:
            some = "" if error.is_all else " (there may be more)"
            return f"Log dirs below it{some}: {' '.join(map(quoted, error.below))}"
        return "Name a log dir (a folder with meta.properties), a partition dir such as orders-0, or a file of one."
    if error.cure is not None:
        return error.cure
    if isinstance(error, Changed):
        return GONE
    number = getattr(error, "errno", None)
    if number == errno.ENOENT and was_listed(error.path):
        return GONE
    if number == errno.ENOENT:
        path = error.path or ""
        if path == "-":
            return "Only dump-log, append and explain read standard input. ./- is a file of this name."
        if "," in path and all(map(os.path.exists, path.split(","))):
            return "Separate files with blanks: FILE FILE. Only --files takes commas."
        if os.sep not in path and "." not in path:
            return "Name a file or folder. The files of a topic are in partition dirs such as /var/kafka-logs/orders-0."
        return None
    if number is not None:
        return BY_ERRNO.get(number)
    if isinstance(error, Corrupt) and error.path is not None:
        return _of_damage(error, error.path, form, resyncs=resyncs)
    return BY_KAFKA_CLASS.get(error.kafka_class or "")


def _of_damage(error: Corrupt, path: str, form: str | None, *, resyncs: bool) -> str | None:
    kind = FileKind.LOG if path == "-" else parse_file_name(os.path.basename(path)).kind
    if form is None:
        if kind is FileKind.FOREIGN and not os.path.isdir(path):
            return None
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        return f"klogtool verify {quoted(folder)}  # shows what is wrong, and how to repair it"
    if form == "text" and error.kafka_class == "NoSuchFileException":
        return "--format json prints this file by itself."
    if kind is not FileKind.LOG or form not in ("text", "json"):
        return None
    if form == "text" and error.kafka_class == "NumberFormatException" and error.position is None:
        return "--format json reads it under any name."
    if error.position is not None and not resyncs:
        return "--resync continues after the damage."
    return None
