# Recovery of a segment over runs of regular batches (broker/unified_log/segment_recovery is the reference), and
# what is asked of all batches of a log (broker/unified_log/sound_batches is).

cdef enum:
    ENDED_FIELDS = 5
    ENDED_SIZE = 40

cdef struct Known:                  # is_changed: since it was told of
    Producer state
    bint is_changed
    Kept batches[KEPT_BATCHES]

cdef inline int regular_size(Bytes b, int64_t have, int64_t* size) noexcept nogil:
    """Whether a whole entry lies at b, of a magic that is known and large enough for its header."""
    cdef int64_t length
    if have <= HEADER_SIZE_UP_TO_MAGIC:
        return _CUT_OFF
    length = be32(b + FRAME_LENGTH)
    if length < MIN_LENGTH or b[FRAME_MAGIC] > 2 or (b[FRAME_MAGIC] == 2 and length + LOG_OVERHEAD < BATCH_SIZE):
        return _REFERENCE
    size[0] = length + LOG_OVERHEAD
    fetch_ahead(b, size[0])
    return _DONE if size[0] <= have else _CUT_OFF

cdef bint read_marker(Bytes b, int64_t size, Marker* marker) noexcept nogil:
    """The end of a transaction; every other control batch is the reference's."""
    cdef Cursor c
    cdef Record r
    cdef int attributes = be16(b + BATCH_ATTRIBUTES)
    c.at, c.end, c.broken = b + BATCH_SIZE, b + size, False
    if attributes & CODEC_MASK or be32(b + BATCH_RECORDS_COUNT) != 1 or not next_record(&c, &r) or c.at != c.end:
        return False
    if r.key_size < 4 or r.value_size < 6 or be16(r.key) < 0 or be16(r.value) < 0 or not 0 <= be16(r.key + 2) <= 1:
        return False
    marker.is_abort, marker.coordinator_epoch = be16(r.key + 2) == 0, be32(r.value + 2)
    if attributes & TIMESTAMP_TYPE_BIT:
        marker.timestamp = be64(b + BATCH_MAX_TIMESTAMP)
    else:
        marker.timestamp = plus(be64(b + BATCH_BASE_TIMESTAMP), r.timestamp_delta)
    return True

def check_batches(const uint8_t[::1] data not None, int64_t at, int64_t stop):
    """Entries that begin in data[at:stop], as far as they match their checksums: (where the next one begins, why it is
    another one, where the last one began, or -1). why: see Recovery.take."""
    cdef int64_t have = data.shape[0], size = 0, last = -1
    cdef int why = _DONE
    cdef Bytes b
    if not 0 <= at <= have:
        raise ValueError("at is to lie in the data")
    if have == 0:
        return at, (CUT_OFF if at < stop else DONE), last
    b = &data[0]
    with nogil:
        while at < stop:
            why = regular_size(b + at, have - at, &size)
            if why == _DONE and not proved(b + at, size):
                why = _REFERENCE
            if why:
                break
            last = at
            at += size
    return at, why, last

def epoch_runs(const uint8_t[::1] data not None, int64_t at, int64_t stop, int64_t lowest):
    """Leader epochs of the batches that begin in data[at:stop] and whose last offset is not below `lowest`, whatever
    their checksums: (where the next entry begins, why it is another one, [(epoch, smallest last offset, largest)]).
    Batches of the same epoch that follow each other are one run."""
    cdef int64_t have = data.shape[0], size = 0, low = 0, high = 0, last_offset
    cdef int32_t epoch, latest = -1
    cdef int why = _DONE
    cdef list runs = []
    cdef Bytes b
    if not 0 <= at <= have:
        raise ValueError("at is to lie in the data")
    if have == 0:
        return at, (CUT_OFF if at < stop else DONE), runs
    b = &data[0]
    while at < stop:
        why = regular_size(b + at, have - at, &size)
        if why:
            break
        if b[at + FRAME_MAGIC] == 2:
            epoch = be32(b + at + BATCH_PARTITION_LEADER_EPOCH)
            last_offset = plus(be64(b + at), be32(b + at + BATCH_LAST_OFFSET_DELTA))
            if epoch >= 0 and last_offset >= lowest:
                if epoch != latest:
                    if latest >= 0:
                        runs.append((latest, low, high))
                    latest, low, high = epoch, last_offset, last_offset
                low, high = min(low, last_offset), max(high, last_offset)
        at += size
    if latest >= 0:
        runs.append((latest, low, high))
    return at, why, runs

@cython.final
cdef class Recovery:
    """What is known of a segment between one batch and the next.

    The numbers are those of SegmentRecovery, of its indexes and of the producers' state; whoever changes these for
    batches that the kernel has left to it sets them again. goes_back: an epoch was below that of its producer before, or
    a transaction began below the end of the last batch, or not behind all that began before; nobody but
    whoever asks resets it.
    """

    cdef readonly SegmentIndexes indexes
    cdef public int64_t valid_bytes, latest_epoch, map_end_offset, last_aborted_offset
    cdef public bint has_aborted, keeps_ended, goes_back
    cdef Growing ended
    cdef Known* producers           # in the order in which they came up
    cdef int64_t producer_count, producer_room
    cdef Numbers numbers
    cdef int64_t* changed           # numbers of producers
    cdef int64_t changed_count
    cdef Txns txns                  # of which no two begin at the same offset
    cdef int64_t last_begun

    def __cinit__(self):
        self.indexes = SegmentIndexes()
        memset(&self.ended, 0, sizeof(Growing))
        memset(&self.numbers, 0, sizeof(Numbers))
        memset(&self.txns, 0, sizeof(Txns))
        self.producers, self.changed = NULL, NULL
        self.producer_count = self.producer_room = self.changed_count = 0
        self.last_begun = -1
        self.numbers.seed = <uint64_t> <size_t> <void*> self

    def __dealloc__(self):
        free(self.ended.data)
        free(self.producers)
        free(self.numbers.slots)
        free(self.changed)
        free(self.txns.rows)

    def take(self, const uint8_t[::1] data not None, int64_t at, int64_t stop, int64_t checked):
        """Take over entries that begin in data[at:stop]: (where the next one begins, why it was not taken).

        checked: those that end up to here are known to match their checksums. why: DONE, it begins at `stop` or
        behind; CUT_OFF, it is not whole here; REFERENCE, it is nothing for the kernel, and nothing of it was taken.
        """
        cdef int64_t have = data.shape[0], size = 0
        cdef int why = _DONE
        cdef Bytes b
        if not 0 <= at <= have:
            raise ValueError("at is to lie in the data")
        if have == 0:
            return at, (CUT_OFF if at < stop else DONE)
        b = &data[0]
        with nogil:
            while at < stop:
                why = regular_size(b + at, have - at, &size)
                if why:
                    break
                if (at + size > checked and not proved(b + at, size)) or not self.take_entry(b + at, size):
                    why = _REFERENCE
                    break
                at += size
        return at, why

    cdef bint take_entry(self, Bytes b, int64_t size) noexcept nogil:
        """False, and nothing has changed, for one that Kafka refuses or that changes more than this can."""
        cdef bint is_batch = b[FRAME_MAGIC] == 2
        cdef int64_t base_offset = be64(b), last_offset = base_offset, timestamp = -1
        cdef Indexing due
        if is_batch:
            last_offset = plus(base_offset, be32(b + BATCH_LAST_OFFSET_DELTA))
            timestamp = be64(b + BATCH_MAX_TIMESTAMP)
            # LogSegment.recover hands a new epoch to the epoch cache, which may refuse it or cut others: that is the reference's.
            if be32(b + BATCH_PARTITION_LEADER_EPOCH) > self.latest_epoch:
                return False
        elif b[FRAME_MAGIC] == 1:
            timestamp = be64(b + LOG_OVERHEAD + MESSAGE1_TIMESTAMP)
        # As LogSegment.recover: the offset is checked, the index is filled, and then the producers are told. Here all of it is
        # tried first, since an entry that is refused must leave nothing behind.
        if not self.indexes.can_hold(last_offset) or not self.indexes.may_index(last_offset, timestamp, &due):
            return False
        if is_batch and be64(b + BATCH_PRODUCER_ID) > -1 and not self.take_producers(b, size, base_offset, last_offset):
            return False
        self.indexes.index(last_offset, self.valid_bytes, size, &due)
        if is_batch:
            self.map_end_offset = plus(last_offset, 1)
        self.valid_bytes += size
        return True

    # Producers.

    cdef bint take_producers(self, Bytes b, int64_t size, int64_t base_offset, int64_t last_offset) noexcept nogil:
        """ProducerStateManager.apply for a batch with a producer."""
        cdef int attributes = be16(b + BATCH_ATTRIBUTES)
        cdef int64_t n = self.find_producer(be64(b + BATCH_PRODUCER_ID))
        cdef Marker marker
        if not self.has_room_for_producer():
            return False
        if attributes & CONTROL_BIT:
            return read_marker(b, size, &marker) and self.end_txn(b, n, base_offset, &marker)
        return self.add_data(b, n, attributes & TRANSACTIONAL_BIT, base_offset, last_offset)

    cdef bint add_data(self, Bytes b, int64_t n, bint is_transactional, int64_t base_offset,
                       int64_t last_offset) noexcept nogil:
        """A batch of data of producer number n, or of one that is not known if n is negative."""
        cdef int64_t producer_id = be64(b + BATCH_PRODUCER_ID)
        cdef bint is_open = n >= 0 and self.producers[n].state.is_open
        cdef bint begins = is_transactional and not is_open
        cdef Known* known
        cdef Producer* p
        # ProducerAppendInfo.appendDataBatch throws for the first; for the second no broker writes two that begin at one offset.
        if (is_open and not is_transactional) or (begins and not self.begin_txn(base_offset, producer_id, True)):
            return False
        known = self.change(n, producer_id)
        p = &known.state
        self.goes_back |= be16(b + BATCH_PRODUCER_EPOCH) < p.epoch
        add_batch(p, known.batches, KEPT_BATCHES, b, last_offset)
        if begins:
            p.is_open, p.txn_first_offset = True, base_offset
            # A marker that goes back takes map_end_offset back with it.
            self.goes_back |= base_offset < self.map_end_offset or base_offset <= self.last_begun
            self.last_begun = max(self.last_begun, base_offset)
        return True

    cdef bint end_txn(self, Bytes b, int64_t n, int64_t offset, Marker* marker) noexcept nogil:
        """A marker at this offset."""
        cdef Producer* p
        if n >= 0 and self.producers[n].state.is_open:
            if not self.complete_txn(&self.producers[n].state, offset, marker.is_abort):
                return False
        p = &self.change(n, be64(b + BATCH_PRODUCER_ID)).state
        self.goes_back |= be16(b + BATCH_PRODUCER_EPOCH) < p.epoch
        take_marker(p, be16(b + BATCH_PRODUCER_EPOCH), marker)
        return True

    cdef inline int64_t find_producer(self, int64_t producer_id) noexcept nogil:
        """Its number, or -1."""
        return number_of(&self.numbers, <Bytes> self.producers, sizeof(Known), producer_id)

    cdef bint has_room_for_producer(self) noexcept nogil:
        """Whether one more can be had."""
        cdef int64_t room = self.producer_room
        cdef void* grown
        if not has_room_for_row(&self.numbers, <void**> &self.producers, sizeof(Known), self.producer_count,
                                &self.producer_room):
            return False
        if self.producer_room == room:
            return True
        grown = realloc(self.changed, self.producer_room * sizeof(int64_t))
        if grown == NULL:
            self.producer_room = room       # both arrays have room for as many, or neither
            return False
        self.changed = <int64_t*> grown
        return True

    cdef inline Known* change(self, int64_t n, int64_t producer_id) noexcept nogil:
        """Producer number n, or a new one with that id, for which there is room; it is noted as changed."""
        cdef Known* known
        if n < 0:
            n = self.producer_count
            begin_producer(&self.producers[n].state, producer_id)
            self.producers[n].is_changed = False
            self.producer_count += 1
            note_number(&self.numbers, producer_id, n)
        known = &self.producers[n]
        if not known.is_changed:
            known.is_changed = True
            self.changed[self.changed_count] = n
            self.changed_count += 1
        return known

    def set_producer(self, int64_t producer_id, int16_t epoch, int32_t coordinator_epoch, int64_t last_timestamp,
                     txn_first_offset, batches):
        """A producer as it is now; batches: (last sequence, last offset, offset delta, timestamp) of each."""
        cdef int64_t n = self.find_producer(producer_id), changed_before = self.changed_count
        cdef Known* known
        cdef Producer* p
        cdef Kept* kept
        if not self.has_room_for_producer():
            raise MemoryError
        known = self.change(n, producer_id)
        p = &known.state
        p.epoch, p.coordinator_epoch, p.last_timestamp = epoch, coordinator_epoch, last_timestamp
        p.is_open, p.txn_first_offset = txn_first_offset is not None, txn_first_offset or 0
        p.count = 0
        for last_sequence, last_offset, offset_delta, timestamp in batches[-KEPT_BATCHES:]:
            p.newest = p.count
            kept = &known.batches[p.count]
            kept.last_sequence, kept.last_offset, kept.offset_delta = last_sequence, last_offset, offset_delta
            kept.timestamp = timestamp
            p.count += 1
        if self.changed_count > changed_before:
            self.changed_count, known.is_changed = changed_before, False

    def take_producers_changed(self):
        """Those that are others since the last call, new ones in the order in which they came up; each as the
        arguments of set_producer."""
        cdef list found = []
        cdef int64_t i
        for i in range(self.changed_count):
            found.append(self.producer_fields(&self.producers[self.changed[i]]))
            self.producers[self.changed[i]].is_changed = False
        self.changed_count = 0
        return found

    cdef tuple producer_fields(self, Known* known):
        cdef Producer* p = &known.state
        cdef list batches = []
        cdef Kept* kept
        cdef int i
        for i in range(p.count):
            kept = &known.batches[(p.newest - p.count + 1 + i + KEPT_BATCHES) % KEPT_BATCHES]
            batches.append((kept.last_sequence, kept.last_offset, kept.offset_delta, kept.timestamp))
        return (p.id, p.epoch, p.coordinator_epoch, p.last_timestamp, p.txn_first_offset if p.is_open else None, batches)

    # Transactions.

    cdef inline int64_t txn_at(self, int64_t first_offset) noexcept nogil:
        """Where the one with this first offset stands, or would."""
        return txn_place(&self.txns, first_offset, NO_ID)

    cdef inline bint begins_at(self, int64_t at, int64_t first_offset) noexcept nogil:
        """Whether there is one at this place, with this first offset."""
        return at < self.txns.end and self.txns.rows[at].first_offset == first_offset

    cdef bint begin_txn(self, int64_t first_offset, int64_t producer_id, bint is_new) noexcept nogil:
        """False if there is one with this first offset."""
        cdef Txn txn
        cdef int64_t at
        if not has_room_for_txn(&self.txns):
            return False
        at = self.txn_at(first_offset)
        if self.begins_at(at, first_offset):
            return False
        txn.first_offset, txn.producer_id, txn.number, txn.is_new = first_offset, producer_id, -1, is_new
        put_txn(&self.txns, at, txn)
        return True

    cdef bint complete_txn(self, Producer* p, int64_t last_offset, bint is_aborted) noexcept nogil:
        """ProducerStateManager.complete_txn, and the order that the transaction index asks for."""
        cdef int64_t at = self.txn_at(p.txn_first_offset)
        cdef int64_t row[ENDED_FIELDS]
        if not self.begins_at(at, p.txn_first_offset) or not takes_more(&self.ended, ENDED_SIZE):
            return False
        # TransactionIndex.append throws if last offsets do not ascend.
        if is_aborted and self.has_aborted and self.last_aborted_offset >= last_offset:
            return False
        if is_aborted or self.keeps_ended or not self.txns.rows[at].is_new:
            row[0], row[1], row[2], row[3] = p.id, p.txn_first_offset, last_offset, is_aborted
            row[4] = last_stable_offset_at(&self.txns, last_offset, p.id)
            memcpy(self.ended.data + self.ended.size, row, ENDED_SIZE)
            self.ended.size += ENDED_SIZE
        if is_aborted:
            self.has_aborted, self.last_aborted_offset = True, last_offset
        remove_txn(&self.txns, at)
        return True

    def set_txn(self, int64_t first_offset, producer_id):
        """The transaction that is open from this offset on; producer_id None: none is."""
        cdef int64_t at = self.txn_at(first_offset)
        if self.begins_at(at, first_offset):
            remove_txn(&self.txns, at)
        if producer_id is None:
            return
        if not self.begin_txn(first_offset, producer_id, False):
            raise MemoryError
        self.last_begun = max(self.last_begun, first_offset)

    def take_txns_begun(self):
        """(producer id, first offset) of each that has begun since the last call, and is open."""
        cdef list found = []
        cdef int64_t i
        for i in range(self.txns.first, self.txns.end):
            if self.txns.rows[i].is_new:
                found.append((self.txns.rows[i].producer_id, self.txns.rows[i].first_offset))
                self.txns.rows[i].is_new = False
        return found

    def take_txns_ended(self):
        """Those that have ended since the last call: bytes of rows of five longs, producer id, first offset, offset of
        the marker, whether it was aborted, the last stable offset then.

        Without keeps_ended, only those that were aborted, or known of from set_txn or take_txns_begun.
        """
        return taken_from(&self.ended)
