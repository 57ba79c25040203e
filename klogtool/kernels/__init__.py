"""The hot loops, compiled. Each has a reference in Python, and gives the same answers.

A kernel stops in front of what it is not sure of; its caller goes on with the reference. `native` is the extension,
or `absent` where it was not built: that has the same names and types, stops in front of everything, and so the
reference does all of it. Callers have one path and never ask which of the two it is.
A rule of Kafka's that is in a kernel is in its reference, too: change both. Part, what it does, reference:

    absent             what stands in where the extension is not built
    _native.pyx        the extension: what all parts need, and the list of parts
    _layout.pxi        positions of fields; made from the declarations by         format/kernel_layout
    _common.pxi        why a kernel stopped, and structs that several parts share
    _machine.h         big-endian loads, sixteen bytes at a time
    _crc.h             checksums                                                  format/checksums
    _walk.pxi          whole entries, checksums                                   format/framing
                                                                                  format/checksums
    _varint.pxi        varints                                                    format/varint
    _records.pxi       the walk over records, sequence numbers, Java's longs       format/batch
    _codecs.pxi        lz4, snappy and zstd inflated                              format/codecs/lz4
                                                                                  format/codecs/snappy
                                                                                  format/codecs/zstd
    _snappy.pxi        snappy compressed                                          format/codecs/snappy_block
    _mapped.h          no crash where a mapped file is cut meanwhile              log/mapped
    _mapped.pxi        the same, as Python sees it                                log/mapped
    _objects.pxi       records as objects                                         format/batch
    _text.pxi          numbers as text, for _dump.pxi and _json.pxi
    _dump.pxi          lines of kafka-dump-log                                    render/kafka_text
    _json.pxi          lines of JSON                                              render/json_lines
    _csv.pxi           rows of CSV                                                render/csv_lines
    _columns.pxi       columns of Arrow                                           render/arrow_reference
    _scan.pxi          verify: entries that prove themselves                      format/batch_proof
                                                                                  format/succession
                                                                                  format/indexes
    _resync.pxi        the next batch behind damage                               format/resync
    _producers.pxi     producers and transactions                                 format/producer_replay
    _transactions.pxi  what is remembered of producers, open transactions         format/producers
    _indexes.pxi       when index entries are due, and what they are              broker/unified_log/log_segment
                                                                                  broker/unified_log/index_files
                                                                                  format/indexes
    _recover.pxi       recovery of a segment, but for its index entries           broker/unified_log/segment_recovery
                                                                                  broker/unified_log/sound_batches
    _append.pxi        batches that are appended                                  broker/appending/analysis
                                                                                  broker/appending/record_survey
    _encode.pxi        batches out of columns; the partition of a key             format/batch_encoding
                                                                                  format/partitioner
    _clean.pxi         the log cleaner                                            broker/cleaning/offset_map
                                                                                  broker/cleaning/record_filter
    _offsets.pxi       commits of groups                                          format/commit_replay
    _heads.pxi         headers of batches as columns                              spark/heads
    _restamp.pxi       leader epochs of batches                                   format/restamp
    _blank.pxi         keys and values taken out of batches                       format/blanking
    _merge.pxi         bytes that two copies share, and their items merged            format/item_merge
    _digest.pxi        fingerprints of records, what copies are compared by       format/record_digests
                                                                                  format/xxh64
    _avro.pxi          values of Avro as JSON                                     decoding/avro_values
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klogtool.format import codecs
from klogtool.format.buffers import Buffer
from klogtool.format.codecs import lz4, zstd
from klogtool.kernels import absent

if TYPE_CHECKING:
    native = absent
else:
    try:
        from klogtool.kernels import _native as native
    except ImportError:
        native = absent


def is_built() -> bool:
    """Whether the extension is there: for what is told of klogtool itself, and for tests."""
    return native is not absent


def crc32c(data: Buffer, so_far: int = 0) -> int:
    """CRC-32C of the bytes, unsigned; so_far: that of the bytes before them."""
    return native.crc32c(data, so_far)


def learn_zstd(work: native.Workspace) -> bool:
    """Tell a workspace where libzstd is; False if that cannot be found out."""
    functions = zstd.find_functions()
    if functions is not None:
        work.use_zstd(*functions)
    return functions is not None


def learn_lz4(cleaner: native.BatchCleaner) -> None:
    """Tell a cleaner where liblz4 is, if that can be found out."""
    functions = lz4.find_functions()
    if functions is not None:
        cleaner.use_lz4(*functions, lz4.build_header())


def compress(codec: str, data: bytes, *, magic: int) -> bytes:
    """format.codecs.compress at its default level, the fastest there is: no package makes the snappy of Kafka's."""
    if codec == "snappy":
        return native.compress_snappy(data)
    return codecs.compress(codec, data, magic=magic)
