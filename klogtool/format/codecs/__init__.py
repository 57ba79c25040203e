"""Compression of a batch's records, as Kafka's own streams read and write it. Knows nothing of the records.

The only package that imports snappy, lz4 and zstandard. A stream is accepted or refused exactly as by the Java
libraries of Kafka 4.3.1 (on JDK 17). That is not always what the specification of the format demands: see each codec's
module. Output is limited while it grows, so a few bytes that would inflate to gigabytes cost no more memory than the
limit.

    gzip          gzip (GZIPInputStream, GzipOutputStream)
    snappy        snappy in Java's framing, and raw
    snappy_block  a raw snappy block, the same bytes as libsnappy's
    lz4           LZ4 frames (Lz4BlockInputStream, Lz4BlockOutputStream)
    zstd          zstd (zstd-jni)
    padding       a compressed stream of a given size
    inflated      output that grows up to a limit
"""

from __future__ import annotations

from klogtool.errors import Refused
from klogtool.format.buffers import Buffer
from klogtool.format.codecs import gzip, lz4, snappy, zstd

CODEC_NAMES = CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the id in a batch's attributes (Kafka's CompressionType)."""

MAX_INFLATED_BYTES = 256 * 1024 * 1024
"""Most bytes that one batch may inflate to; a broker's own batches stay near message.max.bytes (1 MiB)."""

_LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}
_DEFAULT_LEVELS = {"gzip": -1, "lz4": 9, "zstd": 3}


def decompress(codec: str, data: Buffer, *, magic: int, limit: int = MAX_INFLATED_BYTES) -> bytes:
    """Inflate the records of a batch (magic 2) or the value of a wrapper message (magic 0, 1).

    Returns all bytes of the stream that Kafka's Compression.wrapForInput opens. Raises Corrupt if that stream throws,
    even after some bytes; kafka_class is the exception that Kafka's record iterator throws then. Raises Unsupported
    for more than `limit` bytes, and for a zstd frame from before zstd 1.0 (which Kafka's library still reads). Memory
    stays near `limit` plus the size of the input; only a single raw snappy block of that size is held twice.
    """
    if codec == "zstd":
        return zstd.decompress(data, limit)
    if codec == "gzip":
        return gzip.decompress(data, limit)
    if codec == "snappy":
        return snappy.decompress(data, limit)
    if codec == "lz4":
        return lz4.decompress(data, limit, check_descriptor=magic != 0)
    if codec == "none":
        return bytes(data)
    raise ValueError(f"no codec is called {codec}")


def compress(codec: str, data: Buffer, *, magic: int, level: int | None = None) -> bytes:
    """Deflate records as the stream of Kafka's Compression.wrapForOutput does, closed after one write.

    The frames are the same as Kafka's. Their content is the same, too, if the library is of a version that compresses
    as Kafka 4.3.1 does: any zlib seen so far; lz4 1.10, for levels above 2 any lz4; libzstd 1.5.6. snappy needs no
    library (snappy_block.py). level None: Kafka's default. Raises Refused for a level that Kafka refuses. The caller
    has to know that zstd needs magic 2.
    """
    if level is not None:
        _check_level(codec, level)
    elif codec in _DEFAULT_LEVELS:
        level = _DEFAULT_LEVELS[codec]
    if codec == "zstd" and level is not None:
        return zstd.compress(data, level)
    if codec == "gzip" and level is not None:
        return gzip.compress(data, level)
    if codec == "lz4" and level is not None:
        return lz4.compress(data, level, wrong_descriptor=magic == 0)
    if codec == "snappy":
        return snappy.compress(data)
    if codec == "none":
        return bytes(data)
    raise ValueError(f"no codec is called {codec}")


def _check_level(codec: str, level: int) -> None:
    if codec not in _LEVELS:
        reason = f"Compression levels are not defined for this compression type: {codec}"
        raise Refused(reason, kafka_class="UnsupportedOperationException")
    least, most = _LEVELS[codec]
    if not least <= level <= most and level != _DEFAULT_LEVELS[codec]:
        reason = f"{codec} doesn't support given compression level: {level}"
        raise Refused(reason, kafka_class="IllegalArgumentException")
