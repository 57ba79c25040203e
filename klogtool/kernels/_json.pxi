# The same as JSON lines (render/json_lines is the reference). The room was asked for (`fits`).

cdef const char* HEX = b"0123456789abcdef"
cdef const char* BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

cdef inline void escaped(Out* o, uint8_t a) noexcept nogil:
    """One ASCII byte."""
    if a >= 0x20 and a != 34 and a != 92:
        o.at[0] = a
        o.at += 1
        return
    o.at[0] = 92
    o.at += 2
    if a == 34 or a == 92:
        o.at[-1] = a
    elif a == 10:
        o.at[-1] = 110
    elif a == 13:
        o.at[-1] = 114
    elif a == 9:
        o.at[-1] = 116
    elif a == 8:
        o.at[-1] = 98
    elif a == 12:
        o.at[-1] = 102
    else:
        o.at[-1] = 117
        text(o, b"00")
        o.at[0], o.at[1] = HEX[a >> 4], HEX[a & 15]
        o.at += 2

cdef bint utf8_string(Out* o, Bytes p, int64_t n, bint replace) noexcept nogil:
    """The inside of a JSON string. What is not UTF-8: as Java replaces it, or False and nothing is written."""
    cdef Bytes end = p + n
    cdef Out to = o[0]              # nobody else's, so that a register holds it
    cdef bint good = False
    cdef int step
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
        if p[0] < 0x80:
            escaped(&to, p[0])
            p += 1
            continue
        step = utf8_step(p, end, &good)
        if good:
            memcpy(to.at, p, step)
            to.at += step
        elif replace:
            text(&to, b"\xEF\xBF\xBD")
        else:
            return False
        p += step
    o[0] = to
    return True

cdef void base64(Out* o, Bytes p, int64_t n) noexcept nogil:
    cdef uint32_t v
    while n >= 3:
        v = <uint32_t> p[0] << 16 | <uint32_t> p[1] << 8 | p[2]
        o.at[0], o.at[1], o.at[2], o.at[3] = BASE64[v >> 18], BASE64[v >> 12 & 63], BASE64[v >> 6 & 63], BASE64[v & 63]
        o.at += 4
        p += 3
        n -= 3
    if n:
        v = <uint32_t> p[0] << 16 | (<uint32_t> p[1] << 8 if n == 2 else 0)
        o.at[0], o.at[1], o.at[2], o.at[3] = BASE64[v >> 18], BASE64[v >> 12 & 63], BASE64[v >> 6 & 63], 61
        if n == 1:
            o.at[2] = 61
        o.at += 4

cdef void bytes_json(Out* o, Bytes p, int64_t n) noexcept nogil:
    """Bytes, or null for a size below 0."""
    if n < 0:
        text(o, b"null")
        return
    text(o, b'{"utf8":"')
    if not utf8_string(o, p, n, False):
        o.at -= 9
        text(o, b'{"base64":"')
        base64(o, p, n)
    text(o, b'"}')

cdef inline void moment(Out* o, const char* name, int64_t timestamp) noexcept nogil:
    text(o, name)
    if timestamp == -1:
        text(o, b"null")
    else:
        number(o, timestamp)

cdef inline const char* codec_json(int codec) noexcept nogil:
    if codec == CODEC_NONE:
        return b',"codec":"none"'
    if codec == CODEC_GZIP:
        return b',"codec":"gzip"'
    if codec == CODEC_SNAPPY:
        return b',"codec":"snappy"'
    if codec == CODEC_LZ4:
        return b',"codec":"lz4"'
    return b',"codec":"zstd"'

cdef inline void time_type_json(Out* o, int attributes, int magic) noexcept nogil:
    if magic == 0:
        text(o, b',"timestamp_type":"NoTimestampType"')
    elif attributes & TIMESTAMP_TYPE_BIT:
        text(o, b',"timestamp_type":"LogAppendTime"')
    else:
        text(o, b',"timestamp_type":"CreateTime"')

cdef inline void horizon_json(Out* o, Batch* h) noexcept nogil:
    text(o, b',"delete_horizon_ms":')
    if h.attributes & DELETE_HORIZON_BIT:
        number(o, h.base_timestamp)
    else:
        text(o, b"null")

cdef void batch_json(Job* job, Batch* h) noexcept nogil:
    cdef Out* o = &job.out
    cdef Bytes b = h.start
    text(o, b'{"type":"batch","file":')
    memcpy(o.at, job.file, job.file_size)
    o.at += job.file_size
    named(o, b',"position":', h.position)
    named(o, b',"size":', h.size)
    named(o, b',"base_offset":', h.base_offset)
    named(o, b',"last_offset":', plus(h.base_offset, h.delta))
    named(o, b',"partition_leader_epoch":', be32(b + BATCH_PARTITION_LEADER_EPOCH))
    named(o, b',"magic":', <int8_t> b[BATCH_MAGIC])
    named(o, b',"crc":', <uint32_t> be32(b + BATCH_CRC))
    truth(o, b',"crc_valid":', h.valid)
    named(o, b',"attributes":', be16(b + BATCH_ATTRIBUTES))
    text(o, codec_json(h.codec))
    time_type_json(o, h.attributes, 2)
    truth(o, b',"is_transactional":', h.attributes & TRANSACTIONAL_BIT)
    truth(o, b',"is_control":', h.attributes & CONTROL_BIT)
    horizon_json(o, h)
    named(o, b',"last_offset_delta":', h.delta)
    moment(o, b',"base_timestamp":', h.base_timestamp)
    moment(o, b',"max_timestamp":', h.max_timestamp)
    named(o, b',"producer_id":', be64(b + BATCH_PRODUCER_ID))
    named(o, b',"producer_epoch":', be16(b + BATCH_PRODUCER_EPOCH))
    named(o, b',"base_sequence":', h.base_sequence)
    named(o, b',"last_sequence":', last_sequence(h))
    named(o, b',"records_count":', h.count)
    text(o, b"}\n")

cdef inline void same(Out* o, Piece* piece) noexcept nogil:
    memcpy(o.at, piece.start, piece.size)
    o.at += piece.size

cdef void begin_records(Job* job, int64_t position, int magic, int codec) noexcept nogil:
    """What every record line of a batch begins with; the room for it was made with the job."""
    cdef Out o
    o.at = job.head.start
    text(&o, b'{"type":"record","file":')
    memcpy(o.at, job.file, job.file_size)
    o.at += job.file_size
    named(&o, b',"batch_position":', position)
    named(&o, b',"magic":', magic)
    text(&o, codec_json(codec))
    text(&o, b',"offset":')
    job.head.size = o.at - job.head.start

cdef void end_records(Job* job, Batch* h) noexcept nogil:
    """What stands around the sequence, and ends every record line of a batch."""
    cdef Out o
    cdef Bytes b = h.start
    o.at = job.middle.start
    named(&o, b',"producer_id":', be64(b + BATCH_PRODUCER_ID))
    named(&o, b',"producer_epoch":', be16(b + BATCH_PRODUCER_EPOCH))
    text(&o, b',"sequence":')
    job.middle.size = o.at - job.middle.start
    o.at = job.tail.start
    truth(&o, b',"is_transactional":', h.attributes & TRANSACTIONAL_BIT)
    truth(&o, b',"is_control":', h.attributes & CONTROL_BIT)
    named(&o, b',"partition_leader_epoch":', be32(b + BATCH_PARTITION_LEADER_EPOCH))
    horizon_json(&o, h)
    job.tail.size = o.at - job.tail.start

cdef bint header_pairs(Out* o, Record* r) noexcept nogil:
    """The headers; False if a key is not UTF-8, which the reference knows how to say."""
    cdef Cursor c
    cdef int64_t n = 0
    cdef int32_t i
    cdef Bytes start
    c.at, c.end, c.broken = r.headers, r.end, False
    text(o, b"[")
    for i in range(r.header_count):
        if i:
            text(o, b",")
        start = field(&c, &n)
        text(o, b'["')
        if not utf8_string(o, start, n, False):
            return False
        text(o, b'",')
        start = field(&c, &n)
        bytes_json(o, start, n)
        text(o, b"]")
    text(o, b"]")
    return True

cdef bint marker_json(Out* o, Record* r) noexcept nogil:
    """What a transaction's end marker says; other control records are the reference's."""
    cdef int type
    if r.key_size < 4 or r.value_size < 6 or be16(r.key) != 0 or be16(r.value) < 0:
        return False
    type = be16(r.key + 2)
    if type != 0 and type != 1:
        return False
    text(o, b',"decoded":{"type":')
    text(o, <const char*> b'"ABORT"' if type == 0 else <const char*> b'"COMMIT"')
    named(o, b',"coordinator_epoch":', be32(r.value + 2))
    text(o, b"}")
    return True

cdef bint record_json(Job* job, Batch* h, Record* r, int64_t offset, int64_t timestamp) noexcept nogil:
    """A record's line; False for one that the reference has to look at."""
    cdef Out* o = &job.out
    same(o, &job.head)
    number(o, offset)
    moment(o, b',"timestamp":', timestamp)
    time_type_json(o, h.attributes, 2)
    text(o, b',"key":')
    bytes_json(o, r.key, r.key_size)
    text(o, b',"value":')
    bytes_json(o, r.value, r.value_size)
    if r.header_count == 0:
        text(o, b',"headers":[]')
    else:
        text(o, b',"headers":')
        if not header_pairs(o, r):
            return False
    same(o, &job.middle)
    number(o, sequence_of(h, r))
    same(o, &job.tail)
    if h.attributes & CONTROL_BIT and not marker_json(o, r):
        return False
    text(o, b"}\n")
    return True

cdef void message_batch_json(Job* job, Inner* m, int64_t position, bint valid) noexcept nogil:
    cdef Out* o = &job.out
    text(o, b'{"type":"batch","file":')
    memcpy(o.at, job.file, job.file_size)
    o.at += job.file_size
    named(o, b',"position":', position)
    named(o, b',"size":', m.size + LOG_OVERHEAD)
    if m.attributes & CODEC_MASK:
        text(o, b',"base_offset":null')
    else:
        named(o, b',"base_offset":', m.offset)
    named(o, b',"last_offset":', m.offset)
    named(o, b',"partition_leader_epoch":-1,"magic":', m.magic)
    named(o, b',"crc":', <uint32_t> be32(m.message + MESSAGE0_CRC))
    truth(o, b',"crc_valid":', valid)
    named(o, b',"attributes":', <int8_t> m.attributes)
    text(o, codec_json(m.attributes & CODEC_MASK))
    time_type_json(o, m.attributes, m.magic)
    text(o, b',"is_transactional":false,"is_control":false,"delete_horizon_ms":null')
    moment(o, b',"max_timestamp":', m.timestamp)
    text(o, b',"producer_id":-1,"producer_epoch":-1,"base_sequence":-1,"last_sequence":-1,"records_count":null}\n')

cdef void message_json(Job* job, Inner* outer, Inner* m, int64_t position, bint valid) noexcept nogil:
    cdef Out* o = &job.out
    same(o, &job.head)
    number(o, m.offset)
    moment(o, b',"timestamp":', m.timestamp)
    time_type_json(o, outer.attributes, outer.magic)
    text(o, b',"key":')
    bytes_json(o, m.key, m.key_size if m.key_size >= 0 else -1)
    text(o, b',"value":')
    bytes_json(o, m.value, m.value_size if m.value_size >= 0 else -1)
    text(o, b',"headers":[],"producer_id":-1,"producer_epoch":-1,"sequence":-1,"is_transactional":false')
    text(o, b',"is_control":false,"partition_leader_epoch":-1,"delete_horizon_ms":null')
    named(o, b',"crc":', <uint32_t> be32(m.message + MESSAGE0_CRC))
    truth(o, b',"crc_valid":', valid)
    text(o, b"}\n")
