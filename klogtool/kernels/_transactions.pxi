# What is remembered of producers, and their open transactions (format/producers is the reference).

cdef enum:
    KEPT_BATCHES = 5                # producers.NUM_BATCHES_TO_RETAIN
    FIRST_ROWS = 64

cdef int64_t NO_ID = <int64_t> 0x8000000000000000ULL       # before all ids

cdef struct Kept:                   # producers.BatchMetadata
    int64_t last_offset, timestamp
    int32_t last_sequence, offset_delta

cdef struct Producer:               # producers.ProducerState, but for its batches, which lie behind it
    int64_t id, last_timestamp, txn_first_offset
    int32_t coordinator_epoch
    int16_t epoch
    bint is_open
    int count, newest               # of the batches that are kept

cdef struct Numbers:                # of producers in an array, by id: a hash table of each number and 1, or 0
    int64_t* slots
    int64_t slot_count
    uint64_t seed                   # not to be known by who chooses producer ids

cdef struct Txn:                    # an open one. number: of its producer; is_new: since Recovery told of it
    int64_t first_offset, producer_id, number, is_new

cdef struct Txns:                   # rows[first:end], by first offset and producer id
    Txn* rows
    int64_t first, end, room

# One producer.

cdef inline void begin_producer(Producer* p, int64_t producer_id) noexcept nogil:
    """One that nothing is known of."""
    memset(p, 0, sizeof(Producer))
    p.id, p.epoch, p.coordinator_epoch, p.last_timestamp = producer_id, -1, -1, -1

cdef inline void take_epoch(Producer* p, int16_t epoch) noexcept nogil:
    """Batches of another epoch are forgotten (ProducerStateEntry.maybeUpdateProducerEpoch)."""
    if epoch != p.epoch:
        p.count, p.epoch = 0, epoch

cdef inline void add_batch(Producer* p, Kept* batches, int most, Bytes b, int64_t last_offset) noexcept nogil:
    """ProducerState.add_batch. batches: a ring of so many at most."""
    cdef int32_t delta = be32(b + BATCH_LAST_OFFSET_DELTA)
    cdef Kept* kept
    take_epoch(p, be16(b + BATCH_PRODUCER_EPOCH))
    p.newest = (p.newest + 1) % most
    if p.count < most:
        p.count += 1
    kept = batches + p.newest
    kept.last_offset, kept.timestamp, kept.offset_delta = last_offset, be64(b + BATCH_MAX_TIMESTAMP), delta
    kept.last_sequence = last_sequence_of(be32(b + BATCH_BASE_SEQUENCE), delta)
    p.last_timestamp = kept.timestamp

cdef inline void take_marker(Producer* p, int16_t epoch, Marker* marker) noexcept nogil:
    """ProducerState.end_txn."""
    take_epoch(p, epoch)
    p.coordinator_epoch, p.last_timestamp, p.is_open = marker.coordinator_epoch, marker.timestamp, False

# Producers by id, in an array whose rows begin with it.

cdef inline int64_t id_at(Bytes rows, int64_t row_size, int64_t n) noexcept nogil:
    return (<const int64_t*> (rows + n * row_size))[0]

cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    """Every bit of it in every bit (the finalizer of splitmix64)."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL
    return x ^ (x >> 31)

cdef inline uint64_t home_of(Numbers* t, int64_t producer_id) noexcept nogil:
    """Where a producer is looked for at first."""
    return mixed(<uint64_t> producer_id ^ t.seed)

cdef inline int64_t number_of(Numbers* t, Bytes rows, int64_t row_size, int64_t producer_id) noexcept nogil:
    """Its number, or -1."""
    cdef uint64_t mask = <uint64_t> t.slot_count - 1, at
    if t.slot_count == 0:
        return -1
    at = home_of(t, producer_id) & mask
    while t.slots[at]:
        if id_at(rows, row_size, t.slots[at] - 1) == producer_id:
            return t.slots[at] - 1
        at = (at + 1) & mask
    return -1

cdef inline void note_number(Numbers* t, int64_t producer_id, int64_t n) noexcept nogil:
    """The number of one that has none yet."""
    cdef uint64_t mask = <uint64_t> t.slot_count - 1, at = home_of(t, producer_id) & mask
    while t.slots[at]:
        at = (at + 1) & mask
    t.slots[at] = n + 1

cdef bint make_slots(Numbers* t, Bytes rows, int64_t row_size, int64_t count, int64_t slot_count) noexcept nogil:
    """So many slots for the producers that there are; False, and nothing has changed, if there is no memory."""
    cdef void* grown = realloc(t.slots, slot_count * sizeof(int64_t))
    cdef int64_t n
    if grown == NULL:
        return False
    t.slots, t.slot_count = <int64_t*> grown, slot_count
    memset(t.slots, 0, slot_count * sizeof(int64_t))
    for n in range(count):
        note_number(t, id_at(rows, row_size, n), n)
    return True

cdef bint has_room_for_row(Numbers* t, void** rows, int64_t row_size, int64_t count, int64_t* room) noexcept nogil:
    """Whether the array can have one more; the table is at most half full. False: there is no memory."""
    cdef int64_t more = 2 * room[0] if room[0] else FIRST_ROWS
    cdef void* grown
    if count < room[0]:
        return True
    grown = realloc(rows[0], more * row_size)
    if grown == NULL:
        return False
    rows[0] = grown
    if not make_slots(t, <Bytes> grown, row_size, count, 2 * more):
        return False
    room[0] = more
    return True

# Open transactions.

cdef inline bint is_before(Txn* txn, int64_t first_offset, int64_t producer_id) noexcept nogil:
    if txn.first_offset != first_offset:
        return txn.first_offset < first_offset
    return txn.producer_id < producer_id

cdef inline int64_t txn_place(Txns* t, int64_t first_offset, int64_t producer_id) noexcept nogil:
    """Where it stands, or would; most are the last. producer_id NO_ID: the first one with this offset."""
    cdef int64_t low = t.first, high = t.end, middle
    if low == high or is_before(&t.rows[high - 1], first_offset, producer_id):
        return high
    while low < high:
        middle = low + (high - low) // 2
        if is_before(&t.rows[middle], first_offset, producer_id):
            low = middle + 1
        else:
            high = middle
    return low

cdef bint has_room_for_txn(Txns* t) noexcept nogil:
    """Whether one more has room at the end; what lies free before the first one is used again."""
    cdef int64_t count = t.end - t.first, room
    cdef Txn* grown
    if t.end < t.room:
        return True
    if t.first > t.room // 2:
        memmove(t.rows, t.rows + t.first, count * sizeof(Txn))
        t.first, t.end = 0, count
        return True
    room = 2 * t.room if t.room else 64
    grown = <Txn*> realloc(t.rows, room * sizeof(Txn))
    if grown == NULL:
        return False
    t.rows, t.room = grown, room
    return True

cdef inline void put_txn(Txns* t, int64_t at, Txn txn) noexcept nogil:
    """At its place; there is room for it."""
    if at < t.end:
        memmove(t.rows + at + 1, t.rows + at, (t.end - at) * sizeof(Txn))
    t.rows[at] = txn
    t.end += 1

cdef inline void remove_txn(Txns* t, int64_t at) noexcept nogil:
    if at == t.first:                               # they mostly end in the order in which they began
        t.first += 1
        return
    memmove(t.rows + at, t.rows + at + 1, (t.end - at - 1) * sizeof(Txn))
    t.end -= 1

cdef inline int64_t last_stable_offset_at(Txns* t, int64_t marker_offset, int64_t producer_id) noexcept nogil:
    """producers.last_stable_offset_at."""
    cdef int64_t at = t.first
    while at < t.end and t.rows[at].producer_id == producer_id:
        at += 1
    return t.rows[at].first_offset if at < t.end else plus(marker_offset, 1)
