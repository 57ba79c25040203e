# Fingerprints of records, and what of two copies is compared: format/record_digests and format/xxh64 are the references.
# What is not plain is left to the reference, with nothing of it taken.

# What comes of entries; Python has the names without an underscore.
DIGEST_ROWS, RECORD_ITEMS, HEAD_ITEMS = 0, 1, 2

cdef enum:
    STRIPE = 32
    DIGEST_ROW = 16                 # an offset, a fingerprint
    ITEM_ROW = 40                   # two offsets, a fingerprint, a leader epoch, a position
    MOST_DIGESTED = 4194304         # records of one batch
    IS_CONTROL = 1
    IS_TRANSACTIONAL = 2
    _DIGEST_ROWS = 0
    _HEAD_ITEMS = 2

cdef extern from *:
    """
    #define XXH_1 0x9E3779B185EBCA87ULL
    #define XXH_2 0xC2B2AE3D27D4EB4FULL
    #define XXH_3 0x165667B19E3779F9ULL
    #define XXH_4 0x85EBCA77C2B2AE63ULL
    #define XXH_5 0x27D4EB2F165667C5ULL
    """
    const uint64_t XXH_1, XXH_2, XXH_3, XXH_4, XXH_5

# --- xxHash64, of pieces that follow each other --------------------------------------------------------------------

cdef struct Xxh64:
    uint64_t a, b, c, d, total
    int64_t have                    # bytes in `left`
    uint8_t[STRIPE] left

cdef inline uint64_t xxh_round(uint64_t lane, uint64_t word) noexcept nogil:
    return rotated(lane + word * XXH_2, 31) * XXH_1

cdef inline void xxh_begin(Xxh64* h) noexcept nogil:
    h.a, h.b, h.c, h.d = XXH_1 + XXH_2, XXH_2, 0, 0 - XXH_1
    h.total, h.have = 0, 0

cdef inline Bytes xxh_stripes(Xxh64* h, Bytes p, Bytes end) noexcept nogil:
    cdef uint64_t a = h.a, b = h.b, c = h.c, d = h.d
    while end - p >= STRIPE:
        a, b = xxh_round(a, le64(p)), xxh_round(b, le64(p + 8))
        c, d = xxh_round(c, le64(p + 16)), xxh_round(d, le64(p + 24))
        p += STRIPE
    h.a, h.b, h.c, h.d = a, b, c, d
    return p

cdef inline void xxh_add(Xxh64* h, Bytes p, int64_t size) noexcept nogil:
    cdef Bytes end = p + size
    cdef int64_t n
    h.total += size
    if h.have:
        n = min(STRIPE - h.have, size)
        memcpy(&h.left[h.have], p, n)
        h.have += n
        p += n
        if h.have < STRIPE:
            return
        xxh_stripes(h, h.left, &h.left[0] + STRIPE)
        h.have = 0
    p = xxh_stripes(h, p, end)
    h.have = end - p
    memcpy(h.left, p, h.have)

cdef inline void xxh_add_size(Xxh64* h, int64_t size) noexcept nogil:
    cdef uint8_t[4] number
    store_be32(number, <uint32_t> size)
    xxh_add(h, number, 4)

cdef inline uint64_t xxh_merged(uint64_t x, uint64_t lane) noexcept nogil:
    return (x ^ xxh_round(0, lane)) * XXH_1 + XXH_4

cdef inline uint64_t xxh_end(Xxh64* h) noexcept nogil:
    cdef uint64_t x = XXH_5
    cdef Bytes p = h.left, end = &h.left[0] + h.have
    if h.total >= STRIPE:
        x = rotated(h.a, 1) + rotated(h.b, 7) + rotated(h.c, 12) + rotated(h.d, 18)
        x = xxh_merged(xxh_merged(xxh_merged(xxh_merged(x, h.a), h.b), h.c), h.d)
    x += h.total
    while end - p >= 8:
        x = rotated(x ^ xxh_round(0, le64(p)), 27) * XXH_1 + XXH_4
        p += 8
    if end - p >= 4:
        x = rotated(x ^ le32(p) * XXH_1, 23) * XXH_2 + XXH_3
        p += 4
    while p < end:
        x = rotated(x ^ p[0] * XXH_5, 11) * XXH_1
        p += 1
    x = (x ^ x >> 33) * XXH_2
    x = (x ^ x >> 29) * XXH_3
    return x ^ x >> 32

def xxh64(const uint8_t[::1] data not None):
    """format.xxh64.xxh64."""
    cdef Xxh64 h
    xxh_begin(&h)
    if data.shape[0]:
        xxh_add(&h, &data[0], data.shape[0])
    return xxh_end(&h)

# --- Records -------------------------------------------------------------------------------------------------------

cdef struct Sink:                   # what records become
    Growing out
    bint as_items                   # else rows of a digest
    int64_t start, end              # offsets wanted
    int64_t records, first_offset, last_offset      # of the wanted ones
    int64_t epoch, position         # of the entry
    int64_t before                  # the last offset of the entry before; NOT_TOLD at first

cdef inline void add_field(Xxh64* h, Bytes p, int64_t size) noexcept nogil:
    xxh_add_size(h, size)
    if size > 0:
        xxh_add(h, p, size)

cdef inline void add_headers(Xxh64* h, Record* r) noexcept nogil:
    cdef Cursor c
    cdef int64_t n = 0
    cdef int32_t i
    cdef Bytes p
    xxh_add_size(h, r.header_count)
    c.at, c.end, c.broken = r.headers, r.end, False
    for i in range(r.header_count):
        p = field(&c, &n)
        add_field(h, p, n)
        p = field(&c, &n)
        add_field(h, p, n)

cdef inline void store_be64(uint8_t* to, uint64_t value) noexcept nogil:
    store_be32(to, <uint32_t> (value >> 32))
    store_be32(to + 4, <uint32_t> value)

cdef inline uint64_t fingerprint(Record* r, int64_t timestamp, int flags, Bytes producer) noexcept nogil:
    """producer: 14 bytes that follow the flags, or NULL."""
    cdef Xxh64 h
    cdef uint8_t[23] head
    xxh_begin(&h)
    store_be64(head, <uint64_t> timestamp)
    head[8] = <uint8_t> flags
    if producer != NULL:
        memcpy(&head[9], producer, 14)
    xxh_add(&h, head, 23 if producer != NULL else 9)
    add_field(&h, r.key, r.key_size)
    add_field(&h, r.value, r.value_size)
    add_headers(&h, r)
    return xxh_end(&h)

cdef inline void sink_item(Sink* s, int64_t first, int64_t last, uint64_t mark, int64_t epoch, int64_t position) noexcept nogil:
    cdef int64_t* row = <int64_t*> (s.out.data + s.out.size)        # room was made
    row[0], row[1], row[2], row[3], row[4] = first, last, <int64_t> mark, epoch, position
    s.out.size += ITEM_ROW

cdef inline void sink_record(Sink* s, Record* r, int64_t offset, int64_t timestamp, int flags, uint8_t* producer) noexcept nogil:
    cdef uint8_t* row = s.out.data + s.out.size                     # room was made
    if not s.start <= offset < s.end:
        return
    if s.as_items:
        sink_item(s, offset, offset, fingerprint(r, timestamp, flags, producer), s.epoch, s.position)
    else:
        store_be64(row, <uint64_t> offset)
        store_be64(row + 8, fingerprint(r, timestamp, flags & IS_CONTROL, NULL))
        s.out.size += DIGEST_ROW
    if s.records == 0:
        s.first_offset = offset
    s.records, s.last_offset = s.records + 1, offset

cdef inline bint room_for(Sink* s, int64_t records) noexcept nogil:
    return records <= MOST_DIGESTED and takes_more(&s.out, records * (ITEM_ROW if s.as_items else DIGEST_ROW))

cdef int batch_records(Sink* s, Job* job, Bytes b, int64_t size) noexcept nogil:
    """The records of a batch whose checksum is right."""
    cdef Batch h
    cdef Cursor c
    cdef Record r
    cdef Bytes body = NULL
    cdef int64_t body_size = 0, timestamp, i
    cdef uint8_t[14] producer
    cdef int why, flags = 0
    h.attributes, h.base_offset, h.delta = <uint8_t> be16(b + BATCH_ATTRIBUTES), be64(b + BATCH_BASE_OFFSET), be32(b + BATCH_LAST_OFFSET_DELTA)
    h.base_timestamp, h.max_timestamp = be64(b + BATCH_BASE_TIMESTAMP), be64(b + BATCH_MAX_TIMESTAMP)
    h.base_sequence, h.count = be32(b + BATCH_BASE_SEQUENCE), be32(b + BATCH_RECORDS_COUNT)
    if h.count <= 0 or not room_for(s, h.count):
        return _REFERENCE if h.count else _DONE
    why = find_body(job, b + BATCH_SIZE, size - BATCH_SIZE, h.attributes & CODEC_MASK, 2, &body, &body_size)
    if why or not plain_records(job, b, body, body_size, h.attributes):
        return why if why else _REFERENCE
    flags |= IS_CONTROL if h.attributes & CONTROL_BIT else 0
    flags |= IS_TRANSACTIONAL if h.attributes & TRANSACTIONAL_BIT else 0
    memcpy(producer, b + BATCH_PRODUCER_ID, 10)
    c.at, c.end, c.broken = body, body + body_size, False
    for i in range(h.count):
        if not next_record(&c, &r):                                 # mapped bytes may change
            return _REFERENCE
        timestamp = h.max_timestamp if h.attributes & TIMESTAMP_TYPE_BIT else plus(h.base_timestamp, r.timestamp_delta)
        store_be32(&producer[10], <uint32_t> (sequence_of(&h, &r) if be64(producer) >= 0 else -1))
        sink_record(s, &r, plus(h.base_offset, r.offset_delta), timestamp, flags, producer)
    return _DONE

cdef inline void message_record(Inner* m, Record* r) noexcept nogil:
    r.key, r.value, r.headers, r.end, r.header_count = m.key, m.value, m.value, m.value, 0
    r.key_size, r.value_size = (-1 if m.key_size < 0 else m.key_size), (-1 if m.value_size < 0 else m.value_size)

cdef bint inner_in_order(Inner* outer, Bytes body, int64_t size, int64_t base) noexcept nogil:
    """Whether the inner messages match their checksums and their wrapper, as the reference asks of them."""
    cdef Bytes end = body + size
    cdef int64_t before = NOT_TOLD, largest = NOT_TOLD, timestamp
    cdef Inner m
    while body < end:
        if not read_message(body, end - body, &m) or not message_valid(&m) or m.magic != outer.magic:
            return False
        if plus(base, m.offset) <= before:
            return False
        timestamp = outer.timestamp if m.magic == 1 and outer.attributes & TIMESTAMP_TYPE_BIT else m.timestamp
        before, largest = plus(base, m.offset), max(largest, timestamp)
        body += LOG_OVERHEAD + m.size
    return before == outer.offset and (outer.magic == 0 or largest == outer.timestamp)

cdef int inner_records(Sink* s, Job* job, Inner* outer, uint8_t* producer) noexcept nogil:
    cdef Bytes body = NULL, end
    cdef int64_t body_size = 0, last = 0, base = 0, count
    cdef Inner m
    cdef Record r
    cdef int why = find_body(job, outer.value, outer.value_size, outer.attributes & CODEC_MASK, outer.magic, &body, &body_size)
    if why:
        return why
    count = walk_inner(body, body + body_size, &m, &last)
    if count < 0 or not room_for(s, count):
        return _REFERENCE
    if outer.magic == 1 and outer.offset != 0:
        base = minus(outer.offset, last)
    if not inner_in_order(outer, body, body_size, base):
        return _REFERENCE
    end = body + body_size
    while body < end and read_message(body, end - body, &m):
        message_record(&m, &r)
        sink_record(s, &r, plus(base, m.offset),
                   outer.timestamp if m.magic == 1 and outer.attributes & TIMESTAMP_TYPE_BIT else m.timestamp, 0, producer)
        body += LOG_OVERHEAD + m.size
    return _DONE

cdef int message_records(Sink* s, Job* job, Bytes b, int64_t size) noexcept nogil:
    """The records of a message whose checksum is right."""
    cdef Inner m
    cdef Record r
    cdef uint8_t[14] producer
    memset(producer, 0xFF, 14)
    if not read_message(b, size, &m):
        return _REFERENCE
    if m.attributes & CODEC_MASK:
        return inner_records(s, job, &m, producer) if m.value_size >= 0 else _REFERENCE
    if not room_for(s, 1):
        return _REFERENCE
    message_record(&m, &r)
    sink_record(s, &r, m.offset, m.timestamp, 0, producer)
    return _DONE

cdef int proved_entry(Sink* s, Job* job, Bytes b, int64_t size, bint records, int64_t* f) noexcept nogil:
    """An entry that proves itself and begins after the one before: its records, or none of them."""
    cdef int magic = b[FRAME_MAGIC]
    cdef Growing out = s.out
    cdef int64_t count = s.records, first = s.first_offset, last = s.last_offset
    cdef int why = plain_batch(job, b, size, False, f) if magic == 2 else plain_message(b, size, magic, False, f)
    if why == _DONE and s.before != NOT_TOLD and max(f[F_FIRST_OFFSET], f[F_LAST_OFFSET] if magic < 2 else NOT_TOLD) <= s.before:
        why = _REFERENCE
    if why or not records:
        return why
    why = batch_records(s, job, b, size) if magic == 2 else message_records(s, job, b, size)
    if why:
        s.out.size, s.records, s.first_offset, s.last_offset = out.size, count, first, last
    return why

cdef inline bint order_told(Sink* s, int magic) noexcept nogil:
    """Whether an entry's first offset is known: that of a wrapper only if there was an entry before."""
    return magic == 2 or s.before != NOT_TOLD

cdef inline void head_item(Sink* s, Bytes b, int64_t* f) noexcept nogil:
    """The header of an entry, but for its offset and its leader epoch."""
    cdef Xxh64 h
    cdef int64_t first = f[F_FIRST_OFFSET]
    xxh_begin(&h)
    xxh_add(&h, b + FRAME_LENGTH, 4)
    if f[F_MAGIC] == 2:
        xxh_add(&h, b + BATCH_MAGIC, BATCH_SIZE - BATCH_MAGIC)
    else:
        xxh_add(&h, b + FRAME_MAGIC, 2)                             # magic and attributes
        xxh_add(&h, b + LOG_OVERHEAD, 4)                            # the checksum is of all that follows
        if first == NOT_TOLD:
            first = f[F_LAST_OFFSET] if s.before == NOT_TOLD else min(plus(s.before, 1), f[F_LAST_OFFSET])
    sink_item(s, first, f[F_LAST_OFFSET], xxh_end(&h), f[F_LEADER_EPOCH], s.position)

cdef class Digests:
    """The records in [start, end), or what of entries is compared.

    form: DIGEST_ROWS: rows of 16 bytes, an offset and a fingerprint, big-endian; RECORD_ITEMS, HEAD_ITEMS: rows of five
    numbers (format.record_digests). records, first_offset, last_offset: of those in it so far. before: the last offset of
    the entries so far, None at first. is_past: the next entry begins at or after the end.
    """

    cdef Sink sink
    cdef public bint is_past
    cdef int form

    def __cinit__(self, int64_t start, int64_t end, int form):
        memset(&self.sink, 0, sizeof(Sink))
        self.form, self.sink.as_items = form, form != _DIGEST_ROWS
        self.sink.start, self.sink.end, self.sink.before = start, end, NOT_TOLD
        self.sink.first_offset = self.sink.last_offset = -1

    def __dealloc__(self):
        free(self.sink.out.data)

    @property
    def records(self):
        return self.sink.records

    @property
    def first_offset(self):
        return self.sink.first_offset

    @property
    def last_offset(self):
        return self.sink.last_offset

    @property
    def before(self):
        return None if self.sink.before == NOT_TOLD else self.sink.before

    def take(self, const uint8_t[::1] data not None, int64_t at, int64_t stop, int64_t base, const uint8_t[::1] body=None,
             Workspace work=None):
        """Take the entries that begin in data[at:stop] and prove themselves. Returns (at, why).

        base: position of data[0] in its file. why: DONE; CUT_OFF: the entry at `at` is not whole in the data; BODY: call
        again with its records inflated; REFERENCE: it is not plain, as far as can be told here.
        """
        cdef Job job
        cdef int64_t have = data.shape[0]
        cdef int why = _DONE
        if not 0 <= at <= have:
            raise ValueError("at is to lie in the data")
        if have == 0:
            return at, (CUT_OFF if at < stop else DONE)
        if work is None:
            work = Workspace()
        work.take()
        job.scratch, job.body, job.body_size = work.scratch, NULL, 0
        if body is not None:
            job.body, job.body_size = (&body[0] if body.shape[0] else <Bytes> b""), body.shape[0]
        with nogil:
            while at < stop and not self.is_past:
                self.sink.position = plus(base, at)
                why = self.take_entry(&job, &data[0] + at, have - at, &at)
                if why:
                    break
                job.body = NULL
        work.scratch, work.busy = job.scratch, False
        return at, why

    cdef int take_entry(self, Job* job, Bytes b, int64_t have, int64_t* at) noexcept nogil:
        cdef Sink* s = &self.sink
        cdef int64_t size = 0, first, last
        cdef int64_t[FACTS_COUNT] f
        cdef bint wanted
        cdef int why = regular_size(b, have, &size)
        if why:
            return why
        f[F_MAGIC], first = b[FRAME_MAGIC], be64(b + FRAME_OFFSET)
        last = first
        if f[F_MAGIC] == 2:
            last = plus(first, be32(b + BATCH_LAST_OFFSET_DELTA))
        elif s.before != NOT_TOLD:
            first = min(last, plus(s.before, 1))
        if first >= s.end and order_told(s, <int> f[F_MAGIC]):
            self.is_past = True
            return _DONE
        wanted = last >= s.start
        if wanted and self.form == _HEAD_ITEMS and not room_for(s, 1):
            return _REFERENCE
        s.epoch = be32(b + BATCH_PARTITION_LEADER_EPOCH) if f[F_MAGIC] == 2 else -1
        why = proved_entry(s, job, b, size, wanted and self.form != _HEAD_ITEMS, f)
        if why:
            return why
        if wanted and self.form == _HEAD_ITEMS:
            head_item(s, b, f)
        s.before = f[F_LAST_OFFSET]
        at[0] += size
        return _DONE

    def add(self, bytes rows not None, int64_t records, int64_t first_offset, int64_t last_offset, int64_t before):
        """Take the rows of an entry from the reference. before: its last offset."""
        cdef Sink* s = &self.sink
        cdef int64_t size = len(rows)
        if not takes_more(&s.out, size):
            raise MemoryError
        memcpy(s.out.data + s.out.size, <const char*> rows, size)
        s.out.size += size
        if records:
            s.first_offset = s.first_offset if s.records else first_offset
            s.records, s.last_offset = s.records + records, last_offset
        s.before = before

    def fetch(self):
        """The rows since the last call."""
        cdef bytes rows = PyBytes_FromStringAndSize(<const char*> self.sink.out.data, self.sink.out.size)
        self.sink.out.size = 0
        return rows
