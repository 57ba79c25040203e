"""A program that decodes: each key or value goes to its stdin, and a line of JSON comes back on its stdout.

Before each value stand four bytes with its length, big-endian. Null is not sent. An empty line means that the program
cannot decode the value. What the program writes to stderr goes to ours.

The program and klogtool may wait for each other, so both pipes are served at a time. A program that ends, answers
nonsense, or does not answer in time, is not asked again.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress

from klogtool.decoding.decoded import Reading
from klogtool.decoding.json_values import parse_json
from klogtool.errors import Corrupt, KlogError

LENGTH_BYTES = 4
PIECE_BYTES = 1 << 16
LONGEST_ANSWER_BYTES = 16 << 20
END_SECONDS = 5.0  # for the program to end after its stdin is closed


class PipedDecoder:
    """A running program. end: why it is not asked any more, or None."""

    def __init__(self, command: str, *, timeout_s: float) -> None:
        """Start the command by the shell. Raises KlogError if there is none."""
        self.end: str | None = None
        self._timeout_s = timeout_s
        self._answers = bytearray()
        try:
            # A group of its own: a signal for us must not end it in the middle of a value, and kill ends its children.
            self._program = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        except (OSError, ValueError) as error:
            raise KlogError(f"the decoder does not start: {error}") from error
        self._in, self._out = self._program.stdin, self._program.stdout
        assert self._in is not None
        assert self._out is not None
        os.set_blocking(self._in.fileno(), False)
        os.set_blocking(self._out.fileno(), False)

    def __call__(self, data: bytes, _: str | None) -> Reading:
        """Ask for one value. Raises Corrupt if there is no decoded form."""
        if self.end is not None:
            raise Corrupt(self.end)
        line = self._ask(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        if not line.strip():
            raise Corrupt("the decoder gave an empty line")
        try:
            return Reading(parse_json(line))
        except Corrupt as error:
            raise Corrupt(f"the decoder's answer: {error.reason}") from None

    def _ask(self, question: bytes) -> bytes:
        """Send a question, and return the line that answers it."""
        if self._answers or self._ready(False, 0)[1]:
            # Give up if there is an answer that belongs to no question: the next answers would belong to
            # other values.
            self._receive()
            if self._answers:
                raise self._failure("the decoder gave more than one line for a value")
        left, latest = memoryview(question), time.monotonic() + self._timeout_s
        while left or b"\n" not in self._answers:
            can_write, can_read = self._ready(bool(left), max(0.0, latest - time.monotonic()))
            if not (can_write or can_read):
                raise self._failure(f"the decoder did not answer within {self._timeout_s:g} seconds")
            if can_read:
                self._receive()
            if can_write:
                left = left[self._send(left[:PIECE_BYTES]) :]
        line, _, rest = bytes(self._answers).partition(b"\n")
        self._answers = bytearray(rest)
        return line

    def _ready(self, wants_to_write: bool, timeout_s: float) -> tuple[bool, bool]:
        assert self._in is not None
        assert self._out is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            if wants_to_write:
                selector.register(self._in, selectors.EVENT_WRITE)
            ready = {key.fileobj for key, _ in selector.select(timeout_s)}
        return self._in in ready, self._out in ready

    def _send(self, data: memoryview) -> int:
        assert self._in is not None
        try:
            return os.write(self._in.fileno(), data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise self._failure("the decoder does not read any more") from None

    def _receive(self) -> None:
        assert self._out is not None
        try:
            data = os.read(self._out.fileno(), PIECE_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise self._failure("the decoder has ended")
        self._answers += data
        if len(self._answers) > LONGEST_ANSWER_BYTES:
            raise self._failure(f"the decoder's answer is longer than {LONGEST_ANSWER_BYTES >> 20} MiB")

    def _failure(self, reason: str) -> Corrupt:
        """Note why, and end the program."""
        status = self._program.poll()
        with suppress(subprocess.TimeoutExpired):  # it may be about to end by itself
            status = self._program.wait(0.2)
        status_text = "" if status is None else f" (exit status {status})" if status >= 0 else f" (signal {-status})"
        self.end = reason + status_text
        self._kill()
        return Corrupt(self.end)

    def _kill(self) -> None:
        if self._program.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._program.pid, signal.SIGKILL)
            self._program.wait()

    def close(self) -> None:
        """Close the program's stdin, and wait for its end for some seconds."""
        assert self._in is not None
        assert self._out is not None
        self._in.close()
        with suppress(subprocess.TimeoutExpired):
            self._program.wait(END_SECONDS if self.end is None else 0)
        self._kill()
        self._out.close()

    def __enter__(self) -> PipedDecoder:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._kill()  # we were interrupted, or the dump has failed: there is nothing more to decode
        self.close()
