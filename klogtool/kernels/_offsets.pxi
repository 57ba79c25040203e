# Commits of groups, record by record (format/commit_replay is the reference).

cdef enum:
    FIRST_COMMITS = 256
    MOST_WAITING = 16               # records that are put together, so that memory is asked for before it is needed
    COMMIT_TYPE_BYTES = 2
    MOST_COMMIT_TYPE = 1            # LegacyOffsetCommitKey 0, OffsetCommitKey 1
    PLAIN_COMMIT_VERSION = 3        # OffsetCommitValue: those up to here have no tagged fields
    EPOCH_COMMIT_VERSION = 3
    EXPIRE_COMMIT_VERSION = 1
    MOST_RECORD_TYPE = 63           # of a key; releases up to 4.4 have 23, and bytes of a text are far above

cdef int64_t NO_ROW = -1

cdef struct Commit:                 # the last record of a key, or of a key and a producer while its transaction is open
    uint64_t high, low              # of the hash of the key, and of the producer
    int64_t offset, timestamp       # offset: -1 while there is none
    uint8_t* data                   # key and value
    int64_t key_size, value_size, room      # value_size: -1 for a tombstone
    int64_t main, next_one          # of a producer's: the row of the key alone; the producer's next open row
    int64_t producer_id
    bint is_open

cdef struct WaitingCommit:          # a record that is to be put; its bytes stay where they are until then
    uint64_t high, low
    Bytes key
    Bytes value
    int64_t key_size, value_size, offset, timestamp, producer_id

cdef struct Committer:              # a producer; its open rows, one behind the other
    int64_t id, first_row

cdef inline int64_t end_of_commit_key(Bytes key, int64_t size) noexcept nogil:
    """Where Kafka ends reading it; what cannot be read counts as a whole."""
    cdef int64_t at = COMMIT_TYPE_BYTES, length
    cdef int i
    for i in range(2):
        if size - at < 2:
            return size
        length = be16(key + at)
        if length < 0 or length > size - at - 2:
            return size
        at += 2 + length
    return at + 4 if size - at >= 4 else size

cdef inline bint is_plain_commit(Record* r) noexcept nogil:
    """format.commit_replay.is_plain: lengths fit exactly, at versions that have nothing but these fields."""
    cdef int64_t at = COMMIT_TYPE_BYTES, length
    cdef int i, version
    if r.key_size < COMMIT_TYPE_BYTES or not 0 <= be16(r.key) <= MOST_COMMIT_TYPE:
        return False
    for i in range(2):
        if r.key_size - at < 2:
            return False
        length = be16(r.key + at)
        if length < 0 or length > r.key_size - at - 2:
            return False
        at += 2 + length
    if r.key_size - at != 4:
        return False
    if r.value_size < 0:
        return True
    version = be16(r.value) if r.value_size >= 2 else -1
    if not 0 <= version <= PLAIN_COMMIT_VERSION or (version and not be16(r.key)):
        return False
    at = 2 + 8 + (4 if version == EPOCH_COMMIT_VERSION else 0)
    if r.value_size - at < 2:
        return False
    length = be16(r.value + at)
    return length >= 0 and at + 2 + length + 8 + (8 if version == EXPIRE_COMMIT_VERSION else 0) == r.value_size

@cython.final
cdef class CommitReplay:
    """format.commit_replay.CommitReplay, and `take`, which goes over batches of magic 2. kept_type: its KeptCommit.

    secret: 16 bytes, for the hash of keys.
    """

    cdef readonly int64_t at_ms, log_start_offset, clean_end
    cdef public int64_t next_offset, gap_end, gap_timestamp, latest_timestamp, clean_timestamp
    cdef public int64_t batches, records, foreign
    cdef public bint keeps_odd
    cdef object kept_type
    cdef list odd
    cdef uint64_t k0, k1
    cdef Commit* rows
    cdef int64_t count, room, slot_count, committers_count, committers_room
    cdef int64_t* slots
    cdef Committer* committers
    cdef Numbers numbers
    cdef WaitingCommit[MOST_WAITING] waiting
    cdef int waiting_count
    cdef bint has_no_memory

    def __cinit__(self, int64_t at_ms, int64_t log_start_offset, int64_t clean_end, bytes secret not None, kept_type):
        cdef Bytes key = secret
        if len(secret) != SECRET_SIZE:
            raise ValueError("a secret has 16 bytes")
        self.at_ms, self.log_start_offset, self.clean_end, self.kept_type = at_ms, log_start_offset, clean_end, kept_type
        self.next_offset = self.gap_end = self.gap_timestamp = self.latest_timestamp = self.clean_timestamp = -1
        self.k0, self.k1 = le64(key), le64(key + 8)
        self.odd, self.keeps_odd = [], True
        self.rows, self.slots, self.committers = NULL, NULL, NULL
        memset(&self.numbers, 0, sizeof(Numbers))
        self.numbers.seed = self.k0

    def __dealloc__(self):
        cdef int64_t n
        for n in range(self.count):
            free(self.rows[n].data)
        free(self.rows)
        free(self.slots)
        free(self.committers)
        free(self.numbers.slots)

    # What Python calls.

    def take(self, const uint8_t[::1] data not None, int64_t at, int64_t stop, Workspace work not None,
             const uint8_t[::1] body=None):
        """Batches that begin in data[at:stop]: (where the next one begins, why it was not taken).

        body: the records of the first one, inflated.
        """
        cdef int64_t have = data.shape[0], size = 0, body_size = 0
        cdef int why = _DONE
        cdef Bytes b
        cdef Bytes inside = NULL
        if not 0 <= at <= have:
            raise ValueError("at is to lie in the data")
        if have == 0:
            return at, (CUT_OFF if at < stop else DONE)
        if body is not None:
            inside, body_size = (&body[0] if body.shape[0] else <Bytes> b""), body.shape[0]
        b = &data[0]
        work.take()
        with nogil:
            while at < stop:
                why = regular_size(b + at, have - at, &size)
                if why == _DONE:
                    why = self.take_batch(b + at, size, inside, body_size, &work.scratch)
                if why:
                    break
                inside = NULL
                at += size
            self.put_waiting()
        work.busy = False
        if self.has_no_memory:
            raise MemoryError
        return at, why

    def put(self, const uint8_t[::1] key not None, const uint8_t[::1] value, int64_t offset, int64_t timestamp,
            int64_t producer_id):
        """A record that was read elsewhere."""
        cdef Bytes k = &key[0] if key.shape[0] else <Bytes> &self.k0
        cdef Bytes v = NULL
        cdef int64_t size = -1
        if value is not None:
            v, size = (&value[0] if value.shape[0] else <Bytes> &self.k0), value.shape[0]
        if timestamp <= self.at_ms and self.is_commit(k, key.shape[0]):
            self.wait(k, key.shape[0], v, size, offset, timestamp, producer_id)
            self.put_waiting()
            if self.has_no_memory:
                raise MemoryError

    def end_txn(self, int64_t producer_id, bint is_commit, int64_t timestamp):
        """A marker that was read elsewhere."""
        self.end_one(producer_id, is_commit, timestamp)

    def note_batch(self, int64_t base_offset, int64_t last_offset, int64_t count, int64_t max_timestamp):
        """A batch that was read elsewhere."""
        self.note(base_offset, last_offset, count, max_timestamp)

    def note_odd(self, int64_t offset, key, value):
        """A record that was read elsewhere, and is no plain commit."""
        if self.keeps_odd:
            self.odd.append((offset, key, value))

    def take_odd(self):
        """Those since the last call, each as (offset, key, value)."""
        found, self.odd = self.odd, []
        return found

    cdef void keep_odd(self, int64_t offset, Record* r) noexcept with gil:
        key = None if r.key_size < 0 else PyBytes_FromStringAndSize(<const char*> r.key, r.key_size)
        value = None if r.value_size < 0 else PyBytes_FromStringAndSize(<const char*> r.value, r.value_size)
        self.odd.append((offset, key, value))

    def committed(self):
        """The last record of each key that counts."""
        return [self.kept(&self.rows[n]) for n in range(self.count)
                if self.rows[n].main == NO_ROW and self.rows[n].offset >= 0]

    def pending(self):
        """The records of open transactions that would count if these were committed."""
        return [self.kept(&self.rows[n]) for n in range(self.count)
                if self.rows[n].is_open and self.rows[n].offset > self.rows[self.rows[n].main].offset]

    cdef object kept(self, Commit* c):
        cdef const char* data = <const char*> c.data
        key = PyBytes_FromStringAndSize(data, c.key_size)
        value = None if c.value_size < 0 else PyBytes_FromStringAndSize(data + c.key_size, c.value_size)
        return self.kept_type(key, value, c.offset, c.timestamp, c.producer_id if c.main != NO_ROW else -1)

    # One batch.

    cdef int take_batch(self, Bytes b, int64_t size, Bytes body, int64_t body_size, Scratch* scratch) noexcept nogil:
        cdef int64_t base_offset = be64(b), delta = be32(b + BATCH_LAST_OFFSET_DELTA)
        cdef int64_t count = be32(b + BATCH_RECORDS_COUNT), timestamp = be64(b + BATCH_MAX_TIMESTAMP)
        cdef int attributes = be16(b + BATCH_ATTRIBUTES), codec = attributes & CODEC_MASK
        cdef Marker marker
        if b[FRAME_MAGIC] != 2 or base_offset < 0 or delta < 0 or count < 0 or codec > CODEC_ZSTD:
            return _REFERENCE
        if base_offset > MAX_LONG - delta - 1:
            return _REFERENCE
        if crc32c_of(0, b + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM) != <uint32_t> be32(b + BATCH_CRC):
            return _REFERENCE
        if self.batches and base_offset < self.next_offset:
            return _REFERENCE  # it tells of offsets that go back
        if base_offset + delta < self.log_start_offset:
            return _DONE
        if attributes & CONTROL_BIT:
            if not read_marker(b, size, &marker) or marker.timestamp < 0:
                return _REFERENCE
            self.put_waiting()
            self.end_one(be64(b + BATCH_PRODUCER_ID), not marker.is_abort, marker.timestamp)
        else:
            if body == NULL:
                body, body_size = b + BATCH_SIZE, size - BATCH_SIZE
                if codec != CODEC_NONE and count:
                    body_size = inflated_commits(body, body_size, codec, scratch)
                    if body_size < 0:
                        return _BODY
                    body = scratch.data
            if count and not self.take_records(b, body, body_size, attributes, count):
                return _REFERENCE
            if body != b + BATCH_SIZE:
                self.put_waiting()
        self.note(base_offset, base_offset + delta, count, timestamp)
        return _DONE

    cdef bint take_records(self, Bytes b, Bytes body, int64_t size, int attributes, int64_t count) noexcept nogil:
        """All records of a batch, or none; False: the reference is to look."""
        cdef int64_t base_offset = be64(b), base_timestamp = be64(b + BATCH_BASE_TIMESTAMP)
        cdef int64_t max_timestamp = be64(b + BATCH_MAX_TIMESTAMP), producer_id = be64(b + BATCH_PRODUCER_ID)
        cdef int64_t timestamp, n
        cdef bint is_stamped = attributes & TIMESTAMP_TYPE_BIT != 0
        cdef int applies
        cdef Cursor c
        cdef Record r
        for applies in range(2):
            c.at, c.end, c.broken = body, body + size, False
            for n in range(count):
                if not next_record(&c, &r):
                    return False
                timestamp = max_timestamp if is_stamped else plus(base_timestamp, r.timestamp_delta)
                if timestamp < 0 or r.offset_delta < 0:
                    return False
                if applies:
                    self.take_record(&r, base_offset + r.offset_delta, timestamp, producer_id)
            if c.at != c.end:
                return False
        return True

    cdef inline void take_record(self, Record* r, int64_t offset, int64_t timestamp, int64_t producer_id) noexcept nogil:
        if self.keeps_odd and not is_plain_commit(r):
            self.keep_odd(offset, r)
        if r.key_size < COMMIT_TYPE_BYTES or not 0 <= be16(r.key) <= MOST_RECORD_TYPE:
            self.foreign += 1
        elif timestamp <= self.at_ms and self.is_commit(r.key, r.key_size):
            self.wait(r.key, r.key_size, r.value, r.value_size, offset, timestamp, producer_id)

    cdef inline bint is_commit(self, Bytes key, int64_t size) noexcept nogil:
        return size >= COMMIT_TYPE_BYTES and 0 <= be16(key) <= MOST_COMMIT_TYPE

    cdef inline void note(self, int64_t base_offset, int64_t last_offset, int64_t count, int64_t timestamp) noexcept nogil:
        if base_offset > self.next_offset:
            self.gap_end = base_offset
        if base_offset == self.gap_end:
            self.gap_timestamp = timestamp
        if count <= minus(last_offset, base_offset):
            self.gap_end = plus(last_offset, 1)
        self.next_offset = plus(last_offset, 1)
        self.batches += 1
        self.records = plus(self.records, count)
        if timestamp > self.latest_timestamp:
            self.latest_timestamp = timestamp
        if base_offset < self.clean_end and timestamp > self.clean_timestamp:
            self.clean_timestamp = timestamp

    # One record.

    cdef inline void wait(self, Bytes key, int64_t key_size, Bytes value, int64_t value_size, int64_t offset,
                          int64_t timestamp, int64_t producer_id) noexcept nogil:
        """A record of a commit's key, to be put with others. Its slot is asked for meanwhile."""
        cdef WaitingCommit* w = &self.waiting[self.waiting_count]
        w.key, w.key_size, w.value, w.value_size = key, end_of_commit_key(key, key_size), value, value_size
        w.offset, w.timestamp, w.producer_id = offset, timestamp, producer_id
        siphash(key + COMMIT_TYPE_BYTES, w.key_size - COMMIT_TYPE_BYTES, self.k0, self.k1, 1, 3, &w.high, &w.low)
        if self.slot_count:
            fetch_line(<Bytes> &self.slots[w.high & <uint64_t> (self.slot_count - 1)])
        self.waiting_count += 1
        if self.waiting_count == MOST_WAITING:
            self.put_waiting()

    cdef void put_waiting(self) noexcept nogil:
        """All that wait, in their order. Rows and their bytes are asked for before the first is put."""
        cdef int64_t[MOST_WAITING] rows
        cdef int64_t row
        cdef int n
        for n in range(self.waiting_count if self.slot_count else 0):
            rows[n] = self.slots[self.waiting[n].high & <uint64_t> (self.slot_count - 1)] - 1
            if rows[n] >= 0:
                fetch_line(<Bytes> &self.rows[rows[n]])
                fetch_line(<Bytes> &self.rows[rows[n]] + sizeof(Commit) - 1)
        for n in range(self.waiting_count if self.slot_count else 0):
            row = rows[n]
            if row >= 0 and self.rows[row].data != NULL:
                fetch_line(self.rows[row].data)
                fetch_line(self.rows[row].data + self.rows[row].room - 1)
        for n in range(self.waiting_count):
            if not self.put_one(&self.waiting[n]):
                self.has_no_memory = True
        self.waiting_count = 0

    cdef inline bint put_one(self, WaitingCommit* w) noexcept nogil:
        """False: there is no memory for it."""
        cdef int64_t main = self.row_of(w.high, w.low), row
        if main < 0:
            return False
        if w.producer_id == -1 or w.value_size < 0:
            return self.keep(&self.rows[main], w)
        row = self.row_of(w.high ^ mixed(<uint64_t> w.producer_id ^ self.k0),
                          w.low ^ mixed(<uint64_t> w.producer_id ^ self.k1))
        if row < 0 or not self.open_row(row, main, w.producer_id):
            return False
        return self.keep(&self.rows[row], w)

    cdef inline bint keep(self, Commit* c, WaitingCommit* w) noexcept nogil:
        cdef int64_t needed = w.key_size + (w.value_size if w.value_size > 0 else 0)
        cdef void* grown
        if needed > c.room:
            grown = realloc(c.data, needed + needed // 8)
            if grown == NULL:
                return False
            c.data, c.room = <uint8_t*> grown, needed + needed // 8
        memcpy(c.data, w.key, w.key_size)
        if w.value_size > 0:
            memcpy(c.data + w.key_size, w.value, w.value_size)
        c.key_size, c.value_size, c.offset, c.timestamp = w.key_size, w.value_size, w.offset, w.timestamp
        return True

    cdef bint open_row(self, int64_t row, int64_t main, int64_t producer_id) noexcept nogil:
        """A row of a producer becomes one of its transaction that is open."""
        cdef Commit* c = &self.rows[row]
        cdef int64_t n
        if c.is_open:
            return True
        n = self.committer_of(producer_id)
        if n < 0:
            return False
        c.main, c.producer_id, c.is_open = main, producer_id, True
        c.next_one, self.committers[n].first_row = self.committers[n].first_row, row
        return True

    cdef void end_one(self, int64_t producer_id, bint is_commit, int64_t timestamp) noexcept nogil:
        """A transaction's rows; what is committed goes over to the rows of the keys."""
        cdef int64_t n, row
        cdef Commit* c
        cdef Commit* main
        if timestamp > self.at_ms:
            return
        n = number_of(&self.numbers, <Bytes> self.committers, sizeof(Committer), producer_id)
        if n < 0:
            return
        row, self.committers[n].first_row = self.committers[n].first_row, NO_ROW
        while row != NO_ROW:
            c = &self.rows[row]
            main = &self.rows[c.main]
            if is_commit and c.offset > main.offset:
                c.data, main.data = main.data, c.data
                c.room, main.room = main.room, c.room
                main.key_size, main.value_size, main.offset, main.timestamp = c.key_size, c.value_size, c.offset, c.timestamp
            free(c.data)
            c.data, c.room, c.is_open, c.offset = NULL, 0, False, -1
            row = c.next_one

    # Rows by hash.

    cdef inline int64_t row_of(self, uint64_t high, uint64_t low) noexcept nogil:
        """The row with this hash, a new one if there is none; -1: there is no memory for it."""
        cdef uint64_t mask, at
        cdef Commit* c
        if 2 * (self.count + 1) > self.slot_count and not self.has_slots():
            return -1
        mask = <uint64_t> self.slot_count - 1
        at = high & mask
        while self.slots[at]:
            c = &self.rows[self.slots[at] - 1]
            if c.high == high and c.low == low:
                return self.slots[at] - 1
            at = (at + 1) & mask
        if self.count == self.room and not self.has_rows():
            return -1
        c = &self.rows[self.count]
        memset(c, 0, sizeof(Commit))
        c.high, c.low, c.offset, c.main, c.next_one = high, low, -1, NO_ROW, NO_ROW
        self.count += 1
        self.slots[at] = self.count
        return self.count - 1

    cdef bint has_rows(self) noexcept nogil:
        cdef int64_t room = 2 * self.room if self.room else FIRST_COMMITS
        cdef void* grown = realloc(self.rows, room * sizeof(Commit))
        if grown == NULL:
            return False
        self.rows, self.room = <Commit*> grown, room
        return True

    cdef bint has_slots(self) noexcept nogil:
        cdef int64_t n, slot_count = 2 * self.slot_count if self.slot_count else 2 * FIRST_COMMITS
        cdef uint64_t at
        cdef int64_t* slots = <int64_t*> malloc(slot_count * sizeof(int64_t))
        if slots == NULL:
            return False
        memset(slots, 0, slot_count * sizeof(int64_t))
        for n in range(self.count):
            at = self.rows[n].high & <uint64_t> (slot_count - 1)
            while slots[at]:
                at = (at + 1) & <uint64_t> (slot_count - 1)
            slots[at] = n + 1
        free(self.slots)
        self.slots, self.slot_count = slots, slot_count
        return True

    cdef int64_t committer_of(self, int64_t producer_id) noexcept nogil:
        """The number of a producer, a new one if it has none; -1: there is no memory for it."""
        cdef int64_t n = number_of(&self.numbers, <Bytes> self.committers, sizeof(Committer), producer_id)
        if n >= 0:
            return n
        n = self.committers_count
        if not has_room_for_row(&self.numbers, <void**> &self.committers, sizeof(Committer), n, &self.committers_room):
            return -1
        self.committers[n].id, self.committers[n].first_row = producer_id, NO_ROW
        self.committers_count += 1
        note_number(&self.numbers, producer_id, n)
        return n

cdef inline int64_t inflated_commits(Bytes data, int64_t size, int codec, Scratch* scratch) noexcept nogil:
    """Into the scratch; -1: by the caller."""
    if codec == CODEC_LZ4:
        return lz4_frame(data, size, 2, scratch)
    if codec == CODEC_ZSTD:
        return zstd_frame(data, size, scratch)
    return snappy_frame(data, size, scratch) if codec == CODEC_SNAPPY else -1
