# The next batch that proves itself (format/resync is the reference).

cdef enum:
    LARGEST_SOUGHT = 134217728
    LARGEST_KEY = 1048576
    GAVE_UP = -2

cdef inline bint sizes_fit(Bytes b, int64_t have, int64_t size, int magic) noexcept nogil:
    """Whether a message's key and value, as far as the bytes tell, fill it exactly."""
    cdef int64_t at = LOG_OVERHEAD + (MESSAGE0_SIZE if magic == 0 else MESSAGE1_SIZE), field_size
    cdef int most
    for most in range(2, 0, -1):                    # sizes that are yet to come
        if size - at < most * 4:
            return False
        if have - at < 4:
            return True
        field_size = be32(b + at)
        if field_size > (LARGEST_KEY if most == 2 else LARGEST_SOUGHT):
            return False
        at += 4 + (field_size if field_size > 0 else 0)
    return at == size

cdef inline bint plausible(Bytes b, int64_t have, int64_t end, int64_t lowest) noexcept nogil:
    """Whether an entry may begin at b; `have` bytes are there (18 at least), the log ends after `end`."""
    cdef int64_t length = be32(b + FRAME_LENGTH), size = length + LOG_OVERHEAD, delta, count
    cdef uint64_t ahead = <uint64_t> be64(b) - <uint64_t> lowest
    cdef int attributes
    if (end <= HEADER_SIZE_UP_TO_MAGIC or length < MIN_LENGTH or length > end - LOG_OVERHEAD
            or size > LARGEST_SOUGHT or be64(b) < lowest or ahead > 0x80000000ULL):
        return False
    if b[FRAME_MAGIC] < 2:
        return b[HEADER_SIZE_UP_TO_MAGIC] & 0xF0 == 0 and sizes_fit(b, have, size, b[FRAME_MAGIC])
    if size < BATCH_SIZE or have < BATCH_SIZE:
        return size >= BATCH_SIZE
    attributes, delta, count = be16(b + BATCH_ATTRIBUTES), be32(b + BATCH_LAST_OFFSET_DELTA), be32(b + BATCH_RECORDS_COUNT)
    return (attributes & ~0x7F == 0 and attributes & CODEC_MASK <= CODEC_ZSTD and delta >= 0 and 0 <= count <= delta + 1
            and be64(b + BATCH_PRODUCER_ID) >= -1 and (count == 0) == (size == BATCH_SIZE)
            and (attributes & CODEC_MASK != CODEC_NONE or size - BATCH_SIZE >= SMALLEST_BODY * count))

cdef inline bint proved(Bytes b, int64_t size) noexcept nogil:
    if b[FRAME_MAGIC] < 2:
        return (crc32_of(0, b + LOG_OVERHEAD + MESSAGE_CRC_COVERS_FROM, size - LOG_OVERHEAD - MESSAGE_CRC_COVERS_FROM)
                == <uint32_t> be32(b + LOG_OVERHEAD + MESSAGE0_CRC))
    return crc32c_of(0, b + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM) == <uint32_t> be32(b + BATCH_CRC)

cdef inline void make_head(head* h, int64_t lowest) noexcept nogil:
    """An offset of a segment begins with the bytes of the lowest, or those of 2^32 more: mostly zeros."""
    h.magic, h.length, h.least, h.most = FRAME_MAGIC, FRAME_LENGTH, MIN_LENGTH, LARGEST_SOUGHT >> 24
    h.high = <uint32_t> (<uint64_t> lowest >> 32)

def find_batch(const uint8_t[::1] data not None, int64_t at, int64_t stop, int64_t lowest, int64_t end):
    """format.resync.find_batch: (position or -1, bytes needed to tell, 0 if it proved itself)."""
    cdef int64_t have = data.shape[0], size = 0, needed = 0, found = -1
    cdef int64_t left = 16 * have + 67108864        # format.resync.checksum_budget
    cdef Bytes b
    cdef head h
    if have <= HEADER_SIZE_UP_TO_MAGIC or at < 0 or end < 0:
        return -1, 0
    b = &data[0]
    if stop > have - HEADER_SIZE_UP_TO_MAGIC:
        stop = have - HEADER_SIZE_UP_TO_MAGIC
    make_head(&h, lowest)
    with nogil:
        at = next_head(b, at, stop, have, &h)
        while at < stop:
            if b[at + FRAME_MAGIC] <= 2 and plausible(b + at, have - at, end - at, lowest):
                size = <int64_t> be32(b + at + FRAME_LENGTH) + LOG_OVERHEAD
                # It may be the batch: only all of its bytes tell. The caller comes back with so many.
                if size > have - at:
                    found, needed = at, size
                    break
                # Hostile bytes can look like a header everywhere: without a budget, checksums would take the square of the size.
                left -= size
                if left < 0:
                    found = GAVE_UP
                    break
                if proved(b + at, size):
                    found = at
                    break
            # One byte on, not behind it: a header without a right checksum says nothing about its length.
            at = next_head(b, at + 1, stop, have, &h)
    return found, needed

def find_head(const uint8_t[::1] data not None, int64_t at, int64_t stop, int64_t lowest, int64_t end):
    """format.resync.find_head: the first plausible position, or -1."""
    cdef int64_t have = data.shape[0], found = -1
    cdef Bytes b
    cdef head h
    if have <= HEADER_SIZE_UP_TO_MAGIC or at < 0 or end < 0:
        return -1
    b = &data[0]
    if stop > have - HEADER_SIZE_UP_TO_MAGIC:
        stop = have - HEADER_SIZE_UP_TO_MAGIC
    make_head(&h, lowest)
    with nogil:
        at = next_head(b, at, stop, have, &h)
        while at < stop:
            if b[at + FRAME_MAGIC] <= 2 and plausible(b + at, have - at, end - at, lowest):
                found = at
                break
            at = next_head(b, at + 1, stop, have, &h)
    return found

cdef inline bint plausible_batch(Bytes b, int64_t have, int64_t end, int64_t lowest) noexcept nogil:
    """Whether the header of a plausible record batch lies at b."""
    return have >= BATCH_SIZE and b[FRAME_MAGIC] == 2 and plausible(b, have, end, lowest)

def walk_unproved(const uint8_t[::1] data not None, int64_t at, int64_t lowest, int64_t end, int64_t last_offset):
    """format.resync.walk_unproved: (where the next batch begins, how many they are, their last offset)."""
    cdef int64_t have = data.shape[0], count = 0, size, first, last
    cdef Bytes b
    if at < 0 or end < 0 or have - at < BATCH_SIZE or not plausible_batch(&data[at], have - at, end - at, lowest):
        return at, 0, last_offset
    b = &data[0]
    with nogil:
        while True:
            size = <int64_t> be32(b + at + FRAME_LENGTH) + LOG_OVERHEAD
            first = be64(b + at)
            last = plus(first, be32(b + at + BATCH_LAST_OFFSET_DELTA))
            if (first <= last_offset or last < first or size < BATCH_SIZE or size > have - at
                    or not plausible_batch(b + at + size, have - at - size, end - at - size, lowest)
                    or be64(b + at + size) <= last):
                break
            at, count, last_offset = at + size, count + 1, last
    return at, count, last_offset
