# Headers of batches as columns of numbers, for whoever looks at nothing else (spark/heads is the reference).

cdef enum:
    MAX_LONG_UP_TO_DELTA = 31       # bits: below 2^63 - 2^31 no delta overflows an offset

def batch_heads(const uint8_t[::1] log not None, int64_t at, int64_t end, int64_t base, int64_t[::1] into not None,
                int64_t room):
    """(where it ended, rows): the fields of batches of magic 2 that follow each other from byte `at` on.

    The header of a batch is to be in `log`, its end at most `end`. into: 16 columns of `room` numbers each, in the order
    of format.batch.HEAD_COLUMNS. base: position of log[0] in its file. Ends before whatever is not plain: messages, lengths
    that cannot be, codecs, offsets and sequences that no broker writes.
    """
    cdef int64_t have = log.shape[0], rows = 0, length, offset
    cdef int32_t delta, sequence
    cdef int16_t attributes
    cdef int64_t* out
    cdef Bytes b
    if into.shape[0] < 16 * room:
        raise ValueError("too small a buffer")
    if have == 0 or room == 0:
        return at, 0
    with nogil:
        while rows < room and have - at >= BATCH_SIZE:
            b = &log[at]
            length = be32(b + BATCH_LENGTH)     # once: mapped bytes may change
            offset = be64(b + BATCH_BASE_OFFSET)
            delta = be32(b + BATCH_LAST_OFFSET_DELTA)
            sequence = be32(b + BATCH_BASE_SEQUENCE)
            attributes = be16(b + BATCH_ATTRIBUTES)
            if b[BATCH_MAGIC] != 2 or length < BATCH_SIZE - LOG_OVERHEAD or length > end - at - LOG_OVERHEAD:
                break
            # After this no sum overflows. What ends here is for the reference, which adds as Java does.
            if offset < 0 or offset >> MAX_LONG_UP_TO_DELTA == (<int64_t> 0xffffffff) or delta < 0 or sequence < -1:
                break
            if attributes & CODEC_MASK > CODEC_ZSTD:
                break
            out = &into[rows]
            out[0] = base + at
            out[room] = length + LOG_OVERHEAD
            out[2 * room] = offset
            out[3 * room] = offset + delta
            out[4 * room] = be32(b + BATCH_PARTITION_LEADER_EPOCH)
            out[5 * room] = 2
            out[6 * room] = <uint32_t> be32(b + BATCH_CRC)
            out[7 * room] = attributes
            out[8 * room] = delta
            out[9 * room] = be64(b + BATCH_BASE_TIMESTAMP)
            out[10 * room] = be64(b + BATCH_MAX_TIMESTAMP)
            out[11 * room] = be64(b + BATCH_PRODUCER_ID)
            out[12 * room] = be16(b + BATCH_PRODUCER_EPOCH)
            out[13 * room] = sequence
            out[14 * room] = last_sequence_of(sequence, delta)
            out[15 * room] = be32(b + BATCH_RECORDS_COUNT)
            at += length + LOG_OVERHEAD
            rows += 1
    return at, rows
