# Verification over runs of plain entries: format/batch_proof and format/succession are the references. What is not plain
# is left to them, with nothing of it taken. And whether entries of an index ascend: format/indexes is the
# reference.

cimport cython

# What the facts of an entry are, one behind the other (tests hold it to format.batch_proof.FACTS).
FACTS = ("position", "size", "magic", "first_offset", "last_offset", "partition_leader_epoch", "max_timestamp",
         "attributes", "producer_id", "producer_epoch", "base_sequence", "records_count", "marker", "coordinator_epoch")

cdef enum:
    F_POSITION
    F_SIZE
    F_MAGIC
    F_FIRST_OFFSET
    F_LAST_OFFSET
    F_LEADER_EPOCH
    F_MAX_TIMESTAMP
    F_ATTRIBUTES
    F_PRODUCER_ID
    F_PRODUCER_EPOCH
    F_BASE_SEQUENCE
    F_RECORDS_COUNT
    F_MARKER
    F_COORDINATOR_EPOCH
    FACTS_COUNT

cdef enum:                          # format.succession.Why
    W_DONE
    W_OFFSET
    W_OVERFLOW
    W_EPOCH
    W_INDEX
    W_INDEX_REACH
    W_TIME
    W_TIME_REACH
    W_SEQUENCE

cdef enum:
    KNOWN_ATTRIBUTES = 0x7F
    KNOWN_MESSAGE_ATTRIBUTES = 0x0F
    SMALLEST_BODY = 7               # of a record
    NULL_SIZES = 8                  # of a null key and a null value
    MOST_AT_ONCE = 4096
    MOST_PRODUCERS = 65536
    EPOCH_FIELDS = 6

cdef int64_t NOT_TOLD = <int64_t> 0x8000000000000000ULL
cdef int64_t MAX_LONG = 0x7FFFFFFFFFFFFFFFLL

# --- Entries by themselves -----------------------------------------------------------------------------------------

cdef bint plain_records(Job* job, Bytes b, Bytes data, int64_t size, int attributes) noexcept nogil:
    """Whether a batch's records are all there, in order, and go with their header."""
    cdef Cursor c
    cdef Record r
    cdef int64_t base_timestamp = be64(b + BATCH_BASE_TIMESTAMP), largest = 0, timestamp
    cdef int32_t count = be32(b + BATCH_RECORDS_COUNT), delta = be32(b + BATCH_LAST_OFFSET_DELTA), before = -1, n
    cdef bint stamped = attributes & TIMESTAMP_TYPE_BIT != 0
    c.at, c.end, c.broken = data, data + size, False
    for n in range(count):
        if not next_record(&c, &r) or r.offset_delta <= before or r.offset_delta > delta:
            return False
        before = r.offset_delta
        if attributes & CONTROL_BIT and (r.key_size < 4 or be16(r.key) < 0):
            return False
        timestamp = plus(base_timestamp, r.timestamp_delta)
        if n == 0:
            largest = timestamp
            if r.timestamp_delta != 0 and not attributes & (TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT):
                return False
        elif timestamp > largest:
            largest = timestamp
    return c.at == c.end and (stamped or count == 0 or largest == be64(b + BATCH_MAX_TIMESTAMP))

cdef int plain_batch(Job* job, Bytes b, int64_t size, bint deep, int64_t* f) noexcept nogil:
    """A batch that proves itself and contradicts itself in nothing: its facts."""
    cdef int attributes = be16(b + BATCH_ATTRIBUTES), codec = attributes & CODEC_MASK, why
    cdef int64_t delta = be32(b + BATCH_LAST_OFFSET_DELTA), count = be32(b + BATCH_RECORDS_COUNT)
    cdef int64_t body_size = size - BATCH_SIZE, producer_id = be64(b + BATCH_PRODUCER_ID), inflated_size = 0
    cdef int16_t producer_epoch = be16(b + BATCH_PRODUCER_EPOCH)
    cdef int32_t base_sequence = be32(b + BATCH_BASE_SEQUENCE)
    cdef bint control = attributes & CONTROL_BIT != 0
    cdef Bytes inflated = NULL
    cdef Marker marker
    if (attributes & ~KNOWN_ATTRIBUTES or codec > CODEC_ZSTD or delta < 0 or count < 0 or count > delta + 1
            or (count != 0) != (body_size != 0) or (codec == CODEC_NONE and body_size < SMALLEST_BODY * count)
            or (deep and count == 0 and codec != CODEC_NONE)
            or (control and codec != CODEC_NONE)):
        return _REFERENCE
    if producer_id <= -1:
        if attributes & TRANSACTIONAL_BIT:
            return _REFERENCE
    elif producer_epoch <= -1 or (base_sequence <= -1 and not control):
        return _REFERENCE
    f[F_MARKER] = f[F_COORDINATOR_EPOCH] = -1
    if control and producer_id > -1 and count:
        if not read_marker(b, size, &marker):
            return _REFERENCE
        f[F_MARKER], f[F_COORDINATOR_EPOCH] = 0 if marker.is_abort else 1, marker.coordinator_epoch
    if crc32c_of(0, b + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM) != <uint32_t> be32(b + BATCH_CRC):
        return _REFERENCE
    if deep and count:
        why = find_body(job, b + BATCH_SIZE, body_size, codec, 2, &inflated, &inflated_size)
        if why or not plain_records(job, b, inflated, inflated_size, attributes):
            return why if why else _REFERENCE
    f[F_FIRST_OFFSET] = be64(b + BATCH_BASE_OFFSET)
    f[F_LAST_OFFSET] = plus(f[F_FIRST_OFFSET], delta)
    f[F_LEADER_EPOCH], f[F_MAX_TIMESTAMP] = be32(b + BATCH_PARTITION_LEADER_EPOCH), be64(b + BATCH_MAX_TIMESTAMP)
    f[F_ATTRIBUTES], f[F_PRODUCER_ID], f[F_PRODUCER_EPOCH] = attributes, producer_id, producer_epoch
    f[F_BASE_SEQUENCE], f[F_RECORDS_COUNT] = base_sequence, count
    return _DONE

cdef int plain_message(Bytes b, int64_t size, int magic, bint deep, int64_t* f) noexcept nogil:
    """The facts of a sound message, plain or a wrapper; what is in a wrapper is for the reference."""
    cdef int attributes = b[LOG_OVERHEAD + MESSAGE0_ATTRIBUTES], codec = attributes & CODEC_MASK
    cdef int64_t head = MESSAGE0_SIZE if magic == 0 else MESSAGE1_SIZE
    cdef Inner m
    if size < LOG_OVERHEAD + head + NULL_SIZES or attributes & ~KNOWN_MESSAGE_ATTRIBUTES or codec > CODEC_LZ4:
        return _REFERENCE
    if deep and (codec != CODEC_NONE or not read_message(b, size, &m)):
        return _REFERENCE
    if (crc32_of(0, b + LOG_OVERHEAD + MESSAGE_CRC_COVERS_FROM, size - LOG_OVERHEAD - MESSAGE_CRC_COVERS_FROM)
            != <uint32_t> be32(b + LOG_OVERHEAD + MESSAGE0_CRC)):
        return _REFERENCE
    f[F_LAST_OFFSET] = be64(b + ENTRY_OFFSET)
    f[F_FIRST_OFFSET] = f[F_LAST_OFFSET] if codec == CODEC_NONE else NOT_TOLD
    f[F_MAX_TIMESTAMP] = -1 if magic == 0 else be64(b + LOG_OVERHEAD + MESSAGE1_TIMESTAMP)
    # The reference has a message's attributes as a signed byte; so small a number is the same.
    f[F_ATTRIBUTES], f[F_RECORDS_COUNT] = attributes, 1
    f[F_LEADER_EPOCH] = f[F_PRODUCER_ID] = f[F_PRODUCER_EPOCH] = f[F_BASE_SEQUENCE] = -1
    f[F_MARKER] = f[F_COORDINATOR_EPOCH] = -1
    return _DONE

cdef int plain_entry(Job* job, Bytes b, int64_t have, int64_t position, bint deep, int64_t* f) noexcept nogil:
    cdef int64_t size = 0
    cdef int why = regular_size(b, have, &size), magic
    if why:
        return why
    magic = b[FRAME_MAGIC]
    why = plain_batch(job, b, size, deep, f) if magic == 2 else plain_message(b, size, magic, deep, f)
    f[F_POSITION], f[F_SIZE], f[F_MAGIC] = position, size, magic
    return why

def prove(const uint8_t[::1] data not None, int64_t at, int64_t stop, int64_t base, int64_t[::1] rows not None,
          bint deep=False, const uint8_t[::1] body=None, Workspace work=None):
    """The facts of the plain entries that begin in data[at:stop], one behind the other: (at, how many, why).

    base: position of data[0] in its file. deep: whether records are looked at. why: DONE; FULL: no more room in rows;
    CUT_OFF: the entry at `at` is not whole in the data; BODY: call again with its records inflated; REFERENCE: it is
    not plain, as far as can be told here.
    """
    cdef Job job
    cdef Bytes b
    cdef int64_t have = data.shape[0], count = 0, room = rows.shape[0] // FACTS_COUNT
    cdef int why = _DONE
    if not 0 <= at <= have or room == 0:
        raise ValueError("at is to lie in the data, and rows to have room")
    if have == 0:
        return at, 0, (CUT_OFF if at < stop else DONE)
    if work is None:
        work = Workspace()
    work.take()
    job.scratch, job.body, job.body_size = work.scratch, NULL, 0
    if body is not None:
        job.body, job.body_size = (&body[0] if body.shape[0] else <Bytes> b""), body.shape[0]
    b = &data[0]
    with nogil:
        while at < stop:
            if count == room:
                why = _FULL
                break
            why = plain_entry(&job, b + at, have - at, plus(base, at), deep, &rows[FACTS_COUNT * count])
            if why:
                break
            at += rows[FACTS_COUNT * count + F_SIZE]
            count += 1
            job.body = NULL
    work.scratch, work.busy = job.scratch, False
    return at, count, why

# --- Entries one behind the other ----------------------------------------------------------------------------------

cdef struct Sequence:               # what is remembered of a producer
    int64_t id, gaps
    int32_t last_sequence
    int16_t epoch

cdef struct Ahead:                  # entries later than now: format.succession.Future
    int64_t entries, position, end, first_offset, last_offset, timestamp

def entries_in_order(const uint8_t[::1] data not None, bint times):
    """Whether the entries of an index are in ascending order: those of a time index, or of an offset index."""
    cdef int64_t at = 0, size = TIME_INDEX_SIZE if times else OFFSET_INDEX_SIZE, first, second
    cdef int64_t first_before = -1, second_before = 0 if times else -1
    cdef bint good = True
    cdef Bytes e
    if data.shape[0] < size:
        return True
    with nogil:
        while data.shape[0] - at >= size:
            e = &data[at]
            if times:
                first, second = be64(e + TIME_INDEX_TIMESTAMP), be32(e + TIME_INDEX_RELATIVE_OFFSET)
                good = first > first_before and second >= second_before
            else:
                first, second = be32(e + OFFSET_INDEX_RELATIVE_OFFSET), be32(e + OFFSET_INDEX_POSITION)
                good = first > first_before and second > second_before
            if not good:
                break
            first_before, second_before = first, second
            at += size
    return bool(good)

@cython.final
cdef class Succession:
    """format.succession.Succession: the same attributes and methods, and the same answers."""

    cdef public int64_t base_offset, now_ms, highest_offset, last_offset, before_offset, first_offset
    cdef public int64_t epoch, before_epoch, latest_epoch, largest_timestamp
    cdef public int64_t batches, records, bytes, gaps, magics, index_at, index_noted, time_at, time_noted
    cdef public bint sparse, has_producers, has_transactions
    cdef bytes offset_index, time_index
    cdef Bytes offsets
    cdef Bytes times
    cdef int64_t offsets_count, times_count
    cdef int64_t[FACTS_COUNT] last
    cdef Ahead ahead
    cdef Growing epochs
    cdef Sequence* producers
    cdef int64_t producers_count, producers_room
    cdef Numbers numbers

    def __cinit__(self, int64_t base_offset, int64_t now_ms, bytes offset_index not None, bytes time_index not None):
        if base_offset < 0:
            raise ValueError("a base offset below 0")
        self.base_offset, self.now_ms = base_offset, now_ms
        self.highest_offset = base_offset + 0x7FFFFFFF if base_offset <= MAX_LONG - 0x7FFFFFFF else MAX_LONG
        self.last_offset = self.before_offset = base_offset - 1
        self.epoch = self.before_epoch = self.latest_epoch = self.largest_timestamp = -1
        self.first_offset = NOT_TOLD
        self.index_noted = self.time_noted = -1
        self.offset_index, self.time_index = offset_index, time_index
        self.offsets, self.offsets_count = <Bytes> <const char*> offset_index, len(offset_index) // OFFSET_INDEX_SIZE
        self.times, self.times_count = <Bytes> <const char*> time_index, len(time_index) // TIME_INDEX_SIZE
        self.numbers.seed = mixed(<uint64_t> <size_t> <void*> self)

    def __dealloc__(self):
        free(self.epochs.data)
        free(self.producers)
        free(self.numbers.slots)

    @property
    def previous(self):
        return tuple([self.last[n] for n in range(FACTS_COUNT)]) if self.batches else ()

    @property
    def future(self):
        return (self.ahead.entries, self.ahead.position, self.ahead.end, self.ahead.first_offset,
                self.ahead.last_offset, self.ahead.timestamp)

    def follow(self, const int64_t[::1] rows not None, int64_t at, int64_t count):
        """(the number of the first entry that was not taken, why)."""
        cdef int why = W_DONE
        cdef int64_t stop
        if at < 0 or count < 0 or count > rows.shape[0] // FACTS_COUNT:
            raise ValueError("rows do not hold so many entries")
        stop = min(count, at + MOST_AT_ONCE)
        if not takes_more(&self.epochs, MOST_AT_ONCE * EPOCH_FIELDS * 8):
            raise MemoryError
        with nogil:
            while at < stop:
                why = self.take(&rows[FACTS_COUNT * at])
                if why:
                    break
                at += 1
        return at, why

    def fetch_epochs(self):
        """See the reference: one tuple wherever the leader epoch was another than before."""
        cdef int64_t* fields = <int64_t*> self.epochs.data
        cdef int64_t n, count = self.epochs.size // (EPOCH_FIELDS * 8)
        self.epochs.size = 0
        return [tuple([fields[EPOCH_FIELDS * n + m] for m in range(EPOCH_FIELDS)]) for n in range(count)]

    def last_sequence(self, int64_t producer_id):
        """The last sequence number of a producer in its epoch; -1 if that is not known."""
        cdef Sequence* p = self.find(producer_id)
        return p.last_sequence if p != NULL else -1

    def forget_producer(self, int64_t producer_id):
        """The next sequence number of this producer may be any."""
        cdef Sequence* p = self.find(producer_id)
        if p != NULL:
            p.last_sequence = -1

    cdef int take(self, const int64_t* f) noexcept nogil:
        cdef int64_t first = f[F_FIRST_OFFSET], gaps = self.gaps, relative
        cdef int why
        if first == NOT_TOLD and f[F_MAGIC] < 2:
            first = plus(self.last_offset, 1)
        # In the order of the reference: its callers mend what is told first, and ask again.
        if first <= self.last_offset or f[F_LAST_OFFSET] < first:
            return W_OFFSET
        if f[F_LAST_OFFSET] > self.highest_offset:
            return W_OVERFLOW
        if f[F_LEADER_EPOCH] < self.epoch and f[F_LEADER_EPOCH] != -1:
            return W_EPOCH
        relative = minus(first, self.base_offset)
        if self.index_at < self.offsets_count:
            why = self.check_index(f, relative)
            if why:
                return why
        if f[F_MAX_TIMESTAMP] > self.largest_timestamp:
            why = self.check_time(f, relative)
            if why:
                return why
        gaps += self.batches > 0 and first != plus(self.last_offset, 1)
        if f[F_PRODUCER_ID] > -1 and not self.take_producer(f, gaps):
            return W_SEQUENCE
        self.commit(f, first, gaps)
        return W_DONE

    cdef inline int check_index(self, const int64_t* f, int64_t relative) noexcept nogil:
        cdef Bytes e = self.offsets + OFFSET_INDEX_SIZE * self.index_at
        cdef int64_t position = be32(e + OFFSET_INDEX_POSITION)
        if position > f[F_POSITION]:
            return W_DONE
        if position < f[F_POSITION] or be32(e + OFFSET_INDEX_RELATIVE_OFFSET) < relative:
            return W_INDEX
        return W_INDEX_REACH if self.index_noted >= (relative if relative > 0 else 0) else W_DONE

    cdef inline int check_time(self, const int64_t* f, int64_t relative) noexcept nogil:
        cdef Bytes e = self.times + TIME_INDEX_SIZE * self.time_at
        cdef int64_t highest = minus(self.last_offset, self.base_offset), timestamp, offset
        if self.time_noted > (highest if highest > -1 else -1):
            return W_TIME_REACH
        if self.time_at >= self.times_count:
            return W_DONE
        timestamp, offset = be64(e + TIME_INDEX_TIMESTAMP), be32(e + TIME_INDEX_RELATIVE_OFFSET)
        if timestamp > f[F_MAX_TIMESTAMP]:
            return W_DONE
        if timestamp == f[F_MAX_TIMESTAMP] and relative <= offset and (
                f[F_MAGIC] < 2 or offset <= minus(f[F_LAST_OFFSET], self.base_offset)):
            return W_DONE
        return W_TIME

    cdef inline void commit(self, const int64_t* f, int64_t first, int64_t gaps) noexcept nogil:
        cdef Bytes e
        cdef int64_t* run
        self.before_offset, self.before_epoch = self.last_offset, self.epoch
        self.last_offset, self.gaps = f[F_LAST_OFFSET], gaps
        memcpy(self.last, f, FACTS_COUNT * 8)
        if self.batches == 0 or f[F_LEADER_EPOCH] != self.latest_epoch:
            self.latest_epoch = f[F_LEADER_EPOCH]
            run = <int64_t*> (self.epochs.data + self.epochs.size)      # room was made
            run[0], run[1], run[2] = self.latest_epoch, first, self.before_offset
            run[3], run[4], run[5] = f[F_POSITION], self.batches, f[F_MAGIC]
            self.epochs.size += EPOCH_FIELDS * 8
        if f[F_LEADER_EPOCH] > self.epoch:
            self.epoch = f[F_LEADER_EPOCH]
        if self.index_at < self.offsets_count:
            e = self.offsets + OFFSET_INDEX_SIZE * self.index_at
            if be32(e + OFFSET_INDEX_POSITION) == f[F_POSITION]:
                self.index_at, self.index_noted = self.index_at + 1, be32(e + OFFSET_INDEX_RELATIVE_OFFSET)
        if f[F_MAX_TIMESTAMP] > self.largest_timestamp:
            self.largest_timestamp = f[F_MAX_TIMESTAMP]
            if self.time_at < self.times_count:
                e = self.times + TIME_INDEX_SIZE * self.time_at
                if be64(e + TIME_INDEX_TIMESTAMP) == f[F_MAX_TIMESTAMP]:
                    self.time_at, self.time_noted = self.time_at + 1, be32(e + TIME_INDEX_RELATIVE_OFFSET)
        if f[F_MAX_TIMESTAMP] > self.now_ms:
            self.note_ahead(f, first)
        if self.batches == 0:
            self.first_offset = first
        self.magics |= (<int64_t> 1) << f[F_MAGIC]
        if f[F_MAGIC] == 2 and f[F_RECORDS_COUNT] <= minus(f[F_LAST_OFFSET], f[F_FIRST_OFFSET]):
            self.sparse = True
        if f[F_PRODUCER_ID] > -1:
            self.has_producers = True
            if f[F_ATTRIBUTES] & TRANSACTIONAL_BIT:
                self.has_transactions = True
        self.batches += 1
        self.records = plus(self.records, f[F_RECORDS_COUNT])
        self.bytes = plus(self.bytes, f[F_SIZE])

    cdef void note_ahead(self, const int64_t* f, int64_t first) noexcept nogil:
        cdef Ahead* a = &self.ahead
        if a.entries == 0:
            a.position, a.first_offset = f[F_POSITION], first
        a.entries += 1
        a.end, a.last_offset = plus(f[F_POSITION], f[F_SIZE]), f[F_LAST_OFFSET]
        if f[F_MAX_TIMESTAMP] > a.timestamp:
            a.timestamp = f[F_MAX_TIMESTAMP]

    cdef bint take_producer(self, const int64_t* f, int64_t gaps) noexcept nogil:
        cdef Sequence* p = self.find(f[F_PRODUCER_ID])
        cdef int32_t base = <int32_t> f[F_BASE_SEQUENCE]
        if p == NULL:
            if self.producers_count >= MOST_PRODUCERS or not has_room_for_row(
                    &self.numbers, <void**> &self.producers, sizeof(Sequence), self.producers_count, &self.producers_room):
                return True
            p = &self.producers[self.producers_count]
            note_number(&self.numbers, f[F_PRODUCER_ID], self.producers_count)
            p.id, p.epoch, p.last_sequence, p.gaps = f[F_PRODUCER_ID], <int16_t> f[F_PRODUCER_EPOCH], -1, gaps
            self.producers_count += 1
        if p.epoch != f[F_PRODUCER_EPOCH]:
            p.epoch, p.last_sequence = <int16_t> f[F_PRODUCER_EPOCH], -1
        if f[F_MAGIC] >= 2 and f[F_ATTRIBUTES] & CONTROL_BIT:
            return True
        if p.last_sequence != -1 and p.gaps == gaps and base > 0 and not is_in_sequence(p.last_sequence, base):
            return False
        p.last_sequence, p.gaps = -1, gaps
        if base >= 0:
            p.last_sequence = increment_sequence(base, <int32_t> minus(f[F_LAST_OFFSET], f[F_FIRST_OFFSET]))
        return True

    cdef inline Sequence* find(self, int64_t producer_id) noexcept nogil:
        """What is remembered of a producer; NULL: nothing."""
        cdef int64_t n = number_of(&self.numbers, <Bytes> self.producers, sizeof(Sequence), producer_id)
        return &self.producers[n] if n >= 0 else NULL
