"""One file after another as kafka-dump-log prints it, and what it reports at its end.

As in Kafka's tool, only the suffix decides the type of a file. stdout is byte for byte the same; where Kafka's tool
dies of damage, a KlogError is raised after the same output.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from klogtool.errors import AtPath, Corrupt, KlogError
from klogtool.format.indexes import parse_txn_index
from klogtool.format.java_numbers import MAX_INT, parse_java_long
from klogtool.format.names import parse_base_offset, parse_kraft_snapshot_name
from klogtool.format.producer_snapshot import parse_producer_snapshot
from klogtool.kernels import crc32c
from klogtool.log.file import LogFile, Unreadable, read_whole
from klogtool.log.folder import partition_of
from klogtool.log.followed import FollowedSegment, is_unwritten
from klogtool.log.probing import ends_preallocated
from klogtool.render.arrow import NamedLog
from klogtool.render.csv_lines import CsvPlace
from klogtool.render.decoder_classes import decoder_of_values, internal_topic
from klogtool.render.index_text import Reports, dump_offset_index, dump_time_index
from klogtool.render.kafka_options import KafkaOptions
from klogtool.render.kafka_text import aborted_txn_line, producer_line
from klogtool.render.log_lines import LogDump, dump_log_lines
from klogtool.render.selection import DumpForm, Selection

if TYPE_CHECKING:
    from klogtool.decoding.record_values import Decoding

    Write = Callable[[bytes | memoryview], None]


BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
PIECE_BYTES = 8 << 20  # of a followed log: after a truncation, not much more than this is printed twice


class KafkaDump:
    """Prints files to `write` and complaints to `complain`, and collects the reports.

    selection: only these records. go_on: continue after damage, where Kafka's tool dies. jobs: threads. values: how
    keys and values are decoded. damaged: whether anything was wrong so far. named: logs that are not opened by their
    path.
    """

    def __init__(
        self,
        options: KafkaOptions,
        write: Write,
        complain: Callable[[str], None],
        *,
        selection: Selection | None = None,
        go_on: bool = False,
        jobs: int = 1,
        values: Decoding | None = None,
    ) -> None:
        self.options, self.write, self.complain = options, write, complain
        self.selection, self.go_on, self.jobs, self.values = selection, go_on, jobs, values
        self.reports, self.damaged = Reports(as_scala=options.as_scala), False
        self.on_progress: Callable[[int], None] | None = None
        self.named: Mapping[str, NamedLog] = {}

    def open(self, path: str) -> LogFile:
        """Open a log."""
        return self.named[path].open() if path in self.named else LogFile(path)

    def file(self, path: str) -> None:
        """Print a file. Raises KlogError where Kafka's tool dies."""
        self.print(f"Dumping {path}")
        name = os.path.basename(path)
        dump = DUMPS.get(name[name.rfind(".") :] if "." in name else "")
        if dump is None:
            self.complain(f"Ignoring unknown file {path}")
        else:
            with AtPath(path):
                dump(self, path, name)

    def print(self, line: str) -> None:
        """Write a line of the dump."""
        self.write(os.fsencode(line + "\n"))

    def log(self, path: str, name: str) -> None:
        """Print a log with any file name as if it had the name `name`."""
        self.print(f"Dumping {path}")
        with AtPath(path):
            self._log(path, name)

    def _log(self, path: str, name: str) -> None:
        self._entries(path, lambda: _log_heading(name))

    def named_log(self, path: str) -> None:
        """Print one of the named logs. If its name is not known, the offset in that is taken from the first header."""
        name = self.named[path].name
        self.print(f"Dumping {path}")
        with AtPath(path):
            if name is None:
                with self.open(path) as log:
                    first = int.from_bytes(log.read(0, 8).ljust(8, b"\0"), "big", signed=True)
            self._entries(path, lambda: f"Log starting offset: {first}" if name is None else _log_heading(name))

    def form(self, name: str, path: str) -> DumpForm:
        """Return how the entries of a log are shown: as "text", "json" or "csv"."""
        remote = self.named.get(path)
        topic, partition = partition_of(path) if remote is None else (remote.topic, remote.partition)
        if name == "csv":
            place = CsvPlace.of(topic, partition, os.path.basename(path))
            return DumpForm(selection=self.selection, go_on=self.go_on, csv=place)
        options = self.options.records()
        if name == "json":
            internal = internal_topic(path) if remote is None else None
            return DumpForm(options, self.selection, path, internal, self.go_on, values=self.values, values_topic=topic)
        if self.values is not None:
            options.decoder = decoder_of_values(self.values, topic)
        return DumpForm(options, self.selection, go_on=self.go_on)

    def _entries(self, path: str, heading: Callable[[], str]) -> None:
        form, max_bytes = self.form("text", path), self.options.max_bytes()
        self.print(heading())
        with self.open(path) as log:
            _check_log_size(log)
            if max_bytes < 0:
                raise Corrupt(f"invalid size: {max_bytes}", kafka_class="IllegalArgumentException")
            position, left = self.lines(log, form)
            if left:
                self.print(f"Found {left} invalid bytes at the end of {os.path.basename(log.path)}")
                self.note_tail(left, log.path, position)

    def lines(self, log: LogFile, form: DumpForm) -> tuple[int, int]:
        """Write the entries of a log. Return where they end, and how many bytes after that are not a whole batch; 0 if
        only a part of the log was wanted."""
        max_bytes, dump = self.options.max_bytes(), LogDump(on_progress=self.on_progress)
        end = min(log.size, max(max_bytes, 0))
        try:
            dump_log_lines(log, form, self.write, dump, end=end, jobs=self.jobs)
        finally:
            if dump.gaps and self.selection is None:
                where = log.path if log.path in self.named else os.path.abspath(log.path)
                self.reports.gaps.setdefault(where, {}).update(dump.gaps)
            self.note_damage(dump, log.path)
        left = max(0, end - dump.valid_bytes) if max_bytes == MAX_INT else 0
        is_end = left and not form.is_text and ends_preallocated(log, dump.valid_bytes)
        return dump.valid_bytes, 0 if is_end else left

    def note_damage(self, dump: LogDump, path: str) -> None:
        """Complain about damage that did not end the dump of a log."""
        self.damaged = self.damaged or bool(dump.invalid or dump.errors)
        if dump.invalid:
            count = "a batch does" if dump.invalid == 1 else f"{dump.invalid} batches, this first, do"
            self._tell(Corrupt(f"{count} not match the checksum", path=path, position=dump.first_invalid))
        for error in dump.errors:
            self._tell(error.at_path(path))

    def note_tail(self, size: int, path: str, position: int) -> None:
        """Complain about bytes at the end of a log that are not a whole batch."""
        self.damaged = True
        self._tell(Corrupt(f"{size} bytes at the end are not a whole batch", path=path, position=position))

    def note_name(self, path: str) -> None:
        """Complain about a log whose name is not an offset: Kafka does not load a partition with such a file."""
        self.damaged = True
        self._tell(Corrupt("the name is no base offset", path=path, kafka_class="NumberFormatException"))

    def _tell(self, error: KlogError) -> None:
        self.complain(f"klogtool: {error}")

    def _offset_index(self, path: str, name: str) -> None:
        self.options.max_message_size()  # a wrong one is reported first, as by Kafka's tool
        base_offset = _number_before_dot(name)
        with _log_beside(path, name) as log:
            dump_offset_index(path, base_offset, log, self.options, self.reports, self.write)

    def _time_index(self, path: str, name: str) -> None:
        base_offset = _number_before_dot(name)
        with _log_beside(path, name) as log:
            with _neighbour(path, name, ".index") as beside:
                index = read_whole(beside, limit=MAX_INT)
            dump_time_index(path, base_offset, log, index, self.options, self.reports, self.write)

    def _snapshot(self, path: str, name: str) -> None:
        try:
            producers = parse_producer_snapshot(read_whole(path, limit=MAX_INT), crc32c)
        except Corrupt as error:
            self.damaged = True
            self._tell(error.at_path(path))
            return
        for producer in producers:
            self.print(producer_line(producer, as_scala=self.options.as_scala))

    def _txn_index(self, path: str, name: str) -> None:
        parse_base_offset(name)
        if os.path.exists(path):
            for txn in parse_txn_index(read_whole(path, limit=MAX_INT)):
                self.print(aborted_txn_line(txn))


class FollowingDump:
    """Prints segments as they grow. `kafka` has the options and where lines go; form: "text", "json" or "csv"."""

    def __init__(self, kafka: KafkaDump, form: str) -> None:
        self._kafka, self._form_name = kafka, form
        self._segment: FollowedSegment | None = None
        self._form = DumpForm()
        self._last_offset = -1

    def read(self, segment: FollowedSegment, log: LogFile) -> None:
        """Print the whole batches from `segment.at` on. What is not whole at the end is left for later.

        Raises KlogError for damage that ends a dump.
        """
        if segment is not self._segment:
            kafka, path = self._kafka, segment.path
            self._segment, self._last_offset = segment, -1
            self._form = kafka.form(self._form_name, path)
            if self._form_name == "text":
                kafka.print(f"Dumping {path}")
                kafka.print(f"Log starting offset: {segment.base_offset}")
        chunk = PIECE_BYTES
        while segment.at < log.size:
            at, stop = segment.at, min(segment.at + chunk, log.size)
            segment.move_to(log, self._print(log, at, stop))
            if segment.at == at and stop == log.size:
                return
            chunk = PIECE_BYTES if segment.at > at else 2 * chunk

    def _print(self, log: LogFile, at: int, stop: int) -> int:
        """Return the byte behind the last whole batch."""
        dump = LogDump()
        dump.valid_bytes, dump.last_offset = at, self._last_offset
        try:
            dump_log_lines(log, self._form, self._kafka.write, dump, start=at, end=stop, jobs=self._kafka.jobs)
        except Corrupt as error:
            if not is_unwritten(log, dump.valid_bytes):
                raise error.at_path(log.path) from None
        finally:
            self._kafka.note_damage(dump, log.path)
        self._last_offset = dump.last_offset
        return dump.valid_bytes


DUMPS = {
    ".log": KafkaDump._log,
    ".checkpoint": KafkaDump._log,
    ".index": KafkaDump._offset_index,
    ".timeindex": KafkaDump._time_index,
    ".snapshot": KafkaDump._snapshot,
    ".txnindex": KafkaDump._txn_index,
}


def _log_heading(name: str) -> str:
    if name.endswith(".log"):
        return f"Log starting offset: {_number_before_dot(name)}"
    if name == BOOTSTRAP_SNAPSHOT:
        return "KRaft bootstrap snapshot"
    snapshot = parse_kraft_snapshot_name(name)
    assert snapshot is not None  # DUMPS has chosen this function by the suffix
    return f"Snapshot end offset: {snapshot.end_offset}, epoch: {snapshot.epoch}"


def _number_before_dot(name: str) -> int:
    try:
        return parse_java_long(name.partition(".")[0])
    except Corrupt as error:
        error.reason = "the name is no base offset"
        raise


@contextmanager
def _log_beside(path: str, name: str) -> Iterator[LogFile]:
    with _neighbour(path, name, ".log") as beside:
        log = LogFile(beside, or_folder=True)
    with log:
        _check_log_size(log)
        yield log


@contextmanager
def _neighbour(path: str, name: str, suffix: str) -> Iterator[str]:
    """Name the file beside `path` with another suffix. If it is missing, but `path` is not, the error says so."""
    beside = name.partition(".")[0] + suffix
    try:
        yield os.path.join(os.path.dirname(path), beside)
    except Unreadable as error:
        if error.errno != errno.ENOENT:
            raise
        if not os.path.lexists(path):
            error.path = path
            raise
        reason = f"cannot be dumped without {beside}, which is not there"
        raise Corrupt(reason, path=path, kafka_class=error.kafka_class) from error


def _check_log_size(log: LogFile) -> None:
    if log.size > MAX_INT:
        raise Corrupt(
            f"{log.size} bytes are more than a segment can have ({MAX_INT})",
            path=log.path,
            kafka_class="KafkaException",
        )
