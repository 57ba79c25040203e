"""The same bytes through either reader: the reference, or the kernels. What ran is made sure of."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from klogtool import kernels
from klogtool.errors import KlogError
from klogtool.format.framing import whole_frames
from klogtool.log import span_maker
from klogtool.log.file import LogFile
from klogtool.log.windows import WINDOW_BYTES, walk_windows
from klogtool.render import log_lines
from klogtool.render.log_lines import SPAN_BYTES, LogDump, dump_log_lines
from klogtool.render.selection import DumpForm, RecordOptions

READERS = ("reference", "kernel")
NAME = "00000000000000000000.log"

SHALLOW = RecordOptions()
DEEP = RecordOptions(deep=True)
PRINT = RecordOptions(deep=True, print_data=True)
PRINT_AS_SCALA = RecordOptions(deep=True, print_data=True, as_scala=True)
PRINT_AS_SCALA_WITHOUT_METADATA = RecordOptions(deep=True, print_data=True, skip_metadata=True, as_scala=True)
PRINT_WITHOUT_METADATA = RecordOptions(deep=True, print_data=True, skip_metadata=True)


class Watched:
    """The extension, and how often each of its functions was asked for."""

    def __init__(self, native: Any) -> None:
        self._native, self.asked = native, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self._native, name)


@dataclass(frozen=True)
class Shown:
    """All that a reader has to say of a log.

    error: what ended it: (class, byte, reason, class in Kafka). passed_over: such errors that did not. gaps,
    last_offset, invalid, first_invalid: as LogDump has them.
    """

    out: bytes
    error: tuple[object, ...] | None
    passed_over: tuple[tuple[object, ...], ...]
    gaps: dict[int, int]
    last_offset: int
    invalid: int
    first_invalid: int | None

    @property
    def text(self) -> str:
        """What was printed, as text."""
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        """What was printed, line by line; the last may be half a line."""
        return self.text.splitlines()


def told(error: KlogError) -> tuple[object, ...]:
    return type(error).__name__, error.position, error.reason, error.kafka_class


@dataclass(frozen=True)
class Reader:
    """name: "reference" or "kernel"."""

    name: str

    @contextlib.contextmanager
    def reading(self) -> Iterator[Watched | None]:
        """Meanwhile this reader runs, and no other can."""
        native = Watched(kernels.native) if self.name == "kernel" else None
        with patch.object(kernels, "native", native or kernels.absent):
            yield native

    def show(
        self,
        data: bytes,
        form: DumpForm | RecordOptions = PRINT,
        *,
        window_bytes: int = WINDOW_BYTES,
        jobs: int = 1,
        span_bytes: int = SPAN_BYTES,
        end: int | None = None,
    ) -> Shown:
        """The log `data` up to byte `end`, in windows of some size, by some threads in spans of some size."""
        form = DumpForm(form) if isinstance(form, RecordOptions) else form
        end = len(data) if end is None else end
        pieces: list[bytes] = []
        dump, error = LogDump(), None
        windows = patch.object(span_maker, "walk_windows", partial(walk_windows, size=window_bytes))
        spans = patch.object(log_lines, "SPAN_BYTES", span_bytes)
        with log_file(data) as path, LogFile(path) as file, self.reading() as native, windows, spans:
            try:
                dump_log_lines(file, form, lambda piece: pieces.append(bytes(piece)), dump, end=end, jobs=jobs)
            except KlogError as ended_it:
                error = told(ended_it)
        self._make_sure(native, anything=whole_frames(data, end)[0] > 0, form=form)
        found = dump.gaps, dump.last_offset, dump.invalid, dump.first_invalid
        return Shown(b"".join(pieces), error, tuple(map(told, dump.errors)), *found)

    def _make_sure(self, native: Watched | None, *, anything: bool, form: DumpForm) -> None:
        """The kernel ran, if there was anything for it to read."""
        if native is None:
            return
        fit = form.options.decoder is None and (form.topic is None or form.json_file is None)
        assert native.asked["dump"] > 0 if anything and fit else fit or native.asked["dump"] == 0


@contextlib.contextmanager
def log_file(data: bytes, name: str = NAME) -> Iterator[pathlib.Path]:
    """A log file with these bytes, in memory where the system has a place for that."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = pathlib.Path(folder) / name
        path.write_bytes(data)
        yield path
