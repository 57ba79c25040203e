# What batches at the end of a segment do to its indexes, and when (broker/unified_log/log_segment,
# broker/unified_log/index_files and format/indexes are the reference).

cdef enum:
    OFFSET_ENTRY = 8
    TIME_ENTRY = 12
    LARGEST_RELATIVE = 2147483647
    FIRST_ROOM = 4096

cdef inline bint takes_more(Growing* g, int64_t more) noexcept nogil:
    """Whether so many bytes go into it; it grows for that."""
    cdef int64_t room = g.room if g.room else FIRST_ROOM
    cdef uint8_t* data
    if more <= g.room - g.size:
        return True
    while room - g.size < more:
        room *= 2
    data = <uint8_t*> realloc(g.data, room)
    if data == NULL:
        return False
    g.data, g.room = data, room
    return True

cdef inline void put_be32(Growing* g, uint32_t value) noexcept nogil:
    cdef int i
    for i in range(4):
        g.data[g.size + i] = <uint8_t> (value >> (24 - 8 * i))
    g.size += 4

cdef inline void put_be64(Growing* g, uint64_t value) noexcept nogil:
    put_be32(g, <uint32_t> (value >> 32))
    put_be32(g, <uint32_t> value)

cdef bytes taken_from(Growing* g):
    cdef bytes data = PyBytes_FromStringAndSize(<const char*> g.data, g.size)
    g.size = 0
    return data

cdef struct Indexing:               # what is due for a batch; latest: largest timestamp so far, with it, and its offset
    int64_t latest, latest_offset
    bint is_due

@cython.final
cdef class SegmentIndexes:
    """What a segment remembers of its indexes, and their entries since they were taken.

    The numbers are those of LogSegment, OffsetIndex and TimeIndex; bytes_since: LogSegment.bytes_since_last_index_entry;
    previous_offset, needs_order: SegmentRecovery's.
    """

    cdef public int64_t base_offset, interval_bytes, bytes_since
    cdef public int64_t max_timestamp, offset_of_max_timestamp
    cdef public int64_t offset_entries, most_offset_entries, last_offset
    cdef public int64_t time_entries, most_time_entries, last_timestamp, last_timestamp_offset, previous_offset
    cdef public bint needs_order
    cdef Growing offsets, times

    def __cinit__(self):
        memset(&self.offsets, 0, sizeof(Growing))
        memset(&self.times, 0, sizeof(Growing))

    def __dealloc__(self):
        free(self.offsets.data)
        free(self.times.data)

    def take_offset_entries(self):
        """The entries of the offset index since the last call, as they stand in the file."""
        return taken_from(&self.offsets)

    def take_time_entries(self):
        """Those of the time index."""
        return taken_from(&self.times)

    cdef inline bint can_hold(self, int64_t offset) noexcept nogil:
        """Whether it is an offset for these indexes (OffsetIndex.canAppendOffset)."""
        return 0 <= minus(offset, self.base_offset) <= LARGEST_RELATIVE

    cdef inline bint may_index(self, int64_t last_offset, int64_t max_timestamp, Indexing* due) noexcept nogil:
        """What is due for a batch. False if entries are, and Kafka would not take them, or there is no room."""
        due.latest, due.latest_offset = self.max_timestamp, self.offset_of_max_timestamp
        if max_timestamp > due.latest:
            due.latest, due.latest_offset = max_timestamp, last_offset
        due.is_due = self.bytes_since > self.interval_bytes
        return not due.is_due or self.has_room(last_offset, due)

    cdef bint has_room(self, int64_t last_offset, Indexing* due) noexcept nogil:
        if self.offset_entries >= self.most_offset_entries or self.time_entries >= self.most_time_entries - 1:
            return False
        if not self.can_hold(last_offset) or (self.offset_entries and last_offset <= self.last_offset):
            return False
        if self.time_entries and (due.latest_offset < self.last_timestamp_offset or due.latest < self.last_timestamp):
            return False
        if due.latest > self.last_timestamp and not self.can_hold(due.latest_offset):
            return False
        return takes_more(&self.offsets, OFFSET_ENTRY) and takes_more(&self.times, TIME_ENTRY)

    cdef inline void index(self, int64_t last_offset, int64_t position, int64_t size, Indexing* due) noexcept nogil:
        """A batch of so many bytes at a position, for which `may_index` was true."""
        if self.previous_offset >= 0:       # SegmentRecovery._note_order
            self.needs_order |= last_offset <= self.previous_offset
            self.needs_order |= due.latest > self.max_timestamp and last_offset < self.offset_of_max_timestamp
        if position > 0:
            self.previous_offset = last_offset
        self.max_timestamp, self.offset_of_max_timestamp = due.latest, due.latest_offset
        if due.is_due:
            self.put_entries(last_offset, position)
            self.bytes_since = 0
        self.bytes_since += size

    cdef void put_entries(self, int64_t last_offset, int64_t position) noexcept nogil:
        put_be32(&self.offsets, <uint32_t> minus(last_offset, self.base_offset))
        put_be32(&self.offsets, <uint32_t> position)
        self.offset_entries += 1
        self.last_offset = last_offset
        if self.max_timestamp > self.last_timestamp:
            put_be64(&self.times, <uint64_t> self.max_timestamp)
            put_be32(&self.times, <uint32_t> minus(self.offset_of_max_timestamp, self.base_offset))
            self.time_entries += 1
            self.last_timestamp, self.last_timestamp_offset = self.max_timestamp, self.offset_of_max_timestamp
