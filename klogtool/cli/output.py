"""What leaves klogtool: stdout in large pieces, errors and notes on stderr."""

from __future__ import annotations

import os
import sys

from klogtool.cli.hints import hint_of
from klogtool.errors import KlogError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO

GATHER_BYTES = 1 << 16
DEBUG = "klogtool.debug"  # in click's context: whether to show tracebacks
UNSEEN = {n: f"\\x{n:02x}" for n in (*range(32), 127) if n not in b"\t\n"}  # would move a terminal's cursor


class ReaderGone(Exception):
    """Whoever read our stdout went away: not an error, but the end."""


class Output:
    """stdout for bytes. Small writes are gathered; what is on stderr never overtakes them."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        if stream is None and sys.stdout is None:
            raise KlogError("stdout is closed")
        self._stream = sys.stdout.buffer if stream is None else stream
        self._gathered = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        """Bytes, now or soon. Raises ReaderGone if nobody reads them."""
        if len(self._gathered) + len(data) > GATHER_BYTES:
            self.flush()
        if len(data) > GATHER_BYTES:
            self._send(data)
        else:
            self._gathered += data

    def line(self, text: str) -> None:
        """A line of text."""
        self.write(text.encode(errors="surrogateescape") + b"\n")

    def flush(self) -> None:
        """All of it, out."""
        if self._gathered:
            self._send(bytes(self._gathered))
            self._gathered.clear()
        self._send(b"")

    def note(self, text: str) -> None:
        """A line on stderr, after everything that was written before."""
        self.flush()
        note(text)

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


def note(text: str) -> None:
    """A line on stderr, in UTF-8 whatever the locale; bytes of file names that are no text are escaped."""
    if sys.stderr is None:  # closed: there is nobody to tell
        return
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        raw = text.encode("utf-8", "backslashreplace")
    shown = raw.decode("utf-8", "backslashreplace").translate(UNSEEN) + "\n"
    sys.stderr.flush()
    sys.stderr.buffer.write(shown.encode())
    sys.stderr.buffer.flush()


def error_line(error: KlogError, given: Mapping[str, Any] | None = None) -> str:
    """An error as users see it: where, what; a second line with what to do; with --debug the traceback before it.

    given: the command's parameters, where click does not have them.
    """
    line = f"klogtool: {error}".replace("\n", "\\n")
    click = sys.modules.get("click")  # not imported: where it is not yet, none of it is under way
    context = click and click.get_current_context(silent=True)
    hint = hint_of(error, given or {})
    debug = context is not None and context.meta.get(DEBUG)
    if debug:
        import traceback

        line = "".join(traceback.format_exception(error)) + line
    return line + (f"\n{hint}" if hint else "")


def forget_stdout() -> None:
    """Nobody reads it any more; Python flushes it once more at its end, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
