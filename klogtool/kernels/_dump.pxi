# The text of kafka-dump-log (render/kafka_text is the reference).

DONE, FULL, BODY, REFERENCE = 0, 1, 2, 3        # why dump() stopped; see there
DEEP, PRINT_DATA, SKIP_METADATA = 1, 2, 4       # its flags

cdef enum:
    _DONE, _FULL, _BODY, _REFERENCE
    _DEEP, _PRINT_DATA, _SKIP_METADATA = 4
    LINE_ROOM = 1024                # a batch line, or a record line without header keys, key and value
    RECORD_ROOM = 320
    SMALLEST_RECORD = 7

cdef struct Job:
    Out out
    uint8_t* out_end
    int64_t* gaps                   # pairs: offset before, offset after
    int64_t gap_room, gap_count
    int64_t last_offset
    int flags
    Bytes body                      # of the first entry, inflated by the caller
    int64_t body_size
    Scratch scratch
    int64_t needed                  # room for the entry that did not fit

cdef inline void see(Job* job, int64_t offset) noexcept nogil:
    """DumpLogSegments' check that offsets follow on; the room was asked for."""
    if offset != plus(job.last_offset, 1):
        job.gaps[2 * job.gap_count], job.gaps[2 * job.gap_count + 1] = job.last_offset, offset
        job.gap_count += 1
    job.last_offset = offset

cdef inline bint fits(Job* job, int64_t lines, int64_t size) noexcept nogil:
    """Room for an entry with so many records and bytes, whatever is in them."""
    job.needed = LINE_ROOM + RECORD_ROOM * lines + 4 * size
    return job.needed <= job.out_end - job.out.at and lines <= job.gap_room - job.gap_count

cdef inline void codec_text(Out* o, int codec) noexcept nogil:
    if codec == CODEC_NONE:
        text(o, b" compresscodec: none")
    elif codec == CODEC_GZIP:
        text(o, b" compresscodec: gzip")
    elif codec == CODEC_SNAPPY:
        text(o, b" compresscodec: snappy")
    elif codec == CODEC_LZ4:
        text(o, b" compresscodec: lz4")
    else:
        text(o, b" compresscodec: zstd")

cdef inline const char* batch_time_name(int attributes) noexcept nogil:
    return <const char*> b" LogAppendTime: " if attributes & TIMESTAMP_TYPE_BIT else <const char*> b" CreateTime: "

cdef void batch_line(Out* o, Bytes b, int64_t position, bint valid) noexcept nogil:
    cdef int attributes = <uint8_t> be16(b + BATCH_ATTRIBUTES)
    cdef int32_t base_sequence = be32(b + BATCH_BASE_SEQUENCE), delta = be32(b + BATCH_LAST_OFFSET_DELTA)
    named(o, b"baseOffset: ", be64(b + BATCH_BASE_OFFSET))
    named(o, b" lastOffset: ", plus(be64(b + BATCH_BASE_OFFSET), delta))
    named(o, b" count: ", be32(b + BATCH_RECORDS_COUNT))
    named(o, b" baseSequence: ", base_sequence)
    named(o, b" lastSequence: ", -1 if base_sequence == -1 else increment_sequence(base_sequence, delta))
    named(o, b" producerId: ", be64(b + BATCH_PRODUCER_ID))
    named(o, b" producerEpoch: ", be16(b + BATCH_PRODUCER_EPOCH))
    named(o, b" partitionLeaderEpoch: ", be32(b + BATCH_PARTITION_LEADER_EPOCH))
    truth(o, b" isTransactional: ", attributes & TRANSACTIONAL_BIT)
    truth(o, b" isControl: ", attributes & CONTROL_BIT)
    if attributes & DELETE_HORIZON_BIT:
        named(o, b" deleteHorizonMs: OptionalLong[", be64(b + BATCH_BASE_TIMESTAMP))
        text(o, b"]")
    else:
        text(o, b" deleteHorizonMs: OptionalLong.empty")
    named(o, b" position: ", position)
    named(o, batch_time_name(attributes), be64(b + BATCH_MAX_TIMESTAMP))
    named(o, b" size: ", <int64_t> be32(b + BATCH_LENGTH) + LOG_OVERHEAD)
    named(o, b" magic: ", <int8_t> b[BATCH_MAGIC])
    codec_text(o, attributes & CODEC_MASK)
    named(o, b" crc: ", <uint32_t> be32(b + BATCH_CRC))
    truth(o, b" isvalid: ", valid)
    text(o, b"\n")

cdef inline void contents(Job* job, Bytes key, int64_t key_size, Bytes value, int64_t value_size) noexcept nogil:
    """Key and payload; without metadata the bar goes before whichever of them comes first."""
    cdef Out* o = &job.out
    cdef bint bar = job.flags & _SKIP_METADATA
    if key_size >= 0:
        if bar:
            text(o, b"|")
        text(o, b" key: ")
        java_utf8(o, key, key_size)
        bar = False
    if value_size >= 0:
        if bar:
            text(o, b"|")
        text(o, b" payload: ")
        java_utf8(o, value, value_size)

cdef inline void header_keys(Out* o, Record* r) noexcept nogil:
    cdef Cursor c
    cdef int64_t n = 0
    cdef int32_t i
    cdef Bytes key
    c.at, c.end, c.broken = r.headers, r.end, False
    text(o, b" headerKeys: [")
    for i in range(r.header_count):
        if i:
            text(o, b",")
        key = field(&c, &n)
        java_utf8(o, key, n)
        field(&c, &n)
    text(o, b"]")

cdef inline bint end_marker(Out* o, Record* r) noexcept nogil:
    """A transaction's end marker; other control records are the reference's."""
    if r.key_size < 4 or r.value_size < 6 or be16(r.key) < 0 or be16(r.value) < 0:
        return False
    if be16(r.key + 2) == 0:
        text(o, b" endTxnMarker: ABORT coordinatorEpoch: ")
    elif be16(r.key + 2) == 1:
        text(o, b" endTxnMarker: COMMIT coordinatorEpoch: ")
    else:
        return False
    number(o, be32(r.value + 2))
    return True

cdef int record_lines(Job* job, Bytes b, Bytes body, int64_t size, int32_t count) noexcept nogil:
    cdef Out* o = &job.out
    cdef int attributes = <uint8_t> be16(b + BATCH_ATTRIBUTES)
    cdef int64_t base_offset = be64(b + BATCH_BASE_OFFSET), base_timestamp = be64(b + BATCH_BASE_TIMESTAMP)
    cdef int64_t append_time = be64(b + BATCH_MAX_TIMESTAMP), offset
    cdef int32_t base_sequence = be32(b + BATCH_BASE_SEQUENCE), i
    cdef bint control = attributes & CONTROL_BIT, append = attributes & TIMESTAMP_TYPE_BIT
    cdef const char* time_name = batch_time_name(attributes)
    cdef Cursor c
    cdef Record r
    c.at, c.end, c.broken = body, body + size, False
    for i in range(count):
        if not next_record(&c, &r):
            return _REFERENCE
        offset = plus(base_offset, r.offset_delta)
        see(job, offset)
        if not job.flags & _SKIP_METADATA:
            named(o, b"| offset: ", offset)
            named(o, time_name, append_time if append else plus(base_timestamp, r.timestamp_delta))
            named(o, b" keySize: ", r.key_size)
            named(o, b" valueSize: ", r.value_size)
            named(o, b" sequence: ", -1 if base_sequence < 0 else increment_sequence(base_sequence, r.offset_delta))
            if r.header_count:
                header_keys(o, &r)
            else:
                text(o, b" headerKeys: []")
            if control and not end_marker(o, &r):
                return _REFERENCE
        if job.flags & _PRINT_DATA and not control:
            contents(job, r.key, r.key_size, r.value, r.value_size)
        text(o, b"\n")
    return _DONE if c.at == c.end or count == 0 else _REFERENCE

cdef int find_body(Job* job, Bytes data, int64_t size, int codec, int magic, Bytes* body, int64_t* body_size) noexcept nogil:
    """The bytes of the records, or of the inner messages: as they stand, from the caller, or inflated here."""
    body[0], body_size[0] = data, size
    if codec == CODEC_NONE:
        return _DONE
    if job.body != NULL:
        body[0], body_size[0] = job.body, job.body_size
        return _DONE
    if codec == CODEC_LZ4:
        body_size[0] = lz4_frame(data, size, magic, &job.scratch)
    elif codec == CODEC_SNAPPY:
        body_size[0] = snappy_frame(data, size, &job.scratch)
    else:
        return _BODY
    body[0] = job.scratch.data
    return _BODY if body_size[0] < 0 else _DONE

cdef int batch_text(Job* job, Bytes b, int64_t size, int64_t position) noexcept nogil:
    cdef bint valid
    cdef int codec = b[BATCH_ATTRIBUTES + 1] & CODEC_MASK, why
    cdef int32_t count = be32(b + BATCH_RECORDS_COUNT)
    cdef int64_t body_size = 0
    cdef Bytes body = NULL
    valid = crc32c_of(0, b + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM) == <uint32_t> be32(b + BATCH_CRC)
    if not job.flags & _DEEP:
        if not fits(job, 0, 0):
            return _FULL
        batch_line(&job.out, b, position, valid)
        return _DONE
    if count < 0 or (codec != CODEC_NONE and not valid):
        return _REFERENCE
    why = find_body(job, b + BATCH_SIZE, size - BATCH_SIZE, codec, 2, &body, &body_size) if count else _DONE
    if why:
        return why
    if count > body_size // SMALLEST_RECORD:
        return _REFERENCE
    if not fits(job, count, body_size if count else 0):
        return _FULL
    batch_line(&job.out, b, position, valid)
    return record_lines(job, b, body, body_size, count) if count else _DONE

cdef struct Inner:
    int64_t offset, timestamp, key_size, value_size
    int attributes, magic
    Bytes message, key, value
    int64_t size

cdef bint read_message(Bytes entry, int64_t room, Inner* m) noexcept nogil:
    """An entry of magic 0 or 1 whose key and value fill it exactly; anything else is the reference's."""
    cdef Bytes p, end
    cdef int64_t n
    m.size = be32(entry + ENTRY_MESSAGE_SIZE)
    if m.size < MIN_LENGTH or m.size > room - LOG_OVERHEAD:
        return False
    m.offset, m.message = be64(entry + ENTRY_OFFSET), entry + LOG_OVERHEAD
    end = m.message + m.size
    m.magic, m.attributes = <int8_t> m.message[MESSAGE0_MAGIC], m.message[MESSAGE0_ATTRIBUTES]
    if m.magic == 0:
        m.timestamp, p = -1, m.message + MESSAGE0_SIZE
    elif m.magic == 1 and m.size >= MESSAGE1_SIZE + 8:
        m.timestamp, p = be64(m.message + MESSAGE1_TIMESTAMP), m.message + MESSAGE1_SIZE
    else:
        return False
    m.key_size, m.key = be32(p), p + 4
    n = m.key_size if m.key_size > 0 else 0
    if n > end - m.key - 4:
        return False
    p = m.key + n
    m.value_size, m.value = be32(p), p + 4
    n = m.value_size if m.value_size > 0 else 0
    return n == end - m.value

cdef inline const char* message_time_name(Inner* outer) noexcept nogil:
    return <const char*> b" NoTimestampType: " if outer.magic == 0 else batch_time_name(outer.attributes)

cdef inline bint message_valid(Inner* m) noexcept nogil:
    return (crc32_of(0, m.message + MESSAGE_CRC_COVERS_FROM, m.size - MESSAGE_CRC_COVERS_FROM)
            == <uint32_t> be32(m.message + MESSAGE0_CRC))

cdef void message_batch_line(Out* o, Inner* m, int64_t position, bint valid) noexcept nogil:
    named(o, b"offset: ", m.offset)
    named(o, b" position: ", position)
    named(o, message_time_name(m), m.timestamp)
    named(o, b" size: ", m.size + LOG_OVERHEAD)
    named(o, b" magic: ", m.magic)
    codec_text(o, m.attributes & CODEC_MASK)
    named(o, b" crc: ", <uint32_t> be32(m.message + MESSAGE0_CRC))
    truth(o, b" isvalid: ", valid)
    text(o, b"\n")

cdef void message_line(Job* job, Inner* outer, Inner* m, bint valid) noexcept nogil:
    cdef Out* o = &job.out
    see(job, m.offset)
    if not job.flags & _SKIP_METADATA:
        named(o, b"| offset: ", m.offset)
        named(o, message_time_name(outer), m.timestamp)
        named(o, b" keySize: ", m.key_size)
        named(o, b" valueSize: ", m.value_size)
        truth(o, b" isValid: ", valid)
        named(o, b" crc: ", <uint32_t> be32(m.message + MESSAGE0_CRC))
    if job.flags & _PRINT_DATA:
        contents(job, m.key, m.key_size, m.value, m.value_size)
    text(o, b"\n")

cdef int64_t walk_inner(Bytes p, Bytes end, Inner* m, int64_t* last_offset) noexcept nogil:
    """How many inner messages there are, all plain and whole; -1 if the reference has to look."""
    cdef int64_t count = 0
    while end - p >= LOG_OVERHEAD:
        if not read_message(p, end - p, m) or m.attributes & CODEC_MASK:
            return -1
        last_offset[0] = m.offset
        count += 1
        p += LOG_OVERHEAD + m.size
    return count if p == end and count else -1

cdef int inner_lines(Job* job, Inner* outer, int64_t position) noexcept nogil:
    cdef Bytes body = NULL, end
    cdef int64_t body_size = 0, last = 0, count, base = 0
    cdef Inner m
    cdef int why = find_body(job, outer.value, outer.value_size, outer.attributes & CODEC_MASK, outer.magic,
                             &body, &body_size)
    if why:
        return why
    end = body + body_size
    count = walk_inner(body, end, &m, &last)
    if count < 0 or (outer.magic == 1 and outer.offset != 0 and outer.offset < last):
        return _REFERENCE
    if not fits(job, count, body_size):
        return _FULL
    if outer.magic == 1 and outer.offset != 0:
        base = outer.offset - last
    message_batch_line(&job.out, outer, position, message_valid(outer))
    while body < end:
        read_message(body, end - body, &m)
        body += LOG_OVERHEAD + m.size
        m.offset = plus(base, m.offset)
        if m.magic == 1 and outer.magic == 1 and outer.attributes & TIMESTAMP_TYPE_BIT:
            m.timestamp = outer.timestamp
        message_line(job, outer, &m, message_valid(&m))
    return _DONE

cdef int message_text(Job* job, Bytes entry, int64_t size, int64_t position) noexcept nogil:
    cdef Inner m
    cdef bint valid
    cdef int codec
    if not read_message(entry, size, &m):
        return _REFERENCE
    codec = m.attributes & CODEC_MASK
    if codec > (CODEC_LZ4 if job.flags & _DEEP else CODEC_ZSTD):
        return _REFERENCE
    valid = message_valid(&m)
    if codec != CODEC_NONE and job.flags & _DEEP:
        if m.value_size < 0 or not valid:
            return _REFERENCE
        return inner_lines(job, &m, position)
    if not fits(job, 1, size):
        return _FULL
    message_batch_line(&job.out, &m, position, valid)
    if job.flags & _DEEP:
        message_line(job, &m, &m, valid)
    return _DONE

cdef int entry_text(Job* job, Bytes b, int64_t left, int64_t position, int64_t* size) noexcept nogil:
    """The text of the entry at b, or none of it."""
    cdef Out before = job.out
    cdef int64_t last_offset = job.last_offset, gap_count = job.gap_count
    cdef int why = _REFERENCE
    cdef int8_t magic
    if left <= HEADER_SIZE_UP_TO_MAGIC:
        return why
    magic, size[0] = <int8_t> b[FRAME_MAGIC], <int64_t> be32(b + FRAME_LENGTH) + LOG_OVERHEAD
    if size[0] < MIN_LENGTH + LOG_OVERHEAD or size[0] > left:
        return why
    if magic == 2 and size[0] >= BATCH_SIZE and b[BATCH_ATTRIBUTES + 1] & CODEC_MASK <= CODEC_ZSTD:
        why = batch_text(job, b, size[0], position)
    elif magic == 0 or magic == 1:
        why = message_text(job, b, size[0], position)
    if why:
        job.out, job.last_offset, job.gap_count = before, last_offset, gap_count
    return why

def dump(const uint8_t[::1] log not None, int64_t at, int64_t cut, int64_t base, int flags, int64_t[::1] state not None,
         int64_t[::1] gaps not None, uint8_t[::1] out not None, const uint8_t[::1] body=None):
    """The text of the entries from byte `at` on, up to `cut`, into `out`. Returns (at, bytes written, why).

    base: position of log[0] in its file. flags: DEEP, PRINT_DATA, SKIP_METADATA. state: [offset of the last record
    seen, number of gaps, room that an entry needs]; gaps: pairs of offsets, flat. why: DONE; FULL: no room in `out`
    or `gaps`; BODY: call again with the records of this entry inflated; REFERENCE: the entry at `at` is for the
    reference reader, nothing of it was written.
    """
    cdef Job job
    cdef Bytes b
    cdef int64_t size = 0, have = log.shape[0]
    cdef int why = _DONE
    if at >= cut or have < cut:
        return at, 0, DONE
    job.out.at = &out[0]
    job.out_end = job.out.at + out.shape[0]
    job.gaps, job.gap_room, job.gap_count = &gaps[0], gaps.shape[0] // 2, state[1]
    job.last_offset, job.flags, job.needed = state[0], flags, 0
    job.body, job.body_size = NULL, 0
    if body is not None:
        job.body, job.body_size = (&body[0] if body.shape[0] else <Bytes> b""), body.shape[0]
    job.scratch.data, job.scratch.room = NULL, 0
    b = &log[0]
    with nogil:
        while at < cut:
            why = entry_text(&job, b + at, cut - at, base + at, &size)
            if why:
                break
            at += size
            job.body = NULL
        free(job.scratch.data)
    state[0], state[1], state[2] = job.last_offset, job.gap_count, job.needed
    return at, job.out.at - &out[0], why
