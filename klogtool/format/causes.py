"""Why an entry contradicts itself; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class EntryCause(Cause):
    """What is impossible about an entry whose checksum is right."""

    CODEC, CODEC_OF_MAGIC, FLAGS, DELTA, MORE_THAN_OFFSETS, OTHER_SIZE, SHORT_MESSAGE = some(7)
    COMPRESSED_CONTROL, NO_PRODUCER, PRODUCER_EPOCH, SEQUENCE = some(4)
    RECORD_ORDER, BEYOND_LAST, OTHER_TIME, INNER_ORDER, OTHER_LAST = some(5)
