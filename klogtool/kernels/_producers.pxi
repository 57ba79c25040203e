# Producers and transactions in one walk over headers (format/producer_replay is the reference).

cdef enum:
    _REPLAY_MARK = 1                       # producer_replay.Stop
    _REPLAY_IMPOSSIBLE = 2
    _REPLAY_FULL = 3
    _REPLAY_UNSURE = 4
    NO_SUCH = -1
    MOST_SEEN = 1 << 18
    MOST_OPEN_TXNS = 1 << 16
    MOST_ENDED = 1 << 16
    ABORTED_FIELDS = 9
    LONE_FIELDS = 3
    LONG_SIZE = 8

cdef struct Seen:                   # producer_replay._Producer
    int64_t id, last_timestamp, last_offset, txn_first_offset
    int64_t before, last, last_marker, visible_from, visible_to
    int32_t coordinator_epoch, last_sequence, offset_delta
    int16_t epoch
    bint is_open, is_doubtful

cdef struct OpenTxn:
    int64_t first_offset, producer_id, number

cdef inline bint put_longs(Growing* g, const int64_t* values, int count) noexcept nogil:
    """A row of numbers, as the machine has them."""
    if not takes_more(g, count * LONG_SIZE):
        return False
    memcpy(g.data + g.size, values, count * LONG_SIZE)
    g.size += count * LONG_SIZE
    return True

cdef inline bint txn_before(OpenTxn* txn, int64_t first_offset, int64_t producer_id) noexcept nogil:
    if txn.first_offset != first_offset:
        return txn.first_offset < first_offset
    return txn.producer_id < producer_id

@cython.final
cdef class ProducerReplay:
    """format.producer_replay.ProducerReplay; `take` stops with UNSURE in front of a marker that the reference is to read.

    aborted_type, entry_type: what transactions and producers are told as.
    """

    cdef readonly int64_t log_start_offset
    cdef object aborted_type, entry_type
    cdef Seen* seen                 # in the order in which they came up
    cdef int64_t seen_count, seen_room
    cdef int64_t* slots             # a hash table: number of a producer and 1, or 0
    cdef int64_t slot_count
    cdef uint64_t seed
    cdef OpenTxn* txns              # by first offset
    cdef int64_t txn_count, txn_room
    cdef Growing aborted, lone

    def __cinit__(self, int64_t log_start_offset, aborted_type, entry_type):
        self.log_start_offset, self.aborted_type, self.entry_type = log_start_offset, aborted_type, entry_type
        self.seen, self.slots, self.txns = NULL, NULL, NULL
        self.seen_count = self.seen_room = self.slot_count = self.txn_count = self.txn_room = 0
        memset(&self.aborted, 0, sizeof(Growing))
        memset(&self.lone, 0, sizeof(Growing))
        self.seed = <uint64_t> <size_t> <void*> self     # not to be known by who chooses producer ids

    def __dealloc__(self):
        free(self.seen)
        free(self.slots)
        free(self.txns)
        free(self.aborted.data)
        free(self.lone.data)

    def take(self, const uint8_t[::1] data not None, int64_t at, int64_t cut, mark):
        """Take the entries of data[at:cut], which are whole and sound: (where it stopped, why)."""
        cdef int64_t size, length, stop_at = 0
        cdef bint has_mark = mark is not None
        cdef int why = _DONE
        cdef Bytes b
        if not 0 <= at <= cut <= data.shape[0]:
            raise ValueError("at and cut are to lie in the data")
        if at == cut:
            return at, _DONE
        if has_mark:
            stop_at = mark
        b = &data[0]
        with nogil:
            while cut - at > HEADER_SIZE_UP_TO_MAGIC:
                length = be32(b + at + FRAME_LENGTH)
                if length < MIN_LENGTH or length > cut - at - LOG_OVERHEAD:
                    break
                size = length + LOG_OVERHEAD
                if b[at + FRAME_MAGIC] == 2 and size >= BATCH_SIZE:
                    if has_mark and be64(b + at) >= stop_at:
                        why = _REPLAY_MARK
                    elif be64(b + at + BATCH_PRODUCER_ID) > -1:
                        why = self.take_batch(b + at, size)
                    if why:
                        break
                at += size
        return at, why

    def end_txn(self, int64_t producer_id, int16_t epoch, int64_t base_offset, int64_t last_offset, bint is_abort,
                int32_t coordinator_epoch, int64_t timestamp):
        """A marker that was read elsewhere. Raises MemoryError if there is no room for what it tells."""
        cdef Marker marker
        marker.is_abort, marker.coordinator_epoch, marker.timestamp = is_abort, coordinator_epoch, timestamp
        if self.take_marker(self.find_number(producer_id), producer_id, epoch, base_offset, last_offset, &marker):
            raise MemoryError

    def lose_track(self):
        """Part of the log is missing here: transactions that are open may have ended in it."""
        cdef int64_t i
        for i in range(self.txn_count):
            self.seen[self.txns[i].number].is_doubtful = True

    def fetch_aborted(self):
        """Transactions that were aborted since this was asked last."""
        cdef int64_t* row = <int64_t*> self.aborted.data
        cdef int64_t count = self.aborted.size // (ABORTED_FIELDS * LONG_SIZE)
        cdef list found = []
        for _ in range(count):
            found.append(self.aborted_type(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], bool(row[8])))
            row += ABORTED_FIELDS
        self.aborted.size = 0
        return found

    def fetch_lone_aborts(self):
        """(offset, producer id, what it wrote or marked before) of ABORT markers without a transaction, likewise."""
        cdef int64_t* row = <int64_t*> self.lone.data
        cdef int64_t count = self.lone.size // (LONE_FIELDS * LONG_SIZE)
        cdef list found = []
        for _ in range(count):
            found.append((row[0], row[1], row[2]))
            row += LONE_FIELDS
        self.lone.size = 0
        return found

    def find(self, int64_t producer_id):
        """A producer as a snapshot would have it, and the offset of its last marker; None if it is not known."""
        cdef int64_t n = self.find_number(producer_id)
        cdef Seen* p
        if n < 0:
            return None
        p = &self.seen[n]
        entry = self.entry_type(p.id, p.epoch, p.last_sequence, p.last_offset, p.offset_delta, p.last_timestamp,
                                p.coordinator_epoch, p.txn_first_offset if p.is_open else None)
        return entry, p.last_marker

    def open_txns(self):
        """(first offset, producer id) of the transactions that are open, ascending."""
        return [(self.txns[i].first_offset, self.txns[i].producer_id) for i in range(self.txn_count)]

    # One batch.

    cdef int take_batch(self, Bytes b, int64_t size) noexcept nogil:
        cdef int attributes = be16(b + BATCH_ATTRIBUTES)
        cdef int64_t producer_id = be64(b + BATCH_PRODUCER_ID), base_offset = be64(b)
        cdef int64_t n = self.find_number(producer_id)
        cdef int64_t last_offset = plus(base_offset, be32(b + BATCH_LAST_OFFSET_DELTA))
        cdef Marker marker
        if n < 0 and self.seen_count >= MOST_SEEN:
            return _REPLAY_FULL
        if not attributes & CONTROL_BIT:
            return self.take_data(b, n, producer_id, attributes & TRANSACTIONAL_BIT, base_offset, last_offset)
        if be32(b + BATCH_RECORDS_COUNT) == 0:
            return _DONE
        if self.ended_count() >= MOST_ENDED:
            return _REPLAY_FULL
        if not read_marker(b, size, &marker):
            return _REPLAY_UNSURE
        return self.take_marker(n, producer_id, be16(b + BATCH_PRODUCER_EPOCH), base_offset, last_offset, &marker)

    cdef inline int64_t ended_count(self) noexcept nogil:
        return self.aborted.size // (ABORTED_FIELDS * LONG_SIZE) + self.lone.size // (LONE_FIELDS * LONG_SIZE)

    cdef int take_data(self, Bytes b, int64_t n, int64_t producer_id, bint is_transactional, int64_t base_offset,
                       int64_t last_offset) noexcept nogil:
        cdef int32_t sequence = be32(b + BATCH_BASE_SEQUENCE), delta = be32(b + BATCH_LAST_OFFSET_DELTA)
        cdef bint is_open = n >= 0 and self.seen[n].is_open
        cdef Seen* p
        if is_open and not is_transactional:
            return _REPLAY_IMPOSSIBLE
        if is_transactional and not is_open and (self.txn_count >= MOST_OPEN_TXNS or not self.has_room_for_txn()):
            return _REPLAY_FULL
        n = self.number_of(n, producer_id)
        if n < 0:
            return _REPLAY_FULL
        p = &self.seen[n]
        if is_transactional and not is_open:
            self.begin_txn(base_offset, producer_id, n)
            p.is_open, p.txn_first_offset, p.before = True, base_offset, p.last
            p.visible_from = p.visible_to = NO_SUCH
        self.set_seen_epoch(p, be16(b + BATCH_PRODUCER_EPOCH))
        p.last_sequence = -1 if sequence == -1 else increment_sequence(sequence, delta)
        p.last_offset, p.offset_delta, p.last_timestamp = last_offset, delta, be64(b + BATCH_MAX_TIMESTAMP)
        if not is_transactional:
            p.last = last_offset
        elif p.visible_to == NO_SUCH and be32(b + BATCH_RECORDS_COUNT) > 0 and last_offset >= self.log_start_offset:
            p.visible_from, p.visible_to = base_offset, last_offset
        return _DONE

    cdef int take_marker(self, int64_t n, int64_t producer_id, int16_t epoch, int64_t base_offset, int64_t last_offset,
                         Marker* marker) noexcept nogil:
        cdef Seen* p
        n = self.number_of(n, producer_id)
        if n < 0:
            return _REPLAY_FULL
        p = &self.seen[n]
        if not self.end_open_txn(p, base_offset, marker.is_abort):
            return _REPLAY_FULL
        self.set_seen_epoch(p, epoch)
        p.coordinator_epoch, p.last_timestamp = marker.coordinator_epoch, marker.timestamp
        p.last = p.last_marker = last_offset
        return _DONE

    cdef bint end_open_txn(self, Seen* p, int64_t base_offset, bint is_abort) noexcept nogil:
        """False, and nothing has changed, if there is no room for what is to be told."""
        cdef int64_t row[ABORTED_FIELDS]
        cdef int64_t at, first
        if not p.is_open:
            row[0], row[1], row[2] = base_offset, p.id, p.last
            return not is_abort or put_longs(&self.lone, row, LONE_FIELDS)
        at = self.txn_place(p.txn_first_offset, p.id)
        if is_abort:
            first = 1 if at == 0 else 0     # the first of the others
            row[0], row[1], row[2] = p.id, p.txn_first_offset, base_offset
            row[3] = self.txns[first].first_offset if first < self.txn_count else plus(base_offset, 1)
            row[4], row[5], row[6] = p.visible_from, p.visible_to, p.before
            row[7], row[8] = self.open_from(at), not p.is_doubtful
            if not put_longs(&self.aborted, row, ABORTED_FIELDS):
                return False
        memmove(self.txns + at, self.txns + at + 1, (self.txn_count - at - 1) * sizeof(OpenTxn))
        self.txn_count -= 1
        p.is_open = p.is_doubtful = False
        return True

    cdef int64_t open_from(self, int64_t but) noexcept nogil:
        """Where the first open transaction begins that has something to see, but for number `but`."""
        cdef int64_t earliest = NO_SUCH, visible_from, i
        for i in range(self.txn_count):
            if i == but:
                continue
            if earliest != NO_SUCH and self.txns[i].first_offset > earliest:
                break
            visible_from = self.seen[self.txns[i].number].visible_from
            if visible_from != NO_SUCH and (earliest == NO_SUCH or visible_from < earliest):
                earliest = visible_from
        return earliest

    cdef inline void set_seen_epoch(self, Seen* p, int16_t epoch) noexcept nogil:
        if epoch != p.epoch:
            p.last_sequence, p.last_offset, p.offset_delta, p.epoch = -1, -1, 0, epoch

    # Open transactions.

    cdef int64_t txn_place(self, int64_t first_offset, int64_t producer_id) noexcept nogil:
        """Where it stands, or would; most are near the end."""
        cdef int64_t low = 0, high = self.txn_count, middle
        if high and txn_before(&self.txns[high - 1], first_offset, producer_id):
            return high
        while low < high:
            middle = low + (high - low) // 2
            if txn_before(&self.txns[middle], first_offset, producer_id):
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint has_room_for_txn(self) noexcept nogil:
        cdef int64_t room = 2 * self.txn_room if self.txn_room else 64
        cdef void* grown
        if self.txn_count < self.txn_room:
            return True
        grown = realloc(self.txns, room * sizeof(OpenTxn))
        if grown == NULL:
            return False
        self.txns, self.txn_room = <OpenTxn*> grown, room
        return True

    cdef void begin_txn(self, int64_t first_offset, int64_t producer_id, int64_t number) noexcept nogil:
        cdef int64_t at = self.txn_place(first_offset, producer_id)
        memmove(self.txns + at + 1, self.txns + at, (self.txn_count - at) * sizeof(OpenTxn))
        self.txns[at].first_offset, self.txns[at].producer_id, self.txns[at].number = first_offset, producer_id, number
        self.txn_count += 1

    # Producers by id.

    cdef inline uint64_t home(self, int64_t producer_id) noexcept nogil:
        """Where a producer is looked for at first."""
        cdef uint64_t h = (<uint64_t> producer_id ^ self.seed) * 0xFF51AFD7ED558CCDULL
        h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53ULL
        return h ^ (h >> 33)

    cdef inline int64_t find_number(self, int64_t producer_id) noexcept nogil:
        """Its number, or -1."""
        cdef uint64_t mask = <uint64_t> self.slot_count - 1, at
        if self.slot_count == 0:
            return -1
        at = self.home(producer_id) & mask
        while self.slots[at]:
            if self.seen[self.slots[at] - 1].id == producer_id:
                return self.slots[at] - 1
            at = (at + 1) & mask
        return -1

    cdef int64_t number_of(self, int64_t n, int64_t producer_id) noexcept nogil:
        """The number of a producer, which gets one if n is -1; -1 if there is no room for it."""
        cdef Seen* p
        if n >= 0:
            return n
        if self.seen_count == self.seen_room and not self.grow():
            return -1
        p = &self.seen[self.seen_count]
        memset(p, 0, sizeof(Seen))
        p.id, p.epoch, p.coordinator_epoch, p.last_timestamp = producer_id, -1, -1, -1
        p.last_sequence, p.last_offset = -1, -1
        p.before = p.last = p.last_marker = p.visible_from = p.visible_to = NO_SUCH
        self.seen_count += 1
        self.put_slot(self.seen_count - 1)
        return self.seen_count - 1

    cdef bint grow(self) noexcept nogil:
        """Room for more; the table is at most half full."""
        cdef int64_t room = 2 * self.seen_room if self.seen_room else 64, n
        cdef void* grown = realloc(self.seen, room * sizeof(Seen))
        if grown == NULL:
            return False
        self.seen = <Seen*> grown
        grown = realloc(self.slots, 2 * room * sizeof(int64_t))
        if grown == NULL:
            return False
        self.slots, self.slot_count, self.seen_room = <int64_t*> grown, 2 * room, room
        memset(self.slots, 0, 2 * room * sizeof(int64_t))
        for n in range(self.seen_count):
            self.put_slot(n)
        return True

    cdef inline void put_slot(self, int64_t n) noexcept nogil:
        cdef uint64_t mask = <uint64_t> self.slot_count - 1, at = self.home(self.seen[n].id) & mask
        while self.slots[at]:
            at = (at + 1) & mask
        self.slots[at] = n + 1
