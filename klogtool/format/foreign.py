"""What is not Kafka's, or no longer: named by its first bytes, or by its name.

Such a file is not damaged, so it gets a name and an advice instead of findings. Bytes decide where a format has magic
bytes: a log with these would begin at an offset above 10^17. Names decide where the bytes may be Kafka's: objects of
tiered storage, and segments of Kafka 0.7 and of Redpanda.
"""

from __future__ import annotations

import re
import zlib

from klogtool.causes import Cause, some
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LENGTH

HEAD_BYTES = 1 << 12
STDIN = "-"


class Foreign(Cause):
    """What a file is. A cure of the same name says what to do instead."""

    TAR, ZIP, GZIP, ZSTD, XZ, BZIP2, LZ4, KAFKA_0_7, REDPANDA, BOOKKEEPER, ZOOKEEPER, TIERED = some(12)


class ForeignCure(Cause):
    """What to do with it. file: its path, as a word of a shell."""

    TAR, ZIP, GZIP, ZSTD, XZ, BZIP2, LZ4, KAFKA_0_7, REDPANDA, BOOKKEEPER, ZOOKEEPER, TIERED = some(12)


MAGICS = (
    (b"PK\3\4", Foreign.ZIP),
    (b"\x28\xb5\x2f\xfd", Foreign.ZSTD),
    (b"\x04\x22\x4d\x18", Foreign.LZ4),
    (b"\xfd7zXZ\0", Foreign.XZ),
    (b"BZh", Foreign.BZIP2),
    (b"BKLO", Foreign.BOOKKEEPER),  # DefaultEntryLogger: of ledgers
    (b"BKLG", Foreign.BOOKKEEPER),  # JournalChannel
    (b"ZKLG", Foreign.ZOOKEEPER),  # FileTxnLog
    (b"ZKSN", Foreign.ZOOKEEPER),  # FileSnap
)
GZIP_MAGIC, TAR_MAGIC, TAR_MAGIC_AT = b"\x1f\x8b\x08", b"ustar", 257
TAR_HEADER_BYTES, TAR_SUM = 512, slice(148, 156)
NAMES = (
    (re.compile(r"\d{20}\.kafka"), Foreign.KAFKA_0_7),
    (re.compile(r"\d+-\d+-v\d+\.(log|base_index|compaction_index)(\.\w+)?"), Foreign.REDPANDA),
    (re.compile(r"\d{20}-[\w-]{22}\.(log|indexes|rsm-manifest)"), Foreign.TIERED),  # io.aiven: ObjectKeyFactory
    (re.compile(r".+\.(tar|tar\.\w+|tgz|tzst)"), Foreign.TAR),
)


def foreign_bytes(head: bytes) -> Foreign | None:
    """Return what a file with these first HEAD_BYTES is; None if it may be Kafka's, or nobody knows."""
    if head.startswith(GZIP_MAGIC):
        try:
            unpacked = zlib.decompressobj(wbits=31).decompress(head, TAR_HEADER_BYTES)
        except zlib.error:
            return Foreign.GZIP
        return Foreign.TAR if _is_tar(unpacked) else Foreign.GZIP
    return Foreign.TAR if _is_tar(head) else next((kind for magic, kind in MAGICS if head.startswith(magic)), None)


def foreign_name(name: str) -> Foreign | None:
    """Return what a file with this name is; None if the name is not one of these."""
    return next((kind for pattern, kind in NAMES if pattern.fullmatch(name)), None)


def begins_as_log(head: bytes) -> bool:
    """Whether the first entry has a size and a magic that an entry can have."""
    if len(head) < HEADER_SIZE_UP_TO_MAGIC:
        return False
    length = int.from_bytes(head[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big", signed=True)
    return length >= MIN_LENGTH and head[HEADER_SIZE_UP_TO_MAGIC - 1] <= 2


def _is_tar(head: bytes) -> bool:
    """Whether the header of a file in a tar archive has its magic, and its checksum: octal digits."""
    if head[TAR_MAGIC_AT : TAR_MAGIC_AT + len(TAR_MAGIC)] != TAR_MAGIC or len(head) < TAR_HEADER_BYTES:
        return False
    summed = sum(head[:TAR_HEADER_BYTES]) - sum(head[TAR_SUM]) + sum(b" " * 8)
    return head[TAR_SUM].strip(b" \0").lstrip(b"0") == b"%o" % summed
