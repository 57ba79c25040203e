"""Log files as CSV, one after another."""

from __future__ import annotations

import os

from klogtool.errors import KlogError
from klogtool.render.arrow import partition_of
from klogtool.render.csv_lines import CsvPlace
from klogtool.render.kafka_dump import INT_MAX, KafkaDump
from klogtool.render.log_lines import LogDump, dump_log_lines
from klogtool.render.records import Form


class CsvDump:
    """Writes the records of log files as CSV to `kafka.write`. `kafka` has the options and the selection, and collects
    the damage."""

    def __init__(self, kafka: KafkaDump) -> None:
        self.kafka = kafka

    def file(self, path: str) -> None:
        """Write the records of a file, whatever its name is. Raises KlogError where it cannot be read further."""
        try:
            self._log(path)
        except KlogError as error:
            raise error.at_path(path) from None

    def _log(self, path: str) -> None:
        kafka = self.kafka
        topic, partition = (None, None) if kafka.is_stdin(path) else partition_of(path)
        place = CsvPlace.of(topic, partition, os.path.basename(path))
        form = Form(selection=kafka.selection, go_on=kafka.go_on, csv=place)
        with kafka.open(path) as log:
            end = min(log.size, max(kafka.options.max_bytes(), 0))
            dump = LogDump(on_progress=kafka.on_progress)
            try:
                dump_log_lines(log, form, kafka.write, dump, end=end, jobs=kafka.jobs)
            finally:
                kafka.note_damage(dump, path)
        if end > dump.valid_bytes and kafka.options.max_bytes() == INT_MAX:
            kafka.note_tail(end - dump.valid_bytes, path, dump.valid_bytes)
