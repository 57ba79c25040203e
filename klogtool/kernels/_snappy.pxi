# Raw snappy blocks as libsnappy makes them, in Kafka's framing (format/codecs/snappy_block is the reference).

cdef enum:
    SNAPPY_BLOCK = 32768                # what snappy-java compresses at a time
    SNAPPY_MARGIN = 15                  # bytes before the end in which no match is looked for: le32 may read there
    SNAPPY_LEAST_BITS = 8
    SNAPPY_MOST_BITS = 14
    SNAPPY_FACTOR = 0x1E35A7BD
    SNAPPY_WORST = 4096                 # a block is longer than its data by less than this

cdef inline uint8_t* put_snappy_literal(uint8_t* to, Bytes data, int64_t size) noexcept nogil:
    cdef int64_t n = size - 1
    if n < 60:
        to[0] = <uint8_t> (n << 2)
        to += 1
    elif n < 256:
        to[0], to[1] = 60 << 2, <uint8_t> n
        to += 2
    else:
        to[0], to[1], to[2] = 61 << 2, <uint8_t> n, <uint8_t> (n >> 8)
        to += 3
    memcpy(to, data, size)
    return to + size

cdef inline uint8_t* put_snappy_copy(uint8_t* to, int64_t distance, int64_t size) noexcept nogil:
    """In parts of 64 bytes at most, and so that none is left that is shorter than four."""
    cdef int64_t part
    while size > 0:
        part = size
        if size > 64:
            part = 64 if size >= 68 else 60
        if part < 12 and distance < 2048:
            to[0], to[1] = <uint8_t> ((distance >> 8) << 5 | (part - 4) << 2 | 1), <uint8_t> distance
            to += 2
        else:
            to[0], to[1], to[2] = <uint8_t> ((part - 1) << 2 | 2), <uint8_t> distance, <uint8_t> (distance >> 8)
            to += 3
        size -= part
    return to

cdef inline int64_t snappy_swap(uint16_t* table, uint32_t mask, Bytes data, int64_t place) noexcept nogil:
    """Remember a place; the one that was remembered for its hash."""
    cdef uint32_t n = ((le32(data + place) * <uint32_t> SNAPPY_FACTOR) >> (32 - SNAPPY_MOST_BITS)) & mask
    cdef int64_t before = table[n]
    table[n] = <uint16_t> place
    return before

cdef uint8_t* put_snappy_block(uint8_t* to, Bytes data, int64_t size, uint16_t* table) noexcept nogil:
    """At most 64 KiB of data; the end of what was put. table: 1 << SNAPPY_MOST_BITS places."""
    cdef int64_t at = 0, limit = size - SNAPPY_MARGIN, place, before, step, skip, n
    cdef int bits = SNAPPY_LEAST_BITS
    cdef uint32_t mask
    # A small block has a small table: to clear a large one would take longer than to compress the block.
    while bits < SNAPPY_MOST_BITS and (<int64_t> 1) << bits < size:
        bits += 1
    mask = (<uint32_t> 1 << bits) - 1
    memset(table, 0, (<size_t> 1 << bits) * sizeof(uint16_t))
    to = put_groups(to, size)
    while at < limit:
        place, skip, before = at + 1, 32, -1
        while True:
            # After 32 bytes without a match only every second byte is tried, after 32 more every third: data that
            # does not compress passes fast.
            step = skip >> 5
            skip += step
            if place + step > limit:
                break
            before = snappy_swap(table, mask, data, place)
            # A place that was never set is 0, the start of the block; only the bytes tell whether they match.
            if le32(data + before) == le32(data + place):
                break
            before = -1
            place += step
        if before < 0:
            break
        to = put_snappy_literal(to, data + at, place - at)
        at = place
        # A copy may follow a copy. A literal begins only where nothing matches right behind one.
        while le32(data + before) == le32(data + at):
            n = 4
            while at + n < size and data[before + n] == data[at + n]:
                n += 1
            to = put_snappy_copy(to, at - before, n)
            at += n
            if at >= limit:
                break
            snappy_swap(table, mask, data, at - 1)
            before = snappy_swap(table, mask, data, at)
    if at < size:
        to = put_snappy_literal(to, data + at, size - at)
    return to

def compress_snappy(const uint8_t[::1] data not None):
    """format.codecs.snappy.compress: a header and blocks of 32 KiB."""
    cdef int64_t size = data.shape[0], at = 0, part
    cdef int64_t room = SNAPPY_HEADER + size + size // 6 + (size // SNAPPY_BLOCK + 1) * SNAPPY_WORST
    cdef uint16_t* table
    cdef uint8_t* start
    cdef uint8_t* to
    cdef uint8_t* end
    cdef Bytes b
    if size == 0:
        return PyBytes_FromStringAndSize(<const char*> XERIAL, SNAPPY_HEADER)
    table, start = <uint16_t*> malloc((<size_t> 1 << SNAPPY_MOST_BITS) * sizeof(uint16_t)), <uint8_t*> malloc(room)
    if table == NULL or start == NULL:
        free(table)
        free(start)
        raise MemoryError
    b = &data[0]
    with nogil:
        memcpy(start, XERIAL, SNAPPY_HEADER)
        to = start + SNAPPY_HEADER
        while at < size:
            part = min(size - at, <int64_t> SNAPPY_BLOCK)
            end = put_snappy_block(to + 4, b + at, part, table)
            put_number(to, end - to - 4, 4)
            to = end
            at += part
    try:
        return PyBytes_FromStringAndSize(<const char*> start, to - start)
    finally:
        free(table)
        free(start)
