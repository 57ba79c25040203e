# The text of kafka-dump-log (render/kafka_text is the reference).

DEEP, PRINT_DATA, SKIP_METADATA, JSON, SCALA, CSV = 1, 2, 4, 8, 16, 32      # its flags

cdef int64_t NO_FIRST_OFFSET = -0x7FFFFFFFFFFFFFFF

cdef enum:
    _DEEP = 1
    _PRINT_DATA = 2
    _SKIP_METADATA = 4
    _JSON = 8
    _SCALA = 16
    _CSV = 32
    LINE_ROOM = 1024                # a batch line, or a record line without header keys, key and value
    RECORD_ROOM = 320
    JSON_ROOM = 1024
    PIECE_ROOM = 256
    SMALLEST_RECORD = 7
    MOST_ROOM = 1073741824

cdef inline void see(Job* job, int64_t offset) noexcept nogil:
    """DumpLogSegments' check that offsets follow on; the room was asked for."""
    if offset != plus(job.last_offset, 1):
        job.gaps[2 * job.gap_count], job.gaps[2 * job.gap_count + 1] = job.last_offset, offset
        job.gap_count += 1
    job.last_offset = offset

cdef inline void note_validity(Job* job, bint valid, int64_t position) noexcept nogil:
    if not valid:
        if job.invalid == 0:
            job.first_invalid = position
        job.invalid += 1

cdef inline bint fits(Job* job, int64_t lines, int64_t size) noexcept nogil:
    """Room for an entry with so many records and bytes, whatever is in them."""
    if job.flags & _JSON:           # two bytes of an empty header become 17, one byte of text six; a line names the file
        job.needed = JSON_ROOM + job.file_size + (JSON_ROOM + job.file_size) * lines + 9 * size
    elif job.flags & _CSV:          # two bytes of an empty header become 25
        job.needed = JSON_ROOM + (JSON_ROOM + job.file_size + job.segment_size) * lines + 13 * size
    else:
        job.needed = LINE_ROOM + RECORD_ROOM * lines + 4 * size
    return job.needed <= job.out_end - job.out.at and lines <= job.gap_room - job.gap_count

cdef inline int room_or_reference(Job* job) noexcept nogil:
    """Ask for more room, unless it is so much that the reference, which works record by record, has to do it."""
    return _FULL if job.needed <= MOST_ROOM else _REFERENCE

cdef inline bint batch_wanted(Job* job, int64_t first, int64_t last, int64_t max_timestamp, int64_t producer_id) noexcept nogil:
    """Whether a batch may hold wanted records, by its header (a first offset that is not known is the smallest)."""
    cdef Select* s = &job.select
    return (not s.asked or (last >= s.first_offset and first <= s.last_offset and max_timestamp >= s.first_timestamp
                            and (s.any_producer or producer_id == s.producer_id)))

cdef inline bint record_wanted(Job* job, int64_t offset, int64_t timestamp, Bytes key, int64_t key_size, Bytes value,
                               int64_t value_size) noexcept nogil:
    cdef Select* s = &job.select
    if not s.asked:
        return True
    if not (s.first_offset <= offset <= s.last_offset and s.first_timestamp <= timestamp <= s.last_timestamp):
        return False
    if s.has_key and (key_size != s.key_size or memcmp(key, s.key, s.key_size) != 0):
        return False
    return (not s.has_grep or (value_size > 0 and memmem(value, value_size, s.grep, s.grep_size) != NULL)
            or (key_size > 0 and memmem(key, key_size, s.grep, s.grep_size) != NULL))

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

cdef inline int32_t sequence_of(Batch* h, Record* r) noexcept nogil:
    return -1 if h.base_sequence < 0 else increment_sequence(h.base_sequence, r.offset_delta)

cdef inline int32_t last_sequence(Batch* h) noexcept nogil:
    return last_sequence_of(h.base_sequence, h.delta)

cdef void batch_line(Out* o, Batch* h) noexcept nogil:
    cdef Bytes b = h.start
    named(o, b"baseOffset: ", h.base_offset)
    named(o, b" lastOffset: ", plus(h.base_offset, h.delta))
    named(o, b" count: ", h.count)
    named(o, b" baseSequence: ", h.base_sequence)
    named(o, b" lastSequence: ", last_sequence(h))
    named(o, b" producerId: ", be64(b + BATCH_PRODUCER_ID))
    named(o, b" producerEpoch: ", be16(b + BATCH_PRODUCER_EPOCH))
    named(o, b" partitionLeaderEpoch: ", be32(b + BATCH_PARTITION_LEADER_EPOCH))
    truth(o, b" isTransactional: ", h.attributes & TRANSACTIONAL_BIT)
    truth(o, b" isControl: ", h.attributes & CONTROL_BIT)
    if h.attributes & DELETE_HORIZON_BIT:
        named(o, b" deleteHorizonMs: OptionalLong[", h.base_timestamp)
        text(o, b"]")
    else:
        text(o, b" deleteHorizonMs: OptionalLong.empty")
    named(o, b" position: ", h.position)
    named(o, batch_time_name(h.attributes), h.max_timestamp)
    named(o, b" size: ", h.size)
    named(o, b" magic: ", <int8_t> b[BATCH_MAGIC])
    codec_text(o, h.codec)
    named(o, b" crc: ", <uint32_t> be32(b + BATCH_CRC))
    truth(o, b" isvalid: ", h.valid)
    text(o, b"\n")

cdef inline void contents(Job* job, Bytes key, int64_t key_size, Bytes value, int64_t value_size) noexcept nogil:
    """Key and payload; without metadata the bar goes before whichever of them comes first; the tool in Scala wrote it
    only before a key."""
    cdef Out* o = &job.out
    cdef bint bar = job.flags & _SKIP_METADATA
    if key_size >= 0:
        if bar:
            text(o, b"|")
        text(o, b" key: ")
        java_utf8(o, key, key_size)
        bar = False
    if value_size >= 0:
        if bar and not job.flags & _SCALA:
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

cdef inline bint record_text(Job* job, Batch* h, Record* r, int64_t offset, int64_t timestamp) noexcept nogil:
    """A record's line. False for a control record that the reference has to look at."""
    cdef Out* o = &job.out
    if not job.flags & _SKIP_METADATA:
        named(o, b"| offset: ", offset)
        named(o, batch_time_name(h.attributes), timestamp)
        named(o, b" keySize: ", r.key_size)
        named(o, b" valueSize: ", r.value_size)
        named(o, b" sequence: ", sequence_of(h, r))
        if r.header_count:
            header_keys(o, r)
        else:
            text(o, b" headerKeys: []")
        if h.attributes & CONTROL_BIT and not end_marker(o, r):
            return False
    if job.flags & _PRINT_DATA and not h.attributes & CONTROL_BIT:
        contents(job, r.key, r.key_size, r.value, r.value_size)
    text(o, b"\n")
    return True

cdef inline bint record_line(Job* job, Batch* h, Record* r, int64_t offset, int64_t timestamp) noexcept nogil:
    if job.flags & _JSON:
        return record_json(job, h, r, offset, timestamp)
    if job.flags & _CSV:
        return record_csv(job, h, r, offset, timestamp)
    return record_text(job, h, r, offset, timestamp)

cdef int record_lines(Job* job, Batch* h, Bytes body, int64_t size) noexcept nogil:
    """All wanted records of a batch; the batch's own line goes if there are none."""
    cdef Out start = job.out
    cdef int64_t offset, timestamp, shown = 0
    cdef int32_t i
    cdef Cursor c
    cdef Record r
    c.at, c.end, c.broken = body, body + size, False
    batch_head(job, h)
    if job.flags & _JSON:
        begin_records(job, h.position, 2, h.codec)
        end_records(job, h)
    elif job.flags & _CSV:
        begin_batch_csv(job, h)
    for i in range(h.count):
        if not next_record(&c, &r):
            return _REFERENCE
        offset = plus(h.base_offset, r.offset_delta)
        timestamp = h.max_timestamp if h.attributes & TIMESTAMP_TYPE_BIT else plus(h.base_timestamp, r.timestamp_delta)
        # Records that are not shown count, too: a gap is one of the log, not one of the selection.
        see(job, offset)
        if not record_wanted(job, offset, timestamp, r.key, r.key_size, r.value, r.value_size):
            continue
        shown += 1
        if not record_line(job, h, &r, offset, timestamp):
            return _REFERENCE
    # RecordIterator throws if bytes are left; with a count of 0 the iterator is empty, and nothing is looked at.
    if h.count and c.at != c.end:
        return _REFERENCE
    if job.select.asked and not shown:
        job.out = start
    return _DONE

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
    elif codec == CODEC_ZSTD and magic == 2:
        body_size[0] = zstd_frame(data, size, &job.scratch)
    else:
        return _BODY
    body[0] = job.scratch.data
    return _BODY if body_size[0] < 0 else _DONE

cdef void read_batch(Bytes b, int64_t size, int64_t position, Batch* h) noexcept nogil:
    h.start, h.size, h.position = b, size, position
    h.attributes, h.codec = <uint8_t> be16(b + BATCH_ATTRIBUTES), be16(b + BATCH_ATTRIBUTES) & CODEC_MASK
    h.base_offset, h.delta = be64(b + BATCH_BASE_OFFSET), be32(b + BATCH_LAST_OFFSET_DELTA)
    h.base_timestamp, h.max_timestamp = be64(b + BATCH_BASE_TIMESTAMP), be64(b + BATCH_MAX_TIMESTAMP)
    h.base_sequence, h.count = be32(b + BATCH_BASE_SEQUENCE), be32(b + BATCH_RECORDS_COUNT)
    h.valid = (crc32c_of(0, b + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM) == <uint32_t> be32(b + BATCH_CRC))

cdef inline void batch_head(Job* job, Batch* h) noexcept nogil:
    if job.flags & _JSON:
        batch_json(job, h)
    elif not job.flags & _CSV:
        batch_line(&job.out, h)

cdef int batch_text(Job* job, Bytes b, int64_t size, int64_t position) noexcept nogil:
    cdef Batch h
    cdef int why = _DONE
    cdef int64_t body_size = 0
    cdef Bytes body = b
    read_batch(b, size, position, &h)
    note_validity(job, h.valid, position)
    if not batch_wanted(job, h.base_offset, plus(h.base_offset, h.delta), h.max_timestamp, be64(b + BATCH_PRODUCER_ID)):
        return _DONE
    if not job.flags & _DEEP:
        if not fits(job, 0, 0):
            return room_or_reference(job)
        batch_head(job, &h)
        return _DONE
    # A negative count throws (RecordIterator). Compressed bytes with a wrong checksum may inflate to anything.
    if h.count < 0 or (h.codec != CODEC_NONE and not h.valid):
        return _REFERENCE
    if h.count:
        why = find_body(job, b + BATCH_SIZE, size - BATCH_SIZE, h.codec, 2, &body, &body_size)
    if why:
        return why
    # The count decides how much room is asked for, so it is believed only as far as the bytes can hold so many.
    if h.count > body_size // SMALLEST_RECORD:
        return _REFERENCE
    if not fits(job, h.count, body_size):
        return room_or_reference(job)
    return record_lines(job, &h, body, body_size)

cdef bint read_message(Bytes entry, int64_t room, Inner* m) noexcept nogil:
    """An entry of magic 0 or 1 whose key and value fill it exactly; anything else is the reference's."""
    cdef Bytes p, end
    cdef int64_t n
    if room < LOG_OVERHEAD + MIN_LENGTH:
        return False
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

cdef bint message_line(Job* job, Inner* outer, Inner* m, int64_t position) noexcept nogil:
    """A message's line; False if it is not wanted."""
    cdef Out* o = &job.out
    cdef bint valid
    see(job, m.offset)
    if not record_wanted(job, m.offset, m.timestamp, m.key, m.key_size, m.value, m.value_size):
        return False
    valid = message_valid(m)
    if job.flags & _JSON:
        message_json(job, outer, m, position, valid)
        return True
    if job.flags & _CSV:
        message_csv(job, outer, m, valid)
        return True
    if not job.flags & _SKIP_METADATA:
        named(o, b"| offset: ", m.offset)
        named(o, message_time_name(outer), m.timestamp)
        named(o, b" keySize: ", m.key_size)
        named(o, b" valueSize: ", m.value_size)
        truth(o, b" isValid: ", valid)
        named(o, b" crc: ", <uint32_t> be32(m.message + MESSAGE0_CRC))
        if job.flags & _SCALA:
            text(o, b"}")
    if job.flags & _PRINT_DATA:
        contents(job, m.key, m.key_size, m.value, m.value_size)
    text(o, b"\n")
    return True

cdef inline void message_head(Job* job, Inner* m, int64_t position, bint valid) noexcept nogil:
    if job.flags & _JSON:
        message_batch_json(job, m, position, valid)
    elif not job.flags & _CSV:
        message_batch_line(&job.out, m, position, valid)

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
    cdef int64_t body_size = 0, last = 0, count, base = 0, shown = 0
    cdef Out start = job.out
    cdef Inner m
    cdef int why = find_body(job, outer.value, outer.value_size, outer.attributes & CODEC_MASK, outer.magic,
                             &body, &body_size)
    if why:
        return why
    end = body + body_size
    # DeepRecordsIterator: the offset of a wrapper of magic 1 is that of its last message, so all of them are walked before
    # the first has its own. It throws if the wrapper is below its last message, but not if it is 0: some versions of
    # librdkafka wrote that.
    count = walk_inner(body, end, &m, &last)
    if count < 0 or (outer.magic == 1 and outer.offset != 0 and outer.offset < last):
        return _REFERENCE
    if not fits(job, count, body_size):
        return room_or_reference(job)
    if outer.magic == 1 and outer.offset != 0:
        base = minus(outer.offset, last)
    message_head(job, outer, position, True)
    if job.flags & _JSON:
        begin_records(job, position, outer.magic, outer.attributes & CODEC_MASK)
    elif job.flags & _CSV:
        begin_csv(job, position, False, 0, -1, -1)
    while body < end:
        if not read_message(body, end - body, &m):
            return _REFERENCE
        body += LOG_OVERHEAD + m.size
        m.offset = plus(base, m.offset)
        # LegacyRecord.timestamp: with LogAppendTime, the time of the wrapper is that of all its messages.
        if m.magic == 1 and outer.magic == 1 and outer.attributes & TIMESTAMP_TYPE_BIT:
            m.timestamp = outer.timestamp
        shown += message_line(job, outer, &m, position)
    if job.select.asked and not shown:
        job.out = start
    return _DONE

cdef int message_text(Job* job, Bytes entry, int64_t size, int64_t position) noexcept nogil:
    cdef Inner m
    cdef Out start
    cdef bint valid
    cdef int codec
    if not read_message(entry, size, &m):
        return _REFERENCE
    codec = m.attributes & CODEC_MASK
    # Not opened, zstd is just a name; opened, an old message with zstd throws (DeepRecordsIterator).
    if codec > (CODEC_LZ4 if job.flags & _DEEP else CODEC_ZSTD):
        return _REFERENCE
    valid = message_valid(&m)
    note_validity(job, valid, position)
    # A wrapper does not say where its messages begin.
    if not batch_wanted(job, m.offset if codec == CODEC_NONE else NO_FIRST_OFFSET, m.offset, m.timestamp, -1):
        return _DONE
    if codec != CODEC_NONE and job.flags & _DEEP:
        if m.value_size < 0 or not valid:
            return _REFERENCE
        return inner_lines(job, &m, position)
    if not fits(job, 1, size):
        return room_or_reference(job)
    start = job.out
    message_head(job, &m, position, valid)
    if job.flags & _JSON:
        begin_records(job, position, m.magic, codec)
    elif job.flags & _CSV:
        begin_csv(job, position, codec == CODEC_NONE, m.offset, -1, -1)
    if job.flags & _DEEP and not message_line(job, &m, &m, position):
        job.out = start
    return _DONE

cdef int entry_text(Job* job, Bytes b, int64_t left, int64_t position, int64_t* size) noexcept nogil:
    """The text of the entry at b, or none of it."""
    cdef Out before = job.out
    cdef int64_t last_offset = job.last_offset, gap_count = job.gap_count, invalid = job.invalid
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
    # The entry comes again, here or in the reference. What is written and counted of it now would be there twice.
    if why:
        job.out, job.last_offset, job.gap_count, job.invalid = before, last_offset, gap_count, invalid
    return why

cdef class Selection:
    """Which records dump() shows; bounds are inclusive. None: everything."""

    cdef Select select
    cdef object keep

    def __cinit__(self, offsets, timestamps, producer_id, bytes key, bytes grep):
        self.keep = (key, grep)
        self.select.asked = True
        self.select.first_offset, self.select.last_offset = offsets
        self.select.first_timestamp, self.select.last_timestamp = timestamps
        self.select.any_producer = producer_id is None
        self.select.producer_id = 0 if producer_id is None else producer_id
        self.select.has_key, self.select.has_grep = key is not None, bool(grep)     # no bytes are in everything
        if key is not None:
            self.select.key, self.select.key_size = <Bytes> <char*> key, len(key)
        if grep is not None:
            self.select.grep, self.select.grep_size = <Bytes> <char*> grep, len(grep)

@cython.final
cdef class DumpState:
    """What goes on from one call of dump() to the next.

    last_offset: of the last record seen; gap_count: of gaps so far; needed: bytes of room for the entry that did not
    fit; invalid: entries with a wrong checksum; first_invalid: position of the first.
    """

    cdef public int64_t last_offset, gap_count, needed, invalid, first_invalid

def dump(const uint8_t[::1] log not None, int64_t at, int64_t cut, int64_t base, int flags, DumpState state not None,
         int64_t[::1] gaps not None, uint8_t[::1] out not None, const uint8_t[::1] body=None, Selection select=None,
         const uint8_t[::1] file=None, Workspace work=None, const uint8_t[::1] segment=None):
    """The text of the entries from byte `at` on, up to `cut`, into `out`. Returns (at, bytes written, why).

    base: position of log[0] in its file. flags: DEEP, PRINT_DATA, SKIP_METADATA, SCALA (the words of the older tool),
    JSON (with DEEP: JSON lines, `file` then is the file's name as JSON), CSV (with DEEP: rows, `file` then is what goes
    before the offset, `segment` what goes before the position). gaps: pairs of offsets, flat. why: DONE; FULL: no room in `out` or `gaps`;
    BODY: call again with the records of this entry inflated; REFERENCE: the entry at `at` is for the reference
    reader, nothing of it was written. work: where to inflate, if there is more to do after this call.
    """
    cdef Job job
    cdef Bytes b
    cdef int64_t size = 0, have = log.shape[0]
    cdef int why = _DONE
    if gaps.shape[0] < 2 or out.shape[0] == 0:
        raise ValueError("too small a buffer")
    if not 0 <= state.gap_count <= gaps.shape[0] // 2:
        raise ValueError("state and gaps do not fit each other")
    if at < 0 or at >= cut or have < cut:
        return at, 0, DONE
    job.out.at = &out[0]
    job.out_end = job.out.at + out.shape[0]
    job.gaps, job.gap_room, job.gap_count = &gaps[0], gaps.shape[0] // 2, state.gap_count
    job.last_offset, job.flags, job.needed, job.invalid = state.last_offset, flags, 0, state.invalid
    job.first_invalid = state.first_invalid
    job.body, job.body_size, job.file, job.file_size = NULL, 0, NULL, 0
    if body is not None:
        job.body, job.body_size = (&body[0] if body.shape[0] else <Bytes> b""), body.shape[0]
    if file is not None and file.shape[0]:
        job.file, job.file_size = &file[0], file.shape[0]
    job.segment, job.segment_size = NULL, 0
    if segment is not None and segment.shape[0]:
        job.segment, job.segment_size = &segment[0], segment.shape[0]
    job.select.asked = False
    if select is not None:
        job.select = select.select
    if work is None:
        work = Workspace()
    work.take()
    job.scratch = work.scratch
    job.head.start = <uint8_t*> malloc(job.file_size + job.segment_size + 3 * PIECE_ROOM)
    if job.head.start == NULL:
        work.busy = False
        raise MemoryError
    job.middle.start = job.head.start + job.file_size + PIECE_ROOM
    job.tail.start = job.middle.start + job.segment_size + PIECE_ROOM
    b = &log[0]
    with nogil:
        while at < cut:
            why = entry_text(&job, b + at, have - at, plus(base, at), &size)
            if why:
                break
            at += size
            job.body = NULL
        free(job.head.start)
    work.scratch, work.busy = job.scratch, False
    state.last_offset, state.gap_count, state.needed = job.last_offset, job.gap_count, job.needed
    state.invalid, state.first_invalid = job.invalid, job.first_invalid
    return at, job.out.at - &out[0], why
