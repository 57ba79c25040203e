# lz4 and snappy as Kafka frames them, into a scratch buffer. Only what Kafka itself writes is decoded here; any other
# frame, and anything not strictly sound, is left to the packages behind format/codecs (the result is a size of -1).

cdef enum:
    MOST_INFLATED = 268435456       # format.codecs.MAX_INFLATED_BYTES
    SLACK = 64                      # copies run over the end by less than this
    LZ4_BLOCK = 65536
    SNAPPY_HEADER = 16

cdef struct Scratch:
    uint8_t* data
    int64_t room                    # without the slack

cdef inline bint make_room(Scratch* s, int64_t size) noexcept nogil:
    cdef uint8_t* grown
    cdef int64_t room
    if size <= s.room:
        return True
    if size > MOST_INFLATED:
        return False
    room = size + size // 2
    grown = <uint8_t*> realloc(s.data, room + SLACK)
    if grown == NULL:
        return False
    s.data, s.room = grown, room
    return True

cdef inline void copy_forward(uint8_t* to, Bytes source, int64_t n) noexcept nogil:
    """n bytes and up to 15 more, 16 at a time."""
    cdef int64_t i = 0
    while i < n:
        memcpy(to + i, source + i, 16)
        i += 16

cdef inline void copy_match(uint8_t* to, int64_t distance, int64_t n) noexcept nogil:
    """n bytes from `distance` back; they may overlap what is being written."""
    cdef uint8_t* source = to - distance
    cdef int64_t i = 0
    if distance >= 16:
        copy_forward(to, source, n)
    elif distance >= 8:
        while i < n:
            memcpy(to + i, source + i, 8)
            i += 8
    else:
        for i in range(n):
            to[i] = source[i]

cdef int64_t lz4_block(Bytes ip, Bytes iend, uint8_t* start) noexcept nogil:
    """One block of at most 64 KiB of output. As strict as LZ4_decompress_safe, or stricter."""
    cdef uint8_t* op = start
    cdef uint8_t* oend = start + LZ4_BLOCK
    cdef int64_t n, distance
    cdef uint8_t token, more
    while ip < iend:
        token = ip[0]
        ip += 1
        n = token >> 4
        if n == 15:
            more = 255
            while more == 255:
                if ip >= iend:
                    return -1
                more = ip[0]
                ip += 1
                n += more
        if n > iend - ip or n > oend - op:
            return -1
        if iend - ip >= n + 16:
            copy_forward(op, ip, n)
        else:
            memcpy(op, ip, n)
        ip += n
        op += n
        if ip == iend:
            return op - start
        if iend - ip < 8 or oend - op < 12:          # a block ends in at least 5 literals
            return -1
        distance = ip[0] | <int64_t> ip[1] << 8
        ip += 2
        n = token & 15
        if n == 15:
            more = 255
            while more == 255:
                if ip >= iend:
                    return -1
                more = ip[0]
                ip += 1
                n += more
        n += 4
        if distance == 0 or distance > op - start or n > oend - op - 5:
            return -1
        copy_match(op, distance, n)
        op += n
    return -1

cdef int64_t lz4_frame(Bytes p, int64_t size, int magic, Scratch* s) noexcept nogil:
    """A frame with 64 KiB independent blocks and nothing else, as Kafka writes it. Returns the size inside, or -1."""
    cdef Bytes end = p + size
    cdef int64_t n, done = 0
    cdef uint32_t block
    if size < 11 or le32(p) != 0x184D2204 or p[4] != 0x60 or p[5] != 0x40 or (magic > 0 and p[6] != 0x82):
        return -1
    p += 7
    while end - p >= 4:
        block = le32(p)
        p += 4
        if block == 0:
            return done
        n = block & 0x7FFFFFFF
        if n == 0 or n > LZ4_BLOCK or n > end - p or not make_room(s, done + LZ4_BLOCK):
            return -1
        if block & 0x80000000ULL:
            memcpy(s.data + done, p, n)
            done += n
        else:
            size = lz4_block(p, p + n, s.data + done)
            if size < 0:
                return -1
            done += size
        p += n
    return -1

cdef int64_t snappy_block(Bytes ip, Bytes iend, Scratch* s, int64_t done) noexcept nogil:
    """One raw block appended at `done`. Returns the size after it, or -1."""
    cdef int64_t want = 0, n, distance
    cdef int i, extra
    cdef uint8_t tag
    cdef uint8_t* op
    cdef uint8_t* start
    cdef uint8_t* oend
    for i in range(5):
        if ip >= iend:
            return -1
        want |= <int64_t> (ip[0] & 127) << 7 * i
        ip += 1
        if ip[-1] < 128:
            break
    else:
        return -1
    if want > MOST_INFLATED or not make_room(s, done + want):
        return -1
    start = op = s.data + done
    oend = start + want
    while ip < iend:
        tag = ip[0]
        ip += 1
        if tag & 3 == 0:
            n = tag >> 2
            if n >= 60:
                extra = <int> n - 59
                if iend - ip < extra:
                    return -1
                n = 0
                for i in range(extra):
                    n |= <int64_t> ip[i] << 8 * i
                ip += extra
            n += 1
            if n > iend - ip or n > oend - op:
                return -1
            if iend - ip >= n + 16:
                copy_forward(op, ip, n)
            else:
                memcpy(op, ip, n)
            ip += n
            op += n
            continue
        if tag & 3 == 1:
            if iend - ip < 1:
                return -1
            n, distance = 4 + (tag >> 2 & 7), (<int64_t> (tag >> 5) << 8) | ip[0]
            ip += 1
        else:
            extra = 2 if tag & 3 == 2 else 4
            if iend - ip < extra:
                return -1
            n, distance = 1 + (tag >> 2), ip[0] | <int64_t> ip[1] << 8
            if extra == 4:
                distance |= <int64_t> ip[2] << 16 | <int64_t> ip[3] << 24
            ip += extra
        if distance == 0 or distance > op - start or n > oend - op:
            return -1
        copy_match(op, distance, n)
        op += n
    return done + want if op == oend else -1

cdef const uint8_t* XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"

cdef int64_t snappy_frame(Bytes p, int64_t size, Scratch* s) noexcept nogil:
    """Xerial framing: a header, then blocks with their sizes. Returns the size inside, or -1."""
    cdef Bytes end = p + size
    cdef int64_t n, done = 0
    cdef int i
    if size < SNAPPY_HEADER:
        return -1
    for i in range(SNAPPY_HEADER):
        if p[i] != XERIAL[i]:
            return -1
    p += SNAPPY_HEADER
    while p < end:
        if end - p < 4:
            return -1
        n = be32(p)
        p += 4
        if n <= 0 or n > end - p:
            return -1
        done = snappy_block(p, p + n, s, done)
        if done < 0:
            return -1
        p += n
    return done

def inflate(str codec not None, const uint8_t[::1] data not None, int magic):
    """What Kafka's own lz4 or snappy frames hold, or None where the packages have to look (tests call this)."""
    cdef Scratch s
    cdef int64_t n
    s.data, s.room = NULL, 0
    if data.shape[0] == 0:
        return None
    n = lz4_frame(&data[0], data.shape[0], magic, &s) if codec == "lz4" else snappy_frame(&data[0], data.shape[0], &s)
    try:
        return None if n < 0 else s.data[:n]
    finally:
        free(s.data)
