"""An entry of a log file of whatever magic: a record batch, or a message."""

from __future__ import annotations

from klogtool.errors import KlogError
from klogtool.format import batch, message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from klogtool.format.buffers import Buffer
    from klogtool.format.framing import Frame


def parse_entry(data: Buffer, frame: Frame, *, base: int = 0) -> batch.RecordBatch | message.Message:
    """The entry of a frame: magic 2 and above as a batch, all below as a message (FileLogInputStream).

    base: position of data[0] in its file. Raises Corrupt where the buffer ends inside the header of a batch.
    """
    if frame.magic >= 2:
        return batch.parse_batch(data, frame.position, base=base)
    return message.parse_message(data, frame.position, base=base)


def inflate_or_none(entry: batch.RecordBatch | message.Message) -> bytes | None:
    """The bytes of its records, or inner messages, inflated for a kernel; None where only the reference can say why
    that fails."""
    try:
        return batch.inflate(entry) if isinstance(entry, batch.RecordBatch) else message.inflate(entry)
    except KlogError:
        return None
