# The walk over records (format/batch is the reference).

cdef struct Record:
    int64_t timestamp_delta, key_size, value_size
    int32_t offset_delta, header_count
    Bytes key, value, headers, end

cdef inline Bytes field(Cursor* c, int64_t* size) noexcept nogil:
    """A length and that many bytes; any negative length is null, told as -1."""
    cdef int64_t n = varint(c)
    cdef Bytes start = c.at
    if n > c.end - c.at:
        c.broken = True
        n = -1
    if n < 0:
        n = -1
    else:
        c.at += n
    size[0] = n
    return start

cdef inline bint next_record(Cursor* batch, Record* r) noexcept nogil:
    """The next record, wholly checked: lengths fit, header keys are there, it ends where its size says."""
    cdef Cursor c
    cdef int64_t size = varint(batch), n = 0
    cdef int32_t i
    if batch.broken or size < 1 or size > batch.end - batch.at:
        return False
    c.at, c.end, c.broken = batch.at + 1, batch.at + size, False      # one byte of attributes, unused
    r.timestamp_delta, r.offset_delta = varlong(&c), varint(&c)
    r.key = field(&c, &r.key_size)
    r.value = field(&c, &r.value_size)
    r.header_count, r.headers = varint(&c), c.at
    # As DefaultRecord.readFrom: a header takes at least one byte, so a larger count is false.
    if r.header_count < 0 or r.header_count > c.end - c.at:
        return False
    for i in range(r.header_count):
        n = varint(&c)
        if c.broken or n < 0 or n > c.end - c.at:       # a key of a header is never null: DefaultRecord.readHeaders throws
            return False
        c.at += n
        field(&c, &n)
    batch.at = r.end = c.end
    return not c.broken and c.at == c.end

cdef inline int32_t increment_sequence(int32_t sequence, int32_t increment) noexcept nogil:
    """After 2147483647 comes 0, with Java's wrap-around for the rest."""
    cdef uint32_t most = 0x7FFFFFFF
    if sequence > <int32_t> (most - <uint32_t> increment):
        return <int32_t> (<uint32_t> increment - (most - <uint32_t> sequence) - 1)
    return <int32_t> (<uint32_t> sequence + <uint32_t> increment)

cdef inline bint is_in_sequence(int32_t last_sequence, int32_t next_sequence) noexcept nogil:
    return next_sequence == increment_sequence(last_sequence, 1)

cdef inline int32_t last_sequence_of(int32_t base_sequence, int32_t last_offset_delta) noexcept nogil:
    return -1 if base_sequence == -1 else increment_sequence(base_sequence, last_offset_delta)

cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    """Java's addition of longs."""
    return <int64_t> (<uint64_t> a + <uint64_t> b)

cdef inline int64_t minus(int64_t a, int64_t b) noexcept nogil:
    """Java's subtraction of longs."""
    return <int64_t> (<uint64_t> a - <uint64_t> b)
