# Cleaning: the map of keys, and what stays of each batch of magic 2 (broker/cleaning/offset_map and
# broker/cleaning/record_filter are the reference). Bytes may be mapped, and change while they are looked at: what memory
# depends on is loaded once. What is made of them is worth nothing then, which shows by the file's time.

cdef enum:
    SECRET_SIZE = 16
    MOST_PARSED = 1 << 20
    SMALL_MAP = 1 << 16
    SMALLEST_COPY = 262144          # content_writer.SMALLEST_PIECE_BYTES
    RECORD_EXTRA = 48               # the varints of a record, at most
    HEADER_EXTRA = 10
    PART_SIZE = 24
    LZ4_HEADER = 7
    LZ4_64KB = 4                    # LZ4F_max64KB
    MERGE_AHEAD = 12                # entries whose slots are asked for beforehand

cdef struct Slot:
    uint64_t high, low, offset      # of the key's hash; the offset and one, 0: nobody's

cdef struct Lz4Preferences:         # LZ4F_preferences_t; zeros are defaults
    int block_size_id, is_independent, content_checksum, frame_type
    uint64_t content_size
    uint32_t dictionary
    int block_checksum, level
    uint32_t[5] others

ctypedef size_t (*Lz4Bound)(size_t, const void*) noexcept nogil
ctypedef size_t (*Lz4Compress)(void*, size_t, const void*, size_t, const void*) noexcept nogil
ctypedef unsigned int (*Lz4IsError)(size_t) noexcept nogil

cdef struct Lz4:                    # liblz4, out of the package that carries it; see format/codecs/lz4
    Lz4Bound bound
    Lz4Compress compress
    Lz4IsError is_error
    Lz4Preferences preferences

cdef struct Parsed:
    Record record
    int64_t offset, timestamp
    uint64_t high, low
    bint is_kept

# --- the map ----------------------------------------------------------------------------------------------------------

cdef struct Sip:
    uint64_t v0, v1, v2, v3

cdef inline uint64_t rotated(uint64_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (64 - bits))

cdef inline void sip_rounds(Sip* s, int rounds) noexcept nogil:
    cdef int i
    for i in range(rounds):
        s.v0 += s.v1
        s.v2 += s.v3
        s.v1 = rotated(s.v1, 13) ^ s.v0
        s.v3 = rotated(s.v3, 16) ^ s.v2
        s.v0 = rotated(s.v0, 32)
        s.v2 += s.v1
        s.v0 += s.v3
        s.v1 = rotated(s.v1, 17) ^ s.v2
        s.v3 = rotated(s.v3, 21) ^ s.v0
        s.v2 = rotated(s.v2, 32)

cdef inline void siphash(Bytes p, int64_t size, uint64_t k0, uint64_t k1, int c, int d, uint64_t* high, uint64_t* low) noexcept nogil:
    """SipHash-c-d with 128 bits: a hash that nobody can aim at who does not know the secret."""
    cdef Sip s
    cdef uint64_t m, last = <uint64_t> size << 56
    cdef int64_t at = 0
    cdef int i
    s.v0, s.v1 = k0 ^ 0x736f6d6570736575ULL, k1 ^ 0x646f72616e646f6dULL ^ 0xee
    s.v2, s.v3 = k0 ^ 0x6c7967656e657261ULL, k1 ^ 0x7465646279746573ULL
    while size - at >= 8:
        m = le64(p + at)
        s.v3 ^= m
        sip_rounds(&s, c)
        s.v0 ^= m
        at += 8
    for i in range(<int> (size - at)):
        last |= <uint64_t> p[at + i] << 8 * i
    s.v3 ^= last
    sip_rounds(&s, c)
    s.v0 ^= last
    s.v2 ^= 0xee
    sip_rounds(&s, d)
    high[0] = s.v0 ^ s.v1 ^ s.v2 ^ s.v3
    s.v1 ^= 0xdd
    sip_rounds(&s, d)
    low[0] = s.v0 ^ s.v1 ^ s.v2 ^ s.v3

def siphash_128(const uint8_t[::1] data not None, bytes secret not None, int c=1, int d=3):
    """SipHash-c-d of the bytes as two numbers (tests call this)."""
    cdef uint64_t high, low
    cdef Bytes key = secret
    if len(secret) != SECRET_SIZE:
        raise ValueError("a secret has 16 bytes")
    siphash(&data[0] if data.shape[0] else key, data.shape[0], le64(key), le64(key + 8), c, d, &high, &low)
    return high, low

@cython.final
cdef class OffsetMap:
    """broker.cleaning.offset_map.OffsetMap, of so many slots, of which `usable` are filled at most. secret: 16 bytes.

    It begins with few slots, which stay in a processor's cache, and has a quarter of them next, and then all.
    """

    cdef readonly int64_t slots, usable, entries
    cdef public int64_t latest_offset
    cdef Slot* table
    cdef int64_t room, grows_at     # slots that there are as yet, and with how many keys there are to be more
    cdef uint64_t k0, k1

    def __cinit__(self, int64_t slots, int64_t usable, bytes secret not None):
        cdef Bytes key = secret
        if slots < 1 or usable > slots or len(secret) != SECRET_SIZE:
            raise ValueError("a map has slots, and a secret of 16 bytes")
        self.slots, self.usable, self.entries, self.latest_offset = slots, usable, 0, -1
        self.k0, self.k1 = le64(key), le64(key + 8)
        self.table = NULL
        if not self.grow_to(slots // 32 if slots >= SMALL_MAP else slots):
            raise MemoryError

    @staticmethod
    def fits(int64_t slots, int64_t usable):
        """Whether there can be such a map."""
        return 1 <= slots and usable <= slots

    def __dealloc__(self):
        if self.table != NULL:
            free_pages(self.table, self.room * sizeof(Slot))

    cdef bint grow_to(self, int64_t room) noexcept nogil:
        """Pages of it that no key has come to take no memory."""
        cdef Slot* before = self.table
        cdef Slot* table = <Slot*> zeroed_pages(room * sizeof(Slot))
        cdef int64_t n, m, had = self.room
        if table == NULL:
            return False
        self.table, self.room, self.grows_at = table, room, room if room == self.slots else room * 4 // 5
        if before != NULL:
            for n in range(had):
                if before[n].offset:
                    m = self.home(before[n].high)
                    while table[m].offset:
                        m = m + 1 if m + 1 < room else 0
                    table[m] = before[n]
            free_pages(before, had * sizeof(Slot))
        return True

    cdef void grow(self) noexcept nogil:
        """More slots. If there is no memory for them, the map is full."""
        if not self.grow_to(self.slots // 4 if self.room < self.slots // 4 else self.slots):
            self.usable = self.entries

    @property
    def is_full(self):
        """No further record is to be put, whatever its key."""
        return self.entries >= self.usable

    def put(self, const uint8_t[::1] key not None, int64_t offset):
        """The offset of a record with this key. The map must not be full."""
        cdef uint64_t high, low
        if self.entries >= self.slots:
            raise ValueError("the map is full")
        siphash(&key[0] if key.shape[0] else <Bytes> &self.k0, key.shape[0], self.k0, self.k1, 1, 3, &high, &low)
        self.insert(high, low, offset)

    def get(self, const uint8_t[::1] key not None):
        """The last offset with this key, or -1."""
        cdef uint64_t high, low
        siphash(&key[0] if key.shape[0] else <Bytes> &self.k0, key.shape[0], self.k0, self.k1, 1, 3, &high, &low)
        return self.find(high, low)

    def entries_by_hash(self, int64_t parts):
        """Its entries in so many parts by their hash, as bytes: what `merge` takes, of any map with the same secret."""
        cdef int64_t n, m
        cdef Bytes row
        cdef Growing* found = NULL
        if parts < 1:
            raise ValueError("there is one part at least")
        found = <Growing*> malloc(parts * sizeof(Growing))
        if found == NULL:
            raise MemoryError
        memset(found, 0, parts * sizeof(Growing))
        try:
            for n in range(self.room):
                if self.table[n].offset:
                    m = <int64_t> (self.table[n].low % <uint64_t> parts)
                    if not takes_more(found + m, sizeof(Slot)):
                        raise MemoryError
                    memcpy(found[m].data + found[m].size, self.table + n, sizeof(Slot))
                    found[m].size += sizeof(Slot)
            return [taken_from(found + m) for m in range(parts)]
        finally:
            for m in range(parts):
                free(found[m].data)
            free(found)

    def merge(self, const uint8_t[::1] entries not None):
        """Entries of another map; of a key that both have, the larger offset stays. There must be slots for all."""
        cdef int64_t n, count = entries.shape[0] // <int64_t> sizeof(Slot)
        cdef Bytes given = &entries[0] if count else NULL
        cdef Slot entry
        if count * <int64_t> sizeof(Slot) != entries.shape[0] or count > self.slots - self.entries:
            raise ValueError("entries are whole, and not more than there are slots for")
        # All slots at once: entries come in the order of their homes, and would crowd the first ones of a smaller table.
        if self.room < self.slots and not self.grow_to(self.slots):
            raise MemoryError
        with nogil:
            for n in range(count):
                if n + MERGE_AHEAD < count:
                    memcpy(&entry, given + (n + MERGE_AHEAD) * sizeof(Slot), sizeof(Slot))
                    fetch_line(<Bytes> (self.table + self.home(entry.high)))
                memcpy(&entry, given + n * sizeof(Slot), sizeof(Slot))
                self.raise_to(entry)

    cdef inline void raise_to(self, Slot entry) noexcept nogil:
        cdef int64_t n = self.home(entry.high)
        while self.table[n].offset and (self.table[n].high != entry.high or self.table[n].low != entry.low):
            n = n + 1 if n + 1 < self.room else 0
        if self.table[n].offset:
            self.table[n].offset = max(self.table[n].offset, entry.offset)
            return
        self.table[n] = entry
        self.entries += 1

    cdef inline int64_t home(self, uint64_t high) noexcept nogil:
        return <int64_t> ((high >> 32) * <uint64_t> self.room >> 32)

    cdef inline void hash(self, Bytes key, int64_t size, uint64_t* high, uint64_t* low) noexcept nogil:
        """And the key's slot is asked for: it lies anywhere in a large map."""
        cdef Slot* slot
        siphash(key, size, self.k0, self.k1, 1, 3, high, low)
        slot = self.table + self.home(high[0])
        fetch_line(<Bytes> slot)
        fetch_line(<Bytes> slot + sizeof(Slot) - 1)

    cdef inline void insert(self, uint64_t high, uint64_t low, int64_t offset) noexcept nogil:
        cdef int64_t n = self.home(high)
        while self.table[n].offset and (self.table[n].high != high or self.table[n].low != low):
            n = n + 1 if n + 1 < self.room else 0
        self.latest_offset = offset
        if self.table[n].offset:
            self.table[n].offset = <uint64_t> offset + 1
            return
        self.table[n].high, self.table[n].low, self.table[n].offset = high, low, <uint64_t> offset + 1
        self.entries += 1
        if self.entries >= self.grows_at and self.room < self.slots:
            self.grow()

    cdef inline int64_t find(self, uint64_t high, uint64_t low) noexcept nogil:
        cdef int64_t n = self.home(high), tried = 0
        while self.table[n].offset and tried < self.room:
            if self.table[n].high == high and self.table[n].low == low:
                return <int64_t> (self.table[n].offset - 1)
            n = n + 1 if n + 1 < self.room else 0
            tried += 1
        return -1

# --- the records of a batch -------------------------------------------------------------------------------------------

@cython.final
cdef class BatchRecords:
    """The records of one batch, and room for them and for what they inflate to; used again for the next one."""

    cdef Parsed* parsed
    cdef int64_t count, room
    cdef Workspace work
    cdef OffsetMap keys
    cdef int64_t base_offset, last_offset, base_timestamp, max_timestamp
    cdef int attributes

    def __cinit__(self, OffsetMap keys not None, Workspace work not None):
        self.parsed, self.count, self.room, self.keys, self.work = NULL, 0, 0, keys, work

    def __dealloc__(self):
        free(self.parsed)

    cdef void read_header(self, Bytes b) noexcept nogil:
        self.base_offset, self.attributes = be64(b), be16(b + BATCH_ATTRIBUTES)
        self.last_offset = plus(self.base_offset, be32(b + BATCH_LAST_OFFSET_DELTA))
        self.base_timestamp, self.max_timestamp = be64(b + BATCH_BASE_TIMESTAMP), be64(b + BATCH_MAX_TIMESTAMP)

    cdef int read(self, Bytes b, int64_t size, Bytes body, int64_t body_size) noexcept nogil:
        """All of a batch whose header was read, or none. body: what its records are inflated to, or NULL."""
        cdef int64_t count = be32(b + BATCH_RECORDS_COUNT)
        cdef int codec = self.attributes & CODEC_MASK
        self.count = 0
        if count < 0 or count > MOST_PARSED or codec > CODEC_ZSTD:
            return _REFERENCE
        if count == 0:
            return _DONE
        if body == NULL:
            body, body_size = b + BATCH_SIZE, size - BATCH_SIZE
            if codec != CODEC_NONE:
                body_size = self.inflated(body, body_size, codec)
                if body_size < 0:
                    return _BODY
                body = self.work.scratch.data
        if not self.has_room(count) or not self.parse(body, body_size, count):
            self.count = 0
            return _REFERENCE
        self.count = count
        return _DONE

    cdef int64_t inflated(self, Bytes data, int64_t size, int codec) noexcept nogil:
        if codec == CODEC_LZ4:
            return lz4_frame(data, size, 2, &self.work.scratch)
        if codec == CODEC_ZSTD:
            return zstd_frame(data, size, &self.work.scratch)
        return snappy_frame(data, size, &self.work.scratch) if codec == CODEC_SNAPPY else -1

    cdef bint has_room(self, int64_t count) noexcept nogil:
        cdef Parsed* grown
        if count <= self.room:
            return True
        grown = <Parsed*> realloc(self.parsed, 2 * count * sizeof(Parsed))
        if grown == NULL:
            return False
        self.parsed, self.room = grown, 2 * count
        return True

    cdef bint parse(self, Bytes body, int64_t size, int64_t count) noexcept nogil:
        cdef Cursor c
        cdef Parsed* p
        cdef Bytes start
        cdef int64_t n
        c.at, c.end, c.broken = body, body + size, False
        for n in range(count):
            p, start = self.parsed + n, c.at
            if not next_record(&c, &p.record):
                return False
            fetch_ahead(start, c.at - start)        # a value is not looked at: what is behind it would be waited for
            p.offset = plus(self.base_offset, p.record.offset_delta)
            p.timestamp = plus(self.base_timestamp, p.record.timestamp_delta)
            if self.attributes & TIMESTAMP_TYPE_BIT:
                p.timestamp = self.max_timestamp
            if p.record.key_size >= 0:
                self.keys.hash(p.record.key, p.record.key_size, &p.high, &p.low)
        return c.at == c.end

# --- filling the map --------------------------------------------------------------------------------------------------

@cython.final
cdef class MapFiller:
    """Batches into a map (Cleaner.buildOffsetMap), from first_dirty on. capacity: of the cleaner's buffer."""

    cdef OffsetMap keys
    cdef BatchRecords records
    cdef int64_t first_dirty
    cdef public int64_t capacity, messages_read, bytes_read

    def __cinit__(self, OffsetMap keys not None, Workspace work not None, int64_t first_dirty):
        self.keys, self.records, self.first_dirty = keys, BatchRecords(keys, work), first_dirty
        self.capacity = self.messages_read = self.bytes_read = 0

    def take(self, const uint8_t[::1] data not None, int64_t at, int64_t stop):
        """Batches that begin in data[at:stop]: (where the next one begins, why it was not taken)."""
        cdef int64_t have = data.shape[0], size = 0
        cdef int why = _DONE
        cdef Bytes b
        if not 0 <= at <= have:
            raise ValueError("at is to lie in the data")
        if have == 0:
            return at, (CUT_OFF if at < stop else DONE)
        b = &data[0]
        self.records.work.take()
        with nogil:
            while at < stop:
                why = cleanable(b + at, have - at, self.capacity, &size)
                if why == _DONE:
                    why = self.fill(b + at, size, NULL, 0)
                if why:
                    break
                at += size
        self.records.work.busy = False
        return at, why

    def take_one(self, const uint8_t[::1] batch not None, const uint8_t[::1] body=None):
        """One whole batch, whatever it is of; body: its records, inflated. Why it was not taken."""
        cdef Bytes inside = NULL
        cdef int64_t size = 0
        if batch.shape[0] < BATCH_SIZE:
            raise ValueError("a batch has a header")
        if body is not None and body.shape[0]:
            inside, size = &body[0], body.shape[0]
        return self.fill(&batch[0], batch.shape[0], inside, size)

    def see(self, int64_t last_offset, int64_t size):
        """A batch that is none of the map's: its records are counted by the caller."""
        self.bytes_read += size
        if last_offset >= self.first_dirty:
            self.keys.latest_offset = last_offset

    cdef int fill(self, Bytes b, int64_t size, Bytes body, int64_t body_size) noexcept nogil:
        cdef int why
        cdef int64_t n
        cdef Parsed* p
        self.records.read_header(b)
        why = self.records.read(b, size, body, body_size)
        if why:
            return why
        for n in range(self.records.count):
            p = self.records.parsed + n
            if p.record.key_size >= 0 and p.offset >= self.first_dirty:
                if self.keys.entries >= self.keys.usable:
                    return _MAP_FULL
                if self.keys.entries >= self.keys.slots:
                    return _REFERENCE
                self.keys.insert(p.high, p.low, p.offset)
            self.messages_read += 1
        self.bytes_read += size
        if self.records.last_offset >= self.first_dirty:
            self.keys.latest_offset = self.records.last_offset
        return _DONE

cdef inline int cleanable(Bytes b, int64_t have, int64_t capacity, int64_t* size) noexcept nogil:
    """Whether a whole batch of magic 2 lies at b that nothing else has to be known of."""
    cdef int why = regular_size(b, have, size)
    if why:
        return why
    if b[FRAME_MAGIC] != 2:
        return _REFERENCE
    if size[0] > capacity:
        return _LARGE
    return _DECIDE if be16(b + BATCH_ATTRIBUTES) & (TRANSACTIONAL_BIT | CONTROL_BIT) else _DONE

# --- what stays -------------------------------------------------------------------------------------------------------

@cython.final
cdef class BatchCleaner:
    """What stays of batches, as the bytes of a new segment and the entries of its indexes.

    now_ms, delete_retention_ms, emptied_end: as in FilterTerms. indexes: those of the new segment. Counts are of what was
    read and kept since they were set.
    """

    cdef OffsetMap keys
    cdef BatchRecords records
    cdef int64_t now_ms, delete_retention_ms, emptied_end
    cdef readonly SegmentIndexes indexes
    cdef int64_t position           # where the new segment ends
    cdef public int64_t capacity, messages_read, bytes_read, messages_written, bytes_written
    cdef public int64_t superseded, tombstones, keyless
    cdef int64_t* producers         # id, last data offset, epoch of each, by id
    cdef int64_t producer_count
    cdef Growing out, parts, headers, body_out
    cdef int64_t run_start, run_stop
    cdef Lz4 lz4
    cdef uint8_t[LZ4_HEADER] lz4_header
    # Of a batch whose records are still to be compressed.
    cdef int64_t kept, largest, base_timestamp, latest
    cdef bint has_horizon

    def __cinit__(self, OffsetMap keys not None, Workspace work not None, int64_t now_ms, int64_t delete_retention_ms,
                  int64_t emptied_end):
        memset(&self.out, 0, sizeof(Growing))
        memset(&self.parts, 0, sizeof(Growing))
        memset(&self.headers, 0, sizeof(Growing))
        memset(&self.body_out, 0, sizeof(Growing))
        memset(&self.lz4, 0, sizeof(Lz4))
        self.keys, self.records, self.indexes, self.position = keys, BatchRecords(keys, work), SegmentIndexes(), 0
        self.now_ms, self.delete_retention_ms, self.emptied_end = now_ms, delete_retention_ms, emptied_end
        self.producers, self.producer_count, self.run_start, self.run_stop = NULL, 0, -1, -1
        self.capacity = self.messages_read = self.bytes_read = self.messages_written = self.bytes_written = 0
        self.superseded = self.tombstones = self.keyless = 0

    def __dealloc__(self):
        free(self.out.data)
        free(self.parts.data)
        free(self.headers.data)
        free(self.body_out.data)
        free(self.producers)

    def set_producers(self, rows):
        """(id, last data offset, epoch) of each producer that is known, by id."""
        cdef int64_t n = 0
        free(self.producers)
        self.producer_count = len(rows)
        self.producers = <int64_t*> malloc(max(len(rows), 1) * 3 * sizeof(int64_t))
        if self.producers == NULL:
            raise MemoryError
        for row in rows:
            self.producers[n], self.producers[n + 1], self.producers[n + 2] = row
            n += 3

    def use_lz4(self, compress, bound, is_error, const uint8_t[::1] header not None):
        """The addresses of liblz4's functions (format.codecs.lz4.find_functions), and how a frame of Kafka's begins."""
        if header.shape[0] != LZ4_HEADER:
            raise ValueError("no header of a frame")
        memcpy(self.lz4_header, &header[0], LZ4_HEADER)
        self.lz4.preferences.block_size_id, self.lz4.preferences.is_independent = LZ4_64KB, 1
        self.lz4.bound, self.lz4.is_error = <Lz4Bound> <void*> <size_t> bound, <Lz4IsError> <void*> <size_t> is_error
        self.lz4.compress = <Lz4Compress> <void*> <size_t> compress

    def take(self, const uint8_t[::1] data not None, int64_t at, int64_t stop, int64_t base):
        """Batches that begin in data[at:stop], data[0] being byte `base` of its file: (where the next one begins, why it
        was not taken)."""
        cdef int64_t have = data.shape[0], size = 0
        cdef int why = _DONE
        cdef Bytes b
        if not 0 <= at <= have:
            raise ValueError("at is to lie in the data")
        if have == 0:
            return at, (CUT_OFF if at < stop else DONE)
        b = &data[0]
        self.records.work.take()
        with nogil:
            while at < stop:
                why = cleanable(b + at, have - at, self.capacity, &size)
                if why == _DONE:
                    why = self.clean(b, at, size, base, NULL, 0, False, False)
                if why:
                    break
                at += size
            if why != _DEFLATE:
                why = why if self.end_run(b, base) else _IRREGULAR
        self.records.work.busy = False
        return at, why

    def take_one(self, const uint8_t[::1] data not None, int64_t at, int64_t size, int64_t base, bint discards,
                 bint sets_marker_horizon, const uint8_t[::1] body=None):
        """The batch data[at:at + size], of which is known what it is of; body: its records, inflated. Why it was not
        taken."""
        cdef Bytes inside = NULL
        cdef int64_t body_size = 0
        cdef int why = _DONE
        if at < 0 or size < BATCH_SIZE or size > data.shape[0] - at:
            raise ValueError("the batch is to lie in the data")
        if body is not None and body.shape[0]:
            inside, body_size = &body[0], body.shape[0]
        why = self.clean(&data[0], at, size, base, inside, body_size, discards, sets_marker_horizon)
        if why != _DEFLATE and not self.end_run(&data[0], base):
            why = _IRREGULAR
        return why

    def body(self):
        """The records that are kept of the batch at which `take` stopped with DEFLATE."""
        return PyBytes_FromStringAndSize(<const char*> self.body_out.data, self.body_out.size)

    def deflated(self, const uint8_t[::1] batch not None, const uint8_t[::1] body not None):
        """Take the batch at which `take` stopped, with its kept records compressed. Return why it was not taken."""
        cdef int64_t start = self.out.size
        if batch.shape[0] < BATCH_SIZE or body.shape[0] == 0:
            raise ValueError("a batch has a header, and records")
        self.records.read_header(&batch[0])
        if not takes_more(&self.out, BATCH_SIZE + body.shape[0]):
            raise MemoryError
        memcpy(self.out.data + start + BATCH_SIZE, &body[0], body.shape[0])
        return self.finish(&batch[0], start, BATCH_SIZE + body.shape[0])

    def append(self, const uint8_t[::1] data not None, int64_t last_offset, int64_t max_timestamp, int64_t max_offset):
        """A batch that the reference has made; whether the segment can have it."""
        cdef int64_t size = data.shape[0]
        if not takes_more(&self.out, size):
            raise MemoryError
        if not self.note(size, last_offset, max_timestamp, max_offset):
            return False
        memcpy(self.out.data + self.out.size, &data[0], size)
        self.out.size += size
        return self.put_part(-1, self.out.size - size, self.out.size)

    def take_parts(self):
        """What has come to be since the last call: (start, stop) of each run of bytes of the source, or (-1, size) of new
        bytes, in order; and these bytes."""
        cdef int64_t* row
        cdef int64_t n
        parts = []
        for n in range(self.parts.size // PART_SIZE):
            row = <int64_t*> (self.parts.data + n * PART_SIZE)
            if row[0] < 0:
                parts.append((-1, row[2] - row[1]))
            else:
                parts.append((row[0], row[1]))
        self.parts.size = 0
        return parts, taken_from(&self.out)

    @property
    def out_size(self):
        """New bytes since then."""
        return self.out.size

    # One batch.

    cdef int clean(self, Bytes data, int64_t at, int64_t size, int64_t base, Bytes body, int64_t body_size, bint discards,
                   bint sets_marker_horizon) noexcept nogil:
        """Nothing has changed, but the counts with DEFLATE, unless it returns DONE."""
        cdef Bytes b = data + at
        cdef int why
        cdef int64_t kept = 0
        cdef int64_t[3] gone
        cdef bint retains_empty
        self.records.read_header(b)
        retains_empty = self.is_last_of_producer(b) or plus(self.records.last_offset, 1) == self.emptied_end
        # Cleaner.checkBatchRetention: DELETE, or RETAIN_EMPTY where the batch is the last of its producer, so that its sequence
        # number survives the cleaning, or ends where the cleaned offsets end.
        if discards and not retains_empty:
            self.bytes_read += size
            return _DONE
        why = self.records.read(b, size, body, body_size)
        if why:
            return why
        gone[0] = gone[1] = gone[2] = 0
        if discards:
            kept = 0
        elif self.records.attributes & CONTROL_BIT:
            kept = self.keep_all()
        else:
            kept = self.decide(gone)
        if kept == 0:
            why = _DONE
            if retains_empty:
                why = self.put_emptied(b) if self.end_run(data, base) else _IRREGULAR
        else:
            why = self.put_kept(data, at, size, base, kept, sets_marker_horizon)
        if why == _DONE or why == _DEFLATE:
            self.bytes_read += size
            self.messages_read += self.records.count
            self.messages_written += kept
            self.superseded += gone[0]
            self.tombstones += gone[1]
            self.keyless += gone[2]
        return why

    cdef int64_t keep_all(self) noexcept nogil:
        cdef int64_t n
        for n in range(self.records.count):
            self.records.parsed[n].is_kept = True
        return self.records.count

    cdef int64_t decide(self, int64_t* gone) noexcept nogil:
        """Cleaner.shouldRetainRecord for each; how many stay."""
        cdef bint has_horizon = self.records.attributes & DELETE_HORIZON_BIT
        cdef bint drops_tombstones = has_horizon and self.now_ms >= self.records.base_timestamp
        cdef int64_t n, kept = 0, latest = self.keys.latest_offset
        cdef Parsed* p
        for n in range(self.records.count):
            p = self.records.parsed + n
            p.is_kept = True
            # Behind what the map was built of nothing is known to be newer: it stays, as Cleaner.shouldRetainRecord has it.
            if p.offset <= latest:
                if p.record.key_size < 0:
                    p.is_kept = False
                    gone[2] += 1
                elif p.offset < self.keys.find(p.high, p.low):
                    p.is_kept = False
                    gone[0] += 1
                elif p.record.value_size < 0 and drops_tombstones:
                    p.is_kept = False
                    gone[1] += 1
            kept += p.is_kept
        return kept

    cdef bint is_last_of_producer(self, Bytes b) noexcept nogil:
        cdef int64_t producer_id = be64(b + BATCH_PRODUCER_ID), low = 0, high = self.producer_count, middle
        cdef int64_t* row
        if producer_id <= -1:
            return False
        while low < high:
            middle = (low + high) // 2
            if self.producers[3 * middle] < producer_id:
                low = middle + 1
            else:
                high = middle
        row = self.producers + 3 * low
        if low == self.producer_count or row[0] != producer_id:
            return False
        # A producer without data has only its marker: then that of its epoch is kept (Cleaner.cleanInto, isBatchLastRecordOfProducer).
        if row[1] >= 0:
            return self.records.last_offset == row[1]
        return self.records.attributes & CONTROL_BIT and be16(b + BATCH_PRODUCER_EPOCH) == row[2]

    cdef int put_kept(self, Bytes data, int64_t at, int64_t size, int64_t base, int64_t kept,
                      bint sets_marker_horizon) noexcept nogil:
        cdef bint sets_horizon = sets_marker_horizon
        cdef int64_t n
        self.has_horizon = self.records.attributes & DELETE_HORIZON_BIT
        if not self.has_horizon:
            for n in range(self.records.count):
                if self.records.parsed[n].is_kept and self.records.parsed[n].record.value_size < 0:
                    sets_horizon = True
        else:
            sets_horizon = False
        if kept == self.records.count and not sets_horizon:
            return self.put_whole(data, at, size, base)
        # KIP-534: a tombstone, or a marker whose transaction is gone, may go delete.retention.ms after the first cleaning that
        # saw it. The batch remembers that time in its base timestamp.
        if sets_horizon:
            self.has_horizon, self.base_timestamp = True, plus(self.now_ms, self.delete_retention_ms)
        else:
            self.base_timestamp = self.records.base_timestamp
        if not self.end_run(data, base):
            return _IRREGULAR
        return self.build(data + at, kept)

    cdef int put_whole(self, Bytes data, int64_t at, int64_t size, int64_t base) noexcept nogil:
        """The batch as it is: one more of the run, or the first of one."""
        # What was dropped between them ends the run: its bytes are not consecutive any more.
        if self.run_stop != base + at and not self.end_run(data, base):
            return _IRREGULAR
        if not self.note(size, self.records.last_offset, self.records.max_timestamp, self.records.last_offset):
            return _IRREGULAR
        if self.run_start < 0:
            self.run_start = base + at
        self.run_stop = base + at + size
        self.bytes_written += size
        return _DONE

    cdef bint end_run(self, Bytes data, int64_t base) noexcept nogil:
        """A long run is told by its place, a short one is copied. All of it lies in data, which begins at byte `base`."""
        cdef int64_t start = self.run_start, stop = self.run_stop
        self.run_start = self.run_stop = -1
        if start < 0:
            return True
        if stop - start >= SMALLEST_COPY:
            return self.put_part(start, stop, 0)
        if not takes_more(&self.out, stop - start):
            return False
        memcpy(self.out.data + self.out.size, data + (start - base), stop - start)
        self.out.size += stop - start
        return self.put_part(-1, self.out.size - (stop - start), self.out.size)

    cdef bint put_part(self, int64_t a, int64_t b, int64_t c) noexcept nogil:
        """(start, stop) of the source, or -1 and (start, stop) of `out`; what follows on becomes one."""
        cdef int64_t* last
        if self.parts.size:
            last = <int64_t*> (self.parts.data + self.parts.size - PART_SIZE)
            if a < 0 and last[0] < 0 and last[2] == b:
                last[2] = c
                return True
        if not takes_more(&self.parts, PART_SIZE):
            return False
        last = <int64_t*> (self.parts.data + self.parts.size)
        last[0], last[1], last[2] = a, b, c
        self.parts.size += PART_SIZE
        return True

    # A batch built anew.

    cdef int put_emptied(self, Bytes b) noexcept nogil:
        """DefaultRecordBatch.writeEmptyHeader."""
        cdef int64_t start = self.out.size
        if not takes_more(&self.out, BATCH_SIZE):
            return _IRREGULAR
        self.kept, self.largest, self.base_timestamp = 0, self.records.last_offset, -1
        self.latest = self.records.max_timestamp
        self.has_horizon = False
        self.records.attributes &= ~CODEC_MASK
        return self.finish(b, start, BATCH_SIZE)

    cdef int build(self, Bytes b, int64_t kept) noexcept nogil:
        """MemoryRecords.buildRetainedRecordsInto."""
        cdef bint is_plain = self.records.attributes & CODEC_MASK == CODEC_NONE
        cdef Growing* to = &self.out if is_plain else &self.body_out
        cdef int64_t n, start = self.out.size
        if not self.may_build(b):
            return _REFERENCE
        self.kept, self.largest, self.latest = kept, -1, -1
        if not is_plain:
            to.size = 0
        elif not takes_more(to, BATCH_SIZE):
            return _IRREGULAR
        else:
            to.size += BATCH_SIZE
        if self.has_horizon and self.base_timestamp < 0:
            self.has_horizon = False
        for n in range(self.records.count):
            if self.records.parsed[n].is_kept and not self.has_horizon:
                self.base_timestamp = self.records.parsed[n].timestamp
                break
        for n in range(self.records.count):
            if self.records.parsed[n].is_kept and not self.put_record(to, self.records.parsed + n):
                if is_plain:
                    to.size = start
                return _REFERENCE
        if self.records.attributes & TIMESTAMP_TYPE_BIT:
            self.latest = self.records.max_timestamp
        if not is_plain:
            n = self.deflate_lz4(start)
            return _DEFLATE if n < 0 else self.finish(b, start, BATCH_SIZE + n)
        n = self.out.size - start
        self.out.size = start
        return self.finish(b, start, n)

    cdef int64_t deflate_lz4(self, int64_t start) noexcept nogil:
        """The records that are kept, compressed, behind the place of a header; their size, or -1 if that is not for us."""
        cdef int64_t at = start + BATCH_SIZE
        cdef size_t bound, done
        if self.lz4.compress == NULL or self.records.attributes & CODEC_MASK != CODEC_LZ4:
            return -1
        bound = self.lz4.bound(self.body_out.size, &self.lz4.preferences)
        if self.lz4.is_error(bound) or not takes_more(&self.out, BATCH_SIZE + <int64_t> bound):
            return -1
        done = self.lz4.compress(self.out.data + at, bound, self.body_out.data, self.body_out.size, &self.lz4.preferences)
        if self.lz4.is_error(done) or done < LZ4_HEADER:
            return -1
        memcpy(self.out.data + at, self.lz4_header, LZ4_HEADER)
        return <int64_t> done

    cdef bint may_build(self, Bytes b) noexcept nogil:
        """Whether there is nothing that MemoryRecordsBuilder refuses."""
        cdef int64_t n, previous = 0, producer_id = be64(b + BATCH_PRODUCER_ID)
        cdef bint is_first = True
        cdef Parsed* p
        if self.records.attributes & TRANSACTIONAL_BIT and producer_id == -1:
            return False
        if producer_id != -1:
            if be16(b + BATCH_PRODUCER_EPOCH) == -1:
                return False
            if be32(b + BATCH_BASE_SEQUENCE) < 0 and not self.records.attributes & CONTROL_BIT:
                return False
        for n in range(self.records.count):
            p = self.records.parsed + n
            if not p.is_kept:
                continue
            if p.timestamp < -1 or (not is_first and p.offset <= previous) or p.record.offset_delta < 0:
                return False
            is_first, previous = False, p.offset
        return True

    cdef bint put_record(self, Growing* to, Parsed* p) noexcept nogil:
        """DefaultRecord.writeTo."""
        cdef Record* r = &p.record
        cdef int64_t delta = minus(p.timestamp, self.base_timestamp), size
        if p.offset > self.largest:
            self.largest = p.offset
        if p.timestamp > self.latest:
            self.latest = p.timestamp
        self.headers.size = 0
        if not self.put_headers(r):
            return False
        size = 1 + zigzag_size(delta) + zigzag_size(r.offset_delta) + zigzag_size(r.key_size) + zigzag_size(r.value_size)
        size += max(r.key_size, 0) + max(r.value_size, 0) + self.headers.size
        if size > LARGEST_RELATIVE or not takes_more(to, size + RECORD_EXTRA):
            return False
        put_zigzag(to, size)
        to.data[to.size] = 0
        to.size += 1
        put_zigzag(to, delta)
        put_zigzag(to, r.offset_delta)
        put_field(to, r.key, r.key_size)
        put_field(to, r.value, r.value_size)
        memcpy(to.data + to.size, self.headers.data, self.headers.size)
        to.size += self.headers.size
        return True

    cdef bint put_headers(self, Record* r) noexcept nogil:
        """Their count and they themselves; False for a key that is not plain ASCII: what Java makes of it is the
        reference's."""
        cdef Cursor c
        cdef int64_t size = 0, i
        cdef int n
        cdef Bytes start
        if not takes_more(&self.headers, r.end - r.headers + (1 + <int64_t> r.header_count) * HEADER_EXTRA):
            return False
        c.at, c.end, c.broken = r.headers, r.end, False
        put_zigzag(&self.headers, r.header_count)
        for n in range(r.header_count):
            start = field(&c, &size)
            for i in range(size):
                if start[i] > 127:
                    return False
            put_field(&self.headers, start, size)
            start = field(&c, &size)
            put_field(&self.headers, start, size)
        return not c.broken

    cdef int finish(self, Bytes b, int64_t start, int64_t size) noexcept nogil:
        """The header, of a batch that lies at out[start:start + size] but for that; b: the one that it is made of."""
        cdef uint8_t* to = self.out.data + start
        cdef int attributes = self.records.attributes & (CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
        if not self.note(size, self.records.last_offset, self.latest, self.largest):
            return _IRREGULAR
        memcpy(to, b, BATCH_SIZE)
        put_number(to + BATCH_LENGTH, size - LOG_OVERHEAD, 4)
        put_number(to + BATCH_ATTRIBUTES, attributes | (DELETE_HORIZON_BIT if self.has_horizon else 0), 2)
        put_number(to + BATCH_BASE_TIMESTAMP, self.base_timestamp, 8)
        put_number(to + BATCH_MAX_TIMESTAMP, self.latest, 8)
        put_number(to + BATCH_RECORDS_COUNT, self.kept, 4)
        put_number(to + BATCH_CRC, crc32c_of(0, to + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM), 4)
        self.out.size = start + size
        self.bytes_written += size
        return _DONE if self.put_part(-1, start, start + size) else _IRREGULAR

    # The new segment (LogSegment.append).

    cdef bint note(self, int64_t size, int64_t last_offset, int64_t max_timestamp, int64_t max_offset) noexcept nogil:
        """A batch at the end of the new segment; False, and nothing has changed, if that cannot have it."""
        cdef Indexing due
        if not self.indexes.can_hold(max_offset) or not self.indexes.may_index(last_offset, max_timestamp, &due):
            return False
        self.indexes.index(last_offset, self.position, size, &due)
        self.position += size
        return self.position <= LARGEST_RELATIVE

cdef inline void put_zigzag(Growing* g, int64_t value) noexcept nogil:
    """A varint or varlong; there is room for it."""
    g.size = put_groups(g.data + g.size, zigzag(value)) - g.data

cdef inline void put_field(Growing* g, Bytes data, int64_t size) noexcept nogil:
    """A length and so many bytes; -1 for null."""
    put_zigzag(g, size)
    if size > 0:
        memcpy(g.data + g.size, data, size)
        g.size += size

cdef inline void put_number(uint8_t* to, int64_t value, int size) noexcept nogil:
    """Big-endian."""
    cdef int i
    for i in range(size):
        to[i] = <uint8_t> (<uint64_t> value >> 8 * (size - 1 - i))
