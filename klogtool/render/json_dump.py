"""Every file of a log dir as JSON lines, one after another."""

from __future__ import annotations

import os

from klogtool.errors import KlogError
from klogtool.format.names import FileKind, FileName, parse_file_name, parse_partition_dir_name
from klogtool.log.file import read_whole
from klogtool.render.decoded_records import topic_of
from klogtool.render.file_dump import FOREIGN
from klogtool.render.json_lines import error_row, json_line
from klogtool.render.kafka_dump import INT_MAX, KafkaDump
from klogtool.render.log_lines import LogDump, dump_log_lines
from klogtool.render.records import Form
from klogtool.render.side_rows import MOST_BYTES, walk_side_rows

INTERNAL_TOPICS = (
    "__cluster_metadata",
    "__consumer_offsets",
    "__remote_log_metadata",
    "__share_group_state",
    "__transaction_state",
)


class JsonDump:
    """Writes files as JSON lines to `write`. `kafka` has the options and the selection, and collects the damage."""

    def __init__(self, kafka: KafkaDump) -> None:
        self.kafka, self.write = kafka, kafka.write

    def file(self, path: str) -> None:
        """Write a file. If it cannot be read further, writes an error line and raises the KlogError."""
        name = parse_file_name(os.path.basename(path))
        try:
            if name.kind.holds_batches or self.kafka.is_stdin(path):
                self._log(path)
            else:
                self._side_file(path, name)
        except KlogError as error:
            self.write(json_line(error_row(path, error.at_path(path))))
            raise

    def _log(self, path: str) -> None:
        kafka = self.kafka
        form = Form(
            kafka.options.records(),
            kafka.selection,
            json_file=path,
            topic=None if kafka.is_stdin(path) else internal_topic(path),
            go_on=kafka.go_on,
            values=kafka.values,
            values_topic=None if kafka.is_stdin(path) else topic_of(path),
        )
        with kafka.open(path) as log:
            end = min(log.size, max(kafka.options.max_bytes(), 0))
            dump = LogDump(on_progress=kafka.on_progress)
            try:
                dump_log_lines(log, form, self.write, dump, end=end, jobs=kafka.jobs)
            finally:
                kafka.note_damage(dump, path)
        name = parse_file_name(os.path.basename(path))
        has_offset = name.kind is FileKind.BOOTSTRAP_SNAPSHOT or name.base_offset is not None
        if not (has_offset or kafka.is_stdin(path)):
            kafka.note_name(path)
        if end > dump.valid_bytes and kafka.options.max_bytes() == INT_MAX:
            kafka.note_tail(end - dump.valid_bytes, path, dump.valid_bytes)
            tail = {"position": dump.valid_bytes, "size": end - dump.valid_bytes}
            self.write(json_line({"type": "trailing-bytes", "file": path, **tail}))

    def _side_file(self, path: str, name: FileName) -> None:
        data = read_whole(path, limit=MOST_BYTES)
        if name.kind is FileKind.FOREIGN:
            self.kafka.complain(FOREIGN.format(path))
        for row in walk_side_rows(name, data):
            kind = row.pop("type")
            self.write(json_line({"type": kind, "file": path, **row}))


def internal_topic(path: str) -> str | None:
    """Return the internal topic of a file, by its folder's name; None for any other topic."""
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    try:
        topic = parse_partition_dir_name(folder).topic
    except KlogError:
        topic = ""
    if os.path.basename(path).endswith(FileKind.KRAFT_SNAPSHOT.value):
        return "__cluster_metadata"  # also for bootstrap.checkpoint, which is in a log dir, not in a partition dir
    return topic if topic in INTERNAL_TOPICS else None
