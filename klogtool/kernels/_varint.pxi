# Varints, read at a cursor and put (format/varint is the reference). A cursor's flag stays: read field after field, look
# once.

cdef struct Cursor:
    Bytes at
    Bytes end
    bint broken

cdef inline uint64_t groups(Cursor* c, int most) noexcept nogil:
    """The groups of seven bits of an unsigned number of so many bytes at most; bits past the 64th are dropped."""
    cdef uint64_t bits = 0, byte
    cdef int i
    for i in range(most):
        if c.at >= c.end:
            break
        byte = c.at[0]
        c.at += 1
        bits |= (byte & 127) << 7 * i
        if byte < 128:
            return bits
    c.broken = True
    return 0

cdef inline int32_t varint(Cursor* c) noexcept nogil:
    """Zig-zag, 5 bytes at most; bits that an int has no room for are dropped."""
    cdef uint32_t bits = <uint32_t> groups(c, 5)
    return <int32_t> (bits >> 1) ^ -<int32_t> (bits & 1)

cdef inline int64_t varlong(Cursor* c) noexcept nogil:
    cdef uint64_t bits = groups(c, 10)
    return <int64_t> (bits >> 1) ^ -<int64_t> (bits & 1)

cdef inline uint8_t* put_groups(uint8_t* to, uint64_t bits) noexcept nogil:
    """An unsigned number; where it ends."""
    while bits > 127:
        to[0] = <uint8_t> (bits & 127 | 128)
        to += 1
        bits >>= 7
    to[0] = <uint8_t> bits
    return to + 1

cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)

cdef inline int zigzag_size(int64_t value) noexcept nogil:
    """Bytes of a varint or varlong."""
    cdef uint64_t bits = zigzag(value)
    cdef int size = 1
    while bits > 127:
        bits >>= 7
        size += 1
    return size
