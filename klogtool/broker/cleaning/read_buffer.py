"""The batches of a segment as the cleaner reads them: through a buffer that grows if a batch does not fit.

The rules for a buffer are stricter than those for files, and an incomplete batch at the end is an error: the buffer
grows without success, and then the cleaner fails (Cleaner.growBuffersOrFail, ByteBufferLogInputStream).
"""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.broker.config import LogConfig
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_segment import walk_windows_of
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.batch import RECORD_BATCH_OVERHEAD
from klogtool.format.fields import numbers
from klogtool.format.framing import CURRENT_MAGIC, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LENGTH
from klogtool.format.layouts import FRAME
from klogtool.log.entries import Entry, read_entry

_FRAME = numbers(FRAME)


class ReadBuffer:
    """The size of the cleaner's buffer, which decides which batches are too large. capacity: current size in bytes."""

    def __init__(self, config: LogConfig) -> None:
        """Raises Refused for a size that no buffer can have."""
        self.capacity = self._usual = config.log_cleaner_io_buffer_size // config.log_cleaner_threads // 2
        self._most, self._max_message_bytes = config.message_max_bytes, config.max_message_bytes
        if self.capacity < 0:
            raise Refused(f"capacity < 0: ({self.capacity} < 0)", kafka_class="IllegalArgumentException")
        if not self.capacity:
            raise Refused("log.cleaner.io.buffer.size has no room for anything: a broker's cleaner would never end")

    def restore(self) -> None:
        """Return to the initial size, at the end of a segment."""
        self.capacity = min(self.capacity, self._usual)

    def grow(self, file: ContentFile, position: int) -> None:
        """Grow, because the batch at a position does not fit. Raises KlogError if a larger buffer does not help."""
        if self.capacity < self._max_message_bytes:
            self._grow_to(self._max_message_bytes, file, position)
            return
        size, left = self.size_of_first(file, position), file.size - position
        if size is None:
            raise _illegal_state("Could not determine next batch size", file, position)
        if size <= self.capacity:
            reason = f"Batch size {size} < buffer size {self.capacity}, but not processed"
            raise _illegal_state(reason, file, position)
        if size > left:
            reason = f"Log segment may be corrupt, batch size {size} > {left} bytes left in segment"
            raise _corrupt(reason, file, position)
        self._grow_to(size, file, position)

    def _grow_to(self, wanted: int, file: ContentFile, position: int) -> None:
        most = max(wanted, self._most)
        if self.capacity >= most:
            reason = f"This log contains a message larger than maximum allowable size of {most}."
            raise _illegal_state(reason, file, position)
        self.capacity = min(2 * self.capacity, most)

    def size_of_first(self, file: ContentFile, position: int) -> int | None:
        """Return the batch's size from its header, or None if the header is cut off. Raises Corrupt
        (CorruptRecordException)."""
        head = file.read(position, min(HEADER_SIZE_UP_TO_MAGIC, self.capacity))
        if len(head) < LOG_OVERHEAD:
            return None
        _, length, _, magic = _FRAME.unpack(head.ljust(HEADER_SIZE_UP_TO_MAGIC, b"\0"))
        if length < MIN_LENGTH:
            raise _corrupt(f"Record size {length} is less than the minimum record overhead", file, position)
        if len(head) < HEADER_SIZE_UP_TO_MAGIC:
            return None
        check_magic(magic, file, position)
        return int(length) + LOG_OVERHEAD


def walk_batches(file: ContentFile, buffer: ReadBuffer, start: int = 0) -> Iterator[Entry]:
    """Yield each batch from a position on, valid until the next one is requested.

    Raises Corrupt or Refused, with Kafka's class, where the cleaner cannot continue, also at an incomplete batch.
    """
    if start < 0:
        raise Corrupt(f"Failed to read from segment at byte {start}", path=file.path, kafka_class="KafkaException")
    position = start
    for window, frame in walk_windows_of(file, start):
        check_magic(frame.magic, file, position)
        while frame.size > buffer.capacity:
            buffer.grow(file, position)
        if frame.magic == CURRENT_MAGIC and frame.size < RECORD_BATCH_OVERHEAD:
            raise Corrupt(
                f"a batch of {frame.size} bytes is smaller than its header",
                path=file.path,
                position=position,
                kafka_class="IndexOutOfBoundsException",
            )
        yield read_entry(window, frame, file.path)
        position += frame.size
    end_at_tail(file, buffer, position)


def end_at_tail(file: ContentFile, buffer: ReadBuffer, position: int) -> None:
    """Raise Corrupt or Refused if less than a batch is left; do nothing at the end of the file."""
    while position < file.size:
        buffer.size_of_first(file, position)
        buffer.grow(file, position)


def check_magic(magic: int, file: ContentFile, position: int) -> None:
    """Raise Corrupt (CorruptRecordException) for an unknown magic."""
    if not 0 <= magic <= CURRENT_MAGIC:
        raise _corrupt(f"Invalid magic found in record: {magic}", file, position)


def _corrupt(reason: str, file: ContentFile, position: int) -> KlogError:
    return Corrupt(reason, path=file.path, position=position, kafka_class="CorruptRecordException")


def _illegal_state(reason: str, file: ContentFile, position: int) -> KlogError:
    return Refused(reason, path=file.path, position=position, kafka_class="IllegalStateException")
