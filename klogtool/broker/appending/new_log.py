"""A log that begins empty and takes whole batches, as a follower's log does: offsets and leader epochs stay.

It rolls where a broker would: at segment.bytes, segment.ms, a full index, or an offset too far from the base offset.
New bytes go to a spool for each segment, so that a whole log need not be in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

from klogtool.broker.appending.appender import Appender, Call, NotAppended
from klogtool.broker.circumstances import LoadTerms
from klogtool.broker.content import Content
from klogtool.broker.draft import Draft
from klogtool.broker.spools import MakeSpool, Spool
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.rolling import Incoming, should_roll
from klogtool.errors import KlogError
from klogtool.format.batch import RecordBatch, parse_batch
from klogtool.format.framing import walk_frames
from klogtool.format.identity import PartitionMetadata, build_partition_metadata
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.names import FileKind, build_file_name

MOST_SET_BYTES = 16 << 20  # of batches that are appended together


class NewLog:
    """path: of the future partition dir, for its name. terms.log_start_offset: where the log begins."""

    def __init__(self, path: str, terms: LoadTerms, make_spool: MakeSpool) -> None:
        self._draft = Draft(path, {})
        self._log = LoadedLog(self._draft, terms)
        self._start = self._log.log_start_offset
        self._appender = Appender(self._log)
        self._make_spool = make_spool
        self._spool: Spool = make_spool()

    @property
    def log_end_offset(self) -> int:
        """Return the offset after the last batch."""
        return self._log.log_end_offset

    def append(self, data: bytes) -> None:
        """Append whole batches of magic 2. Raises Refused or Corrupt, with Kafka's class, as a follower's append does;
        KlogError if the spool cannot be written."""
        view = memoryview(data)
        for start, stop, incoming in self._walk_sets(data):
            self._append_set(bytes(view[start:stop]), incoming)

    def _walk_sets(self, data: bytes) -> Iterator[tuple[int, int, Incoming]]:
        """Yield the batches that go together into the active segment: where they begin and end, and what they are."""
        batches = [parse_batch(data, frame.position) for frame in walk_frames(data, 0, len(data))]
        whole = reduce(_with, batches, None)
        if whole is not None and self._fits(whole, batches[0]):
            yield 0, len(data), whole
            return
        first, taken = None, None
        for batch in batches:
            more = _with(taken, batch)
            if first is not None and taken is not None and not self._fits(more, first):
                yield first.position, batch.position, taken
                first, more = None, _with(None, batch)
            first, taken = first or batch, more
        if first is not None and taken is not None:
            yield first.position, len(data), taken

    def _fits(self, incoming: Incoming, first: RecordBatch) -> bool:
        """Whether batches go together: the active segment has room, or begins with the first of them."""
        if incoming.size_bytes > MOST_SET_BYTES or should_roll(self._log, incoming).due:
            return False
        is_new = not self._log.segments.last.size and first.max_timestamp >= 0
        return not is_new or incoming.max_timestamp - first.max_timestamp <= self._log.terms.config.max_segment_ms

    def _append_set(self, data: bytes, incoming: Incoming) -> None:
        if self._log.segments.last.size and should_roll(self._log, incoming).due:
            self._spool = self._make_spool()
        self._spool.write(data)
        reply = self._appender.reply(Call((self._spool.end_part(),), True, MAX_INT, None))
        if isinstance(reply, NotAppended):
            raise KlogError(reply.error.message, path=self._draft.path, kafka_class=reply.error.kafka_class)

    def finish(self, topic_id: bytes) -> Mapping[str, Content]:
        """Stop the log as a broker stops it. Return the files of the partition dir."""
        self._log.stop()
        # Loading an empty log that begins above 0 takes a snapshot there. A recovery would drop it.
        self._draft.delete(build_file_name(FileKind.PRODUCER_SNAPSHOT, self._start))
        metadata = build_partition_metadata(PartitionMetadata(0, topic_id))
        self._draft.write(FileKind.PARTITION_METADATA.value, metadata)
        return {name: file.content for name, file in self._draft.files.items()}


def _with(taken: Incoming | None, batch: RecordBatch) -> Incoming:
    if taken is None:
        return Incoming(batch.size, batch.max_timestamp, batch.last_offset)
    return Incoming(taken.size_bytes + batch.size, max(taken.max_timestamp, batch.max_timestamp), batch.last_offset)
