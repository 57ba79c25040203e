# Keys and values taken out of entries, in place (format/blanking is the reference).

cdef inline int64_t end_of_data(Bytes b, int64_t size) noexcept nogil:
    """The byte after the last one that is not zero."""
    while size > 0 and b[size - 1] == 0:
        size -= 1
    return size

cdef inline void store_be32(uint8_t* to, uint32_t value) noexcept nogil:
    to[0], to[1], to[2], to[3] = <uint8_t> (value >> 24), <uint8_t> (value >> 16), <uint8_t> (value >> 8), <uint8_t> value

cdef inline void blank_field(Cursor* c) noexcept nogil:
    """A field that `next_record` has checked."""
    cdef int64_t size
    cdef uint8_t* start = <uint8_t*> field(c, &size)
    if size > 0:
        memset(start, 0, size)

cdef inline void blank_record(Record* r) noexcept nogil:
    cdef Cursor c
    cdef int32_t i
    if r.key_size > 0:
        memset(<uint8_t*> r.key, 0, r.key_size)
    if r.value_size > 0:
        memset(<uint8_t*> r.value, 0, r.value_size)
    c.at, c.end, c.broken = r.headers, r.end, False
    for i in range(r.header_count):
        blank_field(&c)
        blank_field(&c)

cdef inline bint blank_plain_records(uint8_t* body, int64_t size, int32_t count) noexcept nogil:
    """False if one of them is not as Kafka writes it, or if they do not fill it: none was changed then."""
    cdef Cursor c
    cdef Record r
    cdef int32_t i
    cdef int again
    for again in range(2):      # all are checked before one is changed: a batch is blanked whole or not at all
        c.at, c.end, c.broken = body, body + size, False
        for i in range(count):
            if not next_record(&c, &r):
                return False
            if again:
                blank_record(&r)
        if c.at != c.end:
            return False
    return True

cdef inline bint is_offset_of_log(int64_t offset, int64_t most) noexcept nogil:
    """format.blanked_numbers.is_offset."""
    return -1 <= offset <= most and offset < (<int64_t> 1 << 48)

cdef inline bint is_small_number(int32_t number) noexcept nogil:
    """format.blanked_numbers.is_small."""
    return -1 <= number < (1 << 24)

cdef inline bint is_marker(Bytes body, int64_t size, int32_t count) noexcept nogil:
    """The records are one marker of a transaction and nothing else: all of it stays."""
    cdef Cursor c
    cdef Record r
    c.at, c.end, c.broken = body, body + size, False
    if count != 1 or not next_record(&c, &r) or c.at != c.end:
        return False
    if r.key_size != 4 or r.value_size != 6 or r.header_count:
        return False
    return (r.key[0] == 0 and r.key[1] < 10 and r.key[2] == 0 and r.key[3] < 2
            and r.value[0] == 0 and r.value[1] < 10 and is_small_number(be32(r.value + 2)))

cdef inline bint blank_plain_message(uint8_t* b, int64_t size, int64_t most_offset) noexcept nogil:
    """A message of magic 0 or 1 whose checksum is right; False: it is a wrapper, or its sizes do not fill it."""
    cdef int magic = b[FRAME_MAGIC]
    cdef int64_t at = LOG_OVERHEAD + (MESSAGE0_SIZE if magic == 0 else MESSAGE1_SIZE), end, key, value
    if b[HEADER_SIZE_UP_TO_MAGIC] & CODEC_MASK or size - at < 8 or not is_offset_of_log(be64(b), most_offset):
        return False
    key = be32(b + at)
    if key > size - at - 8:
        return False
    key = key if key > 0 else 0
    value = be32(b + at + 4 + key)
    value = value if value > 0 else 0
    if at + 8 + key + value != size:
        return False
    end = end_of_data(b + at, size - at)
    memset(b + at + 4, 0, key)
    memset(b + at + 8 + key, 0, value)
    if end and b[at + end - 1] == 0:
        b[at + end - 1] = 1
    store_be32(b + LOG_OVERHEAD + MESSAGE0_CRC, crc32_of(0, b + LOG_OVERHEAD + MESSAGE_CRC_COVERS_FROM,
                                                         size - LOG_OVERHEAD - MESSAGE_CRC_COVERS_FROM))
    return True

cdef inline bint blank_one(uint8_t* b, int64_t size, int64_t open_from_ms, int64_t most_offset) noexcept nogil:
    """A batch whose checksum is right; False: the reference is to do it, and nothing was done."""
    cdef int attributes = be16(b + BATCH_ATTRIBUTES)
    cdef uint8_t* body = b + BATCH_SIZE
    cdef int64_t end
    if not is_offset_of_log(be64(b), most_offset):
        return False
    if attributes & CONTROL_BIT:
        return not attributes & CODEC_MASK and is_marker(body, size - BATCH_SIZE, be32(b + BATCH_RECORDS_COUNT))
    end = end_of_data(body, size - BATCH_SIZE)
    if attributes & CODEC_MASK:
        if be64(b + BATCH_MAX_TIMESTAMP) >= open_from_ms:
            return False
        if be32(b + BATCH_RECORDS_COUNT) != be32(b + BATCH_LAST_OFFSET_DELTA) + 1:  # doctor opens it, to know its offsets
            return False
        memset(body, 0, size - BATCH_SIZE)
    elif not blank_plain_records(body, size - BATCH_SIZE, be32(b + BATCH_RECORDS_COUNT)):
        return False
    # Whoever looks for preallocated zeros at the end of a file finds as many as before: they begin behind this byte.
    if end and body[end - 1] == 0:
        body[end - 1] = 1
    store_be32(b + BATCH_CRC, crc32c_of(0, b + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM))
    return True

def blank_batches(uint8_t[::1] data not None, int64_t at, int64_t stop, int64_t open_from_ms, int64_t most_offset):
    """format.blanking.blank_entry of the entries that begin in data[at:stop]: (where the next entry begins, why).

    why: DONE, or REFERENCE in front of a wrapper, of a compressed batch whose records are to stay readable, of an entry
    that is not as Kafka writes it, and of one whose checksum is wrong.
    """
    cdef int64_t have = data.shape[0], size
    cdef uint8_t* b
    cdef int why = _DONE
    if not 0 <= at <= have:
        raise ValueError("at is to lie in the data")
    if at >= stop:
        return at, why
    if have == 0:
        return at, REFERENCE
    b = &data[0]
    with nogil:
        while at < stop:
            why = _REFERENCE
            if have - at <= HEADER_SIZE_UP_TO_MAGIC or b[at + FRAME_MAGIC] > 2:
                break
            size = <int64_t> be32(b + at + FRAME_LENGTH) + LOG_OVERHEAD
            if size < (BATCH_SIZE if b[at + FRAME_MAGIC] == 2 else LOG_OVERHEAD + MIN_LENGTH) or size > have - at:
                break
            if not proved(b + at, size):
                break
            if not (blank_one(b + at, size, open_from_ms, most_offset) if b[at + FRAME_MAGIC] == 2
                    else blank_plain_message(b + at, size, most_offset)):
                break
            at, why = at + size, _DONE
    return at, why
