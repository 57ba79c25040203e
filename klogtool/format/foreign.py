"""What is not Kafka's, or no longer: named by its first bytes, or by its name.

Such a file is not damaged, so it gets a name and an advice instead of findings. Bytes decide where a format has magic
bytes: a log with these would begin at an offset above 10^17. Names decide where the bytes may be Kafka's: objects of
tiered storage, and segments of Kafka 0.7 and of Redpanda.
"""

from __future__ import annotations

import re
import zlib

from msgspec import Struct

from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LENGTH

HEAD_BYTES = 1 << 12
STDIN = "-"


class Foreign(Struct, frozen=True):
    """what: "a tar archive". instead: what to do, with {file} for the path as a word of a shell."""

    what: str
    instead: str


def _packed(program: str, of: str) -> Foreign:
    return Foreign(f"compressed with {of}", f"{program} {{file}} | klogtool dump-log -  # for a segment")


TAR = Foreign("a tar archive", "Unpack it (tar -xf {file} -C DIR), and name the log dir or the partition dir in DIR.")
ZIP = Foreign("a zip archive", "Unpack it (unzip {file} -d DIR), and name the log dir or the partition dir in DIR.")
GZIP, ZSTD, XZ = _packed("zcat", "gzip"), _packed("zstdcat", "zstd"), _packed("xzcat", "xz")
BZIP2, LZ4 = _packed("bzcat", "bzip2"), _packed("lz4cat", "lz4")
KAFKA_0_7 = Foreign(
    "written by Kafka 0.7, whose messages have no offsets",
    "Only Kafka 0.7 reads it. kafka.tools.KafkaMigrationTool of Kafka 0.8 copies topics of a broker of 0.7.",
)
REDPANDA = Foreign(
    "written by Redpanda, which has another format",
    "tools/offline_log_viewer in Redpanda's sources reads it. A running Redpanda serves the records to Kafka's "
    "clients.",
)
BOOKKEEPER = Foreign(
    "written by Apache BookKeeper, where Apache Pulsar keeps its messages",
    "`bin/bookkeeper shell readlog` and `readjournal` read it. A running Pulsar serves its messages.",
)
ZOOKEEPER = Foreign(
    "written by ZooKeeper, and has no records of Kafka",
    "ZooKeeper's bin/zkTxnLogToolkit.sh and bin/zkSnapShotToolkit.sh read it. Kafka's log dirs are in `log.dirs` of "
    "server.properties.",
)
TIERED = Foreign(
    "an object of tiered storage, as Kafka's or Aiven's RemoteStorageManager writes it",
    "klogtool remote reads and checks such a store. dump-log, lookup and read take the folder of one partition in it, "
    "or a .log object in that folder. Of a .log that lies elsewhere: klogtool dump-log - < {file}",
)

MAGICS = (
    (b"PK\3\4", ZIP),
    (b"\x28\xb5\x2f\xfd", ZSTD),
    (b"\x04\x22\x4d\x18", LZ4),
    (b"\xfd7zXZ\0", XZ),
    (b"BZh", BZIP2),
    (b"BKLO", BOOKKEEPER),  # DefaultEntryLogger: of ledgers
    (b"BKLG", BOOKKEEPER),  # JournalChannel
    (b"ZKLG", ZOOKEEPER),  # FileTxnLog
    (b"ZKSN", ZOOKEEPER),  # FileSnap
)
GZIP_MAGIC, TAR_MAGIC, TAR_MAGIC_AT = b"\x1f\x8b\x08", b"ustar", 257
TAR_HEADER_BYTES, TAR_SUM = 512, slice(148, 156)
NAMES = (
    (re.compile(r"\d{20}\.kafka"), KAFKA_0_7),
    (re.compile(r"\d+-\d+-v\d+\.(log|base_index|compaction_index)(\.\w+)?"), REDPANDA),
    (re.compile(r"\d{20}-[\w-]{22}\.(log|indexes|rsm-manifest)"), TIERED),  # io.aiven: ObjectKeyFactory
    (re.compile(r".+\.(tar|tar\.\w+|tgz|tzst)"), TAR),
)


def foreign_bytes(head: bytes) -> Foreign | None:
    """Return what a file with these first HEAD_BYTES is; None if it may be Kafka's, or nobody knows."""
    if head.startswith(GZIP_MAGIC):
        try:
            return TAR if _is_tar(zlib.decompressobj(wbits=31).decompress(head, TAR_HEADER_BYTES)) else GZIP
        except zlib.error:
            return GZIP
    return TAR if _is_tar(head) else next((kind for magic, kind in MAGICS if head.startswith(magic)), None)


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
