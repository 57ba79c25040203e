# The same as rows of CSV (render/csv_lines is the reference). The room was asked for (`fits`).

cdef bint csv_text(Out* o, Bytes p, int64_t n) noexcept nogil:
    """The inside of a quoted field; False if the bytes are no text for CSV, and then `o` is as it was."""
    cdef Bytes end = p + n
    cdef Out to = o[0]              # nobody else's, so that a register holds it
    cdef bint good = False
    cdef int step
    if n >= 2 and p[0] == 92 and p[1] == 120:
        return False
    while p < end:
        if end - p >= 16:
            step = json_plain_before(p)
            memcpy(to.at, p, 16)    # what is too many is written over; it has the room of these bytes
            to.at += step
            p += step
            if step == 16:
                while end - p >= 64 and json_plain_64(p):
                    memcpy(to.at, p, 64)
                    to.at += 64
                    p += 64
                continue
        if p[0] < 0x20 and p[0] != 9 and p[0] != 10 and p[0] != 13:
            return False
        if p[0] < 0x80:
            to.at[0] = to.at[1] = p[0]
            to.at += 2 if p[0] == 34 else 1
            p += 1
            continue
        step = utf8_step(p, end, &good)
        if not good:
            return False
        memcpy(to.at, p, step)
        to.at += step
        p += step
    o[0] = to
    return True

cdef void csv_bytes(Out* o, Bytes p, int64_t n) noexcept nogil:
    """Bytes, or nothing for a size below 0."""
    cdef int64_t i
    if n < 0:
        return
    text(o, b'"')
    if not csv_text(o, p, n):
        text(o, b"\\x")
        for i in range(n):
            o.at[0], o.at[1] = HEX[p[i] >> 4], HEX[p[i] & 15]
            o.at += 2
    text(o, b'"')

cdef void double_quotes(Out* o, uint8_t* start) noexcept nogil:
    """Every quote from `start` on becomes two."""
    cdef uint8_t* at
    cdef uint8_t* to
    cdef int64_t quotes = 0
    at = start
    while at < o.at:
        quotes += at[0] == 34
        at += 1
    to = o.at + quotes
    o.at = to
    while to > at:
        at -= 1
        to -= 1
        to[0] = at[0]
        if at[0] == 34:
            to -= 1
            to[0] = 34

cdef bint headers_csv(Out* o, Record* r) noexcept nogil:
    """The headers as JSON in a field; False if the reference has to write them."""
    cdef uint8_t* start
    if r.header_count == 0:
        return True
    text(o, b'"')
    start = o.at
    if not header_pairs(o, r):
        return False
    double_quotes(o, start)
    text(o, b'"')
    return True

cdef inline const char* codec_name(int codec) noexcept nogil:
    if codec == CODEC_NONE:
        return b",none"
    if codec == CODEC_GZIP:
        return b",gzip"
    if codec == CODEC_SNAPPY:
        return b",snappy"
    if codec == CODEC_LZ4:
        return b",lz4"
    return b",zstd"

cdef inline void piece_csv(Piece* piece, Out* o) noexcept nogil:
    piece.size = o.at - piece.start

cdef void begin_csv(Job* job, int64_t position, bint has_base_offset, int64_t base_offset, int64_t producer_id,
                    int producer_epoch) noexcept nogil:
    """What all rows of a batch have between value and offset, and between headers and sequence."""
    cdef Out o
    o.at = job.head.start
    memcpy(o.at, job.file, job.file_size)
    o.at += job.file_size
    piece_csv(&job.head, &o)
    o.at = job.middle.start
    memcpy(o.at, job.segment, job.segment_size)
    o.at += job.segment_size
    number(&o, position)
    text(&o, b",")
    if has_base_offset:
        number(&o, base_offset)
    named(&o, b",", producer_id)
    named(&o, b",", producer_epoch)
    text(&o, b",")
    piece_csv(&job.middle, &o)

cdef void end_csv(Job* job, Out* o, bint is_control, bint is_transactional, int codec, bint valid,
                  int32_t leader_epoch) noexcept nogil:
    """What rows end with."""
    truth(o, b",", is_control)
    truth(o, b",", is_transactional)
    text(o, codec_name(codec))
    truth(o, b",", valid)
    named(o, b",", leader_epoch)
    text(o, b"\r\n")

cdef void begin_batch_csv(Job* job, Batch* h) noexcept nogil:
    cdef Out o
    cdef Bytes b = h.start
    begin_csv(job, h.position, True, h.base_offset, be64(b + BATCH_PRODUCER_ID), be16(b + BATCH_PRODUCER_EPOCH))
    o.at = job.tail.start
    end_csv(job, &o, h.attributes & CONTROL_BIT, h.attributes & TRANSACTIONAL_BIT, h.codec, h.valid,
            be32(b + BATCH_PARTITION_LEADER_EPOCH))
    piece_csv(&job.tail, &o)

cdef inline void times_csv(Out* o, int64_t offset, int64_t timestamp, int attributes, int magic) noexcept nogil:
    number(o, offset)
    text(o, b",")
    if timestamp != -1:
        number(o, timestamp)
    if magic == 0:
        text(o, b",-1,")
    elif attributes & TIMESTAMP_TYPE_BIT:
        text(o, b",1,")
    else:
        text(o, b",0,")

cdef bint record_csv(Job* job, Batch* h, Record* r, int64_t offset, int64_t timestamp) noexcept nogil:
    """A record's row; False for one that the reference has to look at."""
    cdef Out* o = &job.out
    csv_bytes(o, r.key, r.key_size)
    text(o, b",")
    csv_bytes(o, r.value, r.value_size)
    same(o, &job.head)
    times_csv(o, offset, timestamp, h.attributes, 2)
    if not headers_csv(o, r):
        return False
    same(o, &job.middle)
    number(o, sequence_of(h, r))
    same(o, &job.tail)
    return True

cdef void message_csv(Job* job, Inner* outer, Inner* m, bint valid) noexcept nogil:
    cdef Out* o = &job.out
    csv_bytes(o, m.key, m.key_size)
    text(o, b",")
    csv_bytes(o, m.value, m.value_size)
    same(o, &job.head)
    times_csv(o, m.offset, m.timestamp, outer.attributes, outer.magic)
    same(o, &job.middle)
    number(o, -1)
    end_csv(job, o, False, False, outer.attributes & CODEC_MASK, valid, -1)
