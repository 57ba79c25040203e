"""dump-log --follow: the lines of what is new in a segment."""

from __future__ import annotations

from klogtool.errors import Corrupt
from klogtool.log.file import LogFile
from klogtool.log.followed import FollowedSegment, is_unwritten
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.log_lines import LogDump, dump_log_lines
from klogtool.render.selection import DumpForm

PIECE_BYTES = 8 << 20  # after a truncation, not much more than this is printed twice


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
