"""What leaves klogtool: stdout in large pieces, errors and notes on stderr.

Every line of text is escaped here (see `klogtool.escape`) and, on a terminal, coloured. Only what `Output.write` takes
goes out as it is: JSON, and what kafka-dump-log would print.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from typing import Any, BinaryIO

from klogtool.cli.hints import hint_of
from klogtool.errors import KlogError
from klogtool.escape import escaped, escaped_json
from klogtool.render.terminal import is_in_colour, painted

GATHER_BYTES = 1 << 16
DEBUG = "klogtool.debug"  # in click's context: whether to show tracebacks


class ReaderGone(Exception):
    """Whoever read our stdout went away: not an error, but the end."""


class Output:
    """stdout for bytes. Small writes are gathered; what is on stderr never overtakes them."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        if stream is None and sys.stdout is None:
            raise KlogError("stdout is closed")
        self._stream = sys.stdout.buffer if stream is None else stream
        self._gathered = bytearray()
        self._is_file = stream is not None
        self._colour = stream is None and _is_in_colour(sys.stdout)

    def write(self, data: bytes | memoryview) -> None:
        """Bytes, now or soon. Raises ReaderGone if nobody reads them."""
        if len(self._gathered) + len(data) > GATHER_BYTES:
            self.flush()
        if len(data) > GATHER_BYTES:
            self._send(data)
        else:
            self._gathered += data

    def line(self, text: str) -> None:
        """A line of text; whatever is in it, it stays one line."""
        self.write(_shown(text, colour=self._colour))

    def text(self, text: str) -> None:
        """Lines of text."""
        for line in text.split("\n"):
            self.line(line)

    def write_json(self, data: bytes | memoryview) -> None:
        """JSON in whole characters, as it is; on a terminal with escapes for what it would not show."""
        if self._is_file or not sys.stdout.isatty():
            self.write(data)
            return
        self.write(escaped_json(bytes(data).decode()).encode())

    def flush(self) -> None:
        """All of it, out."""
        if self._gathered:
            self._send(bytes(self._gathered))
            self._gathered.clear()
        self._send(b"")

    def note(self, *lines: str) -> None:
        """Lines on stderr, after everything that was written before."""
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
            error.filename = "stdout"
            raise


def note(*lines: str) -> None:
    """Lines on stderr, in UTF-8 whatever the locale."""
    if sys.stderr is None:  # closed: there is nobody to tell
        return
    colour = _is_in_colour(sys.stderr)
    sys.stderr.flush()
    sys.stderr.buffer.write(b"".join(_shown(line, colour=colour) for line in lines))
    sys.stderr.buffer.flush()


def _shown(line: str, *, colour: bool) -> bytes:
    line = escaped(line)
    if colour:
        line = painted(line)
    return line.encode() + b"\n"


def _is_in_colour(stream: Any) -> bool:
    if stream is None or not stream.isatty():  # as most are, and then nothing is imported
        return False
    return is_in_colour(stream)


def error_lines(error: KlogError, chosen: Mapping[str, Any] | None = None) -> list[str]:
    """An error as users see it: where, what; a second line with what to do; with --debug the traceback before it.

    chosen: the command's parameters, where click does not have them.
    """
    click = sys.modules.get("click")  # not imported: where it is not yet, none of it is under way
    context = click and click.get_current_context(silent=True)
    lines = traceback_lines(error) if context is not None and context.meta.get(DEBUG) else []
    hint = hint_of(error, chosen or {})
    return [*lines, f"klogtool: {error}", *([hint] if hint else [])]


def traceback_lines(error: BaseException) -> list[str]:
    """Where an error came from."""
    return "".join(traceback.format_exception(error)).splitlines()


def forget_stdout() -> None:
    """Nobody reads it any more; Python flushes it once more at its end, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
