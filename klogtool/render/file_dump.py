"""Any file of a log dir, one after another: klogtool's own way, where a bad file does not keep others from being read.

Text is kafka-dump-log's where that has any, by what a file is under a suffix such as .deleted, too; of all else the
fields, a line an entry. JSON lines are of all files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from klogtool.errors import KlogError
from klogtool.format.names import FileKind, FileName, parse_file_name, parse_partition_dir_name
from klogtool.log.file import LogFile, read_whole, unreadable
from klogtool.render.json_lines import error_row, json_line
from klogtool.render.kafka_dump import INT_MAX, KafkaDump
from klogtool.render.log_lines import LogDump, dump_log_lines
from klogtool.render.records import Form
from klogtool.render.side_rows import MOST_BYTES, walk_side_rows

LOGS = (FileKind.LOG, FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT)
FOREIGN = "klogtool: {}: not a file of Kafka's, by its name"
INTERNAL_TOPICS = (
    "__cluster_metadata",
    "__consumer_offsets",
    "__remote_log_metadata",
    "__share_group_state",
    "__transaction_state",
)


def walk_files(path: str, tell: Callable[[KlogError], None]) -> Iterator[str]:
    """The file itself, or all files below a folder, in order of name.

    `tell` hears of what cannot be listed: a path that is not there, a folder without access. A folder that is linked
    to from below itself is not entered again.
    """
    try:
        os.lstat(path)
    except OSError as error:
        tell(unreadable(path, error))
    else:
        yield from _walk(path, tell, ())


def _walk(path: str, tell: Callable[[KlogError], None], above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    try:
        about, names = os.stat(path), sorted(os.listdir(path))
    except OSError as error:
        tell(unreadable(path, error))
        return
    this = about.st_dev, about.st_ino
    for name in names if this not in above else ():
        yield from _walk(os.path.join(path, name), tell, (*above, this))


def internal_topic(path: str) -> str | None:
    """The internal topic whose partition dir a file lies in, by the folder's name; None for any other."""
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    try:
        topic = parse_partition_dir_name(folder).topic
    except KlogError:
        topic = ""
    if os.path.basename(path).endswith(FileKind.KRAFT_SNAPSHOT.value):
        return "__cluster_metadata"  # also bootstrap.checkpoint, which lies in a log dir
    return topic if topic in INTERNAL_TOPICS else None


class JsonDump:
    """JSON lines of files to `write`. Kafka's options and selections are `kafka`'s, and so is what was damaged."""

    def __init__(self, kafka: KafkaDump) -> None:
        self.kafka, self.write = kafka, kafka.write

    def file(self, path: str) -> None:
        """One file. Raises KlogError where it cannot be read on; an error line then says so, too."""
        name = parse_file_name(os.path.basename(path))
        try:
            if name.kind in LOGS:
                self._log(path)
            else:
                self._side_file(path, name)
        except KlogError as error:
            self.write(json_line(error_row(shown_name(path), error.at_path(path))))
            raise

    def _log(self, path: str) -> None:
        kafka = self.kafka
        form = Form(
            kafka.options.records(),
            kafka.selection,
            json_file=shown_name(path),
            topic=internal_topic(path),
            go_on=kafka.go_on,
        )
        with LogFile(path) as log:
            end = min(log.size, max(kafka.options.max_bytes(), 0))
            dump = LogDump(on_progress=kafka.on_progress)
            try:
                dump_log_lines(log, form, self.write, dump, end=end, jobs=kafka.jobs)
            finally:
                kafka.note_damage(dump, path)
        name = parse_file_name(os.path.basename(path))
        if name.kind is not FileKind.BOOTSTRAP_SNAPSHOT and name.base_offset is None:
            kafka.note_name(path)
        if end > dump.valid_bytes and kafka.options.max_bytes() == INT_MAX:
            kafka.note_tail(end - dump.valid_bytes, path, dump.valid_bytes)
            tail = {"position": dump.valid_bytes, "size": end - dump.valid_bytes}
            self.write(json_line({"type": "trailing-bytes", "file": shown_name(path), **tail}))

    def _side_file(self, path: str, name: FileName) -> None:
        data = read_whole(path, limit=MOST_BYTES)
        if name.kind is FileKind.FOREIGN:
            self.kafka.complain(FOREIGN.format(path))
        for row in walk_side_rows(name, data):
            kind = row.pop("type")
            self.write(json_line({"type": kind, "file": shown_name(path), **row}))


class TextDump:
    """Text of files of any kind, through `kafka` where kafka-dump-log knows them."""

    def __init__(self, kafka: KafkaDump) -> None:
        self.kafka = kafka

    def file(self, path: str) -> None:
        """One file. Raises KlogError where it cannot be read on."""
        name = parse_file_name(os.path.basename(path))
        if name.kind in LOGS and name.suffix:
            self.kafka.log(path, name.name.removesuffix(name.suffix))
        elif not name.suffix and (name.kind.has_base_offset or name.kind in LOGS):
            self.kafka.file(path)
        else:
            self._side_file(path, name)

    def _side_file(self, path: str, name: FileName) -> None:
        self.kafka.print(f"Dumping {path}")
        try:
            data = read_whole(path, limit=MOST_BYTES)
            if name.kind is FileKind.FOREIGN:
                self.kafka.complain(FOREIGN.format(path))
            for row in walk_side_rows(name, data):
                kind = row.pop("type")
                fields = " ".join(f"{field}: {_text(value)}" for field, value in row.items())
                self.kafka.print(f"{kind} {fields}".rstrip())
        except KlogError as error:
            raise error.at_path(path) from None


def _text(value: object) -> str:
    """A field's value as Kafka's tools print such."""
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return str(list(value)) if isinstance(value, tuple) else str(value)


def shown_name(path: str) -> str:
    """A path as JSON can say it: bytes that are no text are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
