# Producers and transactions in one walk over headers (format/producer_replay is the reference).

cdef enum:
    _REPLAY_MARK = 1                       # producer_replay.ReplayStop
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
    Producer state
    Kept batch                      # the last one
    int64_t before, last, last_marker, visible_from, visible_to
    bint is_doubtful

cdef inline bint put_longs(Growing* g, const int64_t* values, int count) noexcept nogil:
    """A row of numbers, as the machine has them."""
    if not takes_more(g, count * LONG_SIZE):
        return False
    memcpy(g.data + g.size, values, count * LONG_SIZE)
    g.size += count * LONG_SIZE
    return True

@cython.final
cdef class ProducerReplay:
    """format.producer_replay.ProducerReplay; `take` stops with UNSURE in front of a marker that the reference is to read.

    aborted_type, entry_type: what transactions and producers are told as.
    """

    cdef readonly int64_t log_start_offset
    cdef object aborted_type, entry_type
    cdef Seen* seen                 # in the order in which they came up
    cdef int64_t seen_count, seen_room
    cdef Numbers numbers
    cdef Txns txns
    cdef Growing aborted, lone

    def __cinit__(self, int64_t log_start_offset, aborted_type, entry_type):
        self.log_start_offset, self.aborted_type, self.entry_type = log_start_offset, aborted_type, entry_type
        memset(&self.numbers, 0, sizeof(Numbers))
        memset(&self.txns, 0, sizeof(Txns))
        self.seen, self.seen_count, self.seen_room = NULL, 0, 0
        memset(&self.aborted, 0, sizeof(Growing))
        memset(&self.lone, 0, sizeof(Growing))
        self.numbers.seed = <uint64_t> <size_t> <void*> self

    def __dealloc__(self):
        free(self.seen)
        free(self.numbers.slots)
        free(self.txns.rows)
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
        if self.take_end(self.find_number(producer_id), producer_id, epoch, base_offset, last_offset, &marker):
            raise MemoryError

    def lose_track(self):
        """Part of the log is missing here: transactions that are open may have ended in it."""
        cdef int64_t i
        for i in range(self.txns.first, self.txns.end):
            self.seen[self.txns.rows[i].number].is_doubtful = True

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
        cdef object last
        cdef Producer* p
        cdef Kept* kept
        if n < 0:
            return None
        p = &self.seen[n].state
        kept = &self.seen[n].batch
        last = -1, -1, 0
        if p.count:
            last = kept.last_sequence, kept.last_offset, kept.offset_delta
        entry = self.entry_type(p.id, p.epoch, *last, p.last_timestamp, p.coordinator_epoch,
                                p.txn_first_offset if p.is_open else None)
        return entry, self.seen[n].last_marker

    def open_txns(self):
        """(first offset, producer id) of the transactions that are open, ascending."""
        cdef Txns* t = &self.txns
        return [(t.rows[i].first_offset, t.rows[i].producer_id) for i in range(t.first, t.end)]

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
        return self.take_end(n, producer_id, be16(b + BATCH_PRODUCER_EPOCH), base_offset, last_offset, &marker)

    cdef inline int64_t ended_count(self) noexcept nogil:
        return self.aborted.size // (ABORTED_FIELDS * LONG_SIZE) + self.lone.size // (LONE_FIELDS * LONG_SIZE)

    cdef int take_data(self, Bytes b, int64_t n, int64_t producer_id, bint is_transactional, int64_t base_offset,
                       int64_t last_offset) noexcept nogil:
        cdef bint is_open = n >= 0 and self.seen[n].state.is_open
        cdef Seen* p
        if is_open and not is_transactional:
            return _REPLAY_IMPOSSIBLE
        if is_transactional and not is_open and (self.has_most_open() or not has_room_for_txn(&self.txns)):
            return _REPLAY_FULL
        n = self.known_or_new(n, producer_id)
        if n < 0:
            return _REPLAY_FULL
        p = &self.seen[n]
        if is_transactional and not is_open:
            self.begin_txn(base_offset, producer_id, n)
            p.state.is_open, p.state.txn_first_offset, p.before = True, base_offset, p.last
            p.visible_from = p.visible_to = NO_SUCH
        add_batch(&p.state, &p.batch, 1, b, last_offset)
        if not is_transactional:
            p.last = last_offset
        elif p.visible_to == NO_SUCH and be32(b + BATCH_RECORDS_COUNT) > 0 and last_offset >= self.log_start_offset:
            p.visible_from, p.visible_to = base_offset, last_offset
        return _DONE

    cdef int take_end(self, int64_t n, int64_t producer_id, int16_t epoch, int64_t base_offset, int64_t last_offset,
                         Marker* marker) noexcept nogil:
        cdef Seen* p
        n = self.known_or_new(n, producer_id)
        if n < 0:
            return _REPLAY_FULL
        p = &self.seen[n]
        if not self.end_open_txn(p, base_offset, marker.is_abort):
            return _REPLAY_FULL
        take_marker(&p.state, epoch, marker)
        p.last = p.last_marker = last_offset
        return _DONE

    cdef bint end_open_txn(self, Seen* p, int64_t base_offset, bint is_abort) noexcept nogil:
        """False, and nothing has changed, if there is no room for what is to be told."""
        cdef int64_t row[ABORTED_FIELDS]
        cdef int64_t at
        if not p.state.is_open:
            row[0], row[1], row[2] = base_offset, p.state.id, p.last
            return not is_abort or put_longs(&self.lone, row, LONE_FIELDS)
        at = txn_place(&self.txns, p.state.txn_first_offset, p.state.id)
        if is_abort:
            row[0], row[1], row[2] = p.state.id, p.state.txn_first_offset, base_offset
            row[3] = last_stable_offset_at(&self.txns, base_offset, p.state.id)
            row[4], row[5], row[6] = p.visible_from, p.visible_to, p.before
            row[7], row[8] = self.open_from(at), not p.is_doubtful
            if not put_longs(&self.aborted, row, ABORTED_FIELDS):
                return False
        remove_txn(&self.txns, at)
        p.state.is_open = p.is_doubtful = False
        return True

    cdef int64_t open_from(self, int64_t but) noexcept nogil:
        """Where the first open transaction begins that has something to see, but for number `but`."""
        cdef int64_t earliest = NO_SUCH, visible_from, i
        for i in range(self.txns.first, self.txns.end):
            if i == but:
                continue
            if earliest != NO_SUCH and self.txns.rows[i].first_offset > earliest:
                break
            visible_from = self.seen[self.txns.rows[i].number].visible_from
            if visible_from != NO_SUCH and (earliest == NO_SUCH or visible_from < earliest):
                earliest = visible_from
        return earliest

    # Open transactions.

    cdef inline bint has_most_open(self) noexcept nogil:
        """Whether no more are kept track of."""
        return self.txns.end - self.txns.first >= MOST_OPEN_TXNS

    cdef void begin_txn(self, int64_t first_offset, int64_t producer_id, int64_t number) noexcept nogil:
        cdef Txn txn
        txn.first_offset, txn.producer_id, txn.number, txn.is_new = first_offset, producer_id, number, True
        put_txn(&self.txns, txn_place(&self.txns, first_offset, producer_id), txn)

    # Producers by id.

    cdef inline int64_t find_number(self, int64_t producer_id) noexcept nogil:
        """Its number, or -1."""
        return number_of(&self.numbers, <Bytes> self.seen, sizeof(Seen), producer_id)

    cdef int64_t known_or_new(self, int64_t n, int64_t producer_id) noexcept nogil:
        """The number of a producer, which gets one if n is -1; -1 if there is no room for it."""
        cdef Seen* p
        if n >= 0:
            return n
        if not has_room_for_row(&self.numbers, <void**> &self.seen, sizeof(Seen), self.seen_count, &self.seen_room):
            return -1
        n = self.seen_count
        p = &self.seen[n]
        begin_producer(&p.state, producer_id)
        p.before = p.last = p.last_marker = p.visible_from = p.visible_to = NO_SUCH
        p.is_doubtful = False
        self.seen_count += 1
        note_number(&self.numbers, producer_id, n)
        return n
