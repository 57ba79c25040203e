# lz4, snappy and zstd as Kafka frames them, into a scratch buffer. Only what Kafka itself writes is decoded here; any
# other frame, and anything not strictly sound, is left to the reference (the result is a size of -1):
# format/codecs/lz4, format/codecs/snappy, format/codecs/zstd.

cdef enum:
    MOST_INFLATED = 268435456       # format.codecs.MAX_INFLATED_BYTES
    SLACK = 64                      # copies run over the end by less than this
    LZ4_BLOCK = 65536
    SNAPPY_HEADER = 16
    ZSTD_HEADER = 6
    ZSTD_BLOCK = 131072
    ZSTD_MOST_WINDOW_LOG = 27       # libzstd's own limit where it inflates a stream

cdef inline void empty_scratch(Scratch* s) noexcept nogil:
    memset(s, 0, sizeof(Scratch))

cdef inline void free_scratch(Scratch* s) noexcept nogil:
    free(s.data)
    if s.zstd.context != NULL:
        s.zstd.release(s.zstd.context)
    empty_scratch(s)

cdef inline bint make_room(Scratch* s, int64_t size) noexcept nogil:
    cdef uint8_t* grown
    cdef int64_t room
    if size <= s.room:
        return True
    if size > MOST_INFLATED:        # the reference says so, and needs as much once more
        free(s.data)
        s.data, s.room = NULL, 0
        return False
    room = min(size + size // 2, <int64_t> MOST_INFLATED)
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

cdef inline void copy_18(uint8_t* to, Bytes source) noexcept nogil:
    """18 bytes from 8 back, or further."""
    memcpy(to, source, 8)
    memcpy(to + 8, source + 8, 8)
    memcpy(to + 16, source + 16, 2)

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
        if n < 15 and token & 15 < 15 and iend - ip >= 32 and oend - op >= 64:
            # Most sequences: few literals, a short match, far from either end. What follows checks more, and copies less.
            memcpy(op, ip, 16)
            distance = ip[n] | <int64_t> ip[n + 1] << 8
            if 8 <= distance <= op + n - start:
                ip += n + 2
                op += n
                copy_18(op, op - distance)
                op += (token & 15) + 4
                continue
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

cdef int64_t snappy_block(Bytes ip, Bytes iend, int64_t want, Scratch* s, int64_t done) noexcept nogil:
    """The elements of one raw block, `want` bytes, appended at `done`. Returns the size after them, or -1."""
    cdef int64_t n, distance
    cdef int i, extra
    cdef uint8_t tag
    cdef uint8_t* op
    cdef uint8_t* start
    cdef uint8_t* oend
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
    cdef Cursor c
    cdef int64_t n, want, done = 0
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
        c.at, c.end, c.broken = p, p + n, False
        want = <int64_t> groups(&c, 5)
        done = -1 if c.broken else snappy_block(c.at, c.end, want, s, done)
        if done < 0:
            return -1
        p += n
    return done

cdef int64_t zstd_most(Bytes p, int64_t size) noexcept nogil:
    """The most that one frame without content size, dictionary or checksum inflates to; -1 if it is no such frame.

    Within what is let through here, libzstd judges a frame in one call as it does piece by piece (the way in format).
    """
    cdef int64_t at = ZSTD_HEADER, most = 0, window, n
    cdef int kind, header
    if size < ZSTD_HEADER or le32(p) != 0xFD2FB528ULL or p[4] != 0 or (p[5] >> 3) + 10 >= ZSTD_MOST_WINDOW_LOG:
        return -1
    window = (<int64_t> 1) << ((p[5] >> 3) + 10)
    window += (window >> 3) * (p[5] & 7)
    while size - at >= 3:
        header = p[at] | <int> p[at + 1] << 8 | <int> p[at + 2] << 16
        kind, n = header >> 1 & 3, header >> 3
        if kind == 3 or n > ZSTD_BLOCK:
            return -1
        at += 3 + (1 if kind == 1 else n)
        most += ZSTD_BLOCK if kind == 2 else n
        if header & 1:
            return most if at == size and 0 < most <= window else -1
    return -1

cdef int64_t zstd_frame(Bytes p, int64_t size, Scratch* s) noexcept nogil:
    """The size inside, or -1."""
    cdef int64_t most
    cdef uint8_t* copy
    cdef size_t done
    if s.zstd.decompress == NULL or size > MOST_INFLATED:
        return -1
    if s.zstd.context == NULL:
        s.zstd.context = s.zstd.create()
    most = zstd_most(p, size)
    if s.zstd.context == NULL or most < 0 or not make_room(s, most + size):
        return -1
    # Mapped bytes may change under a library that does not expect it. A copy costs next to nothing.
    copy = s.data + most
    memcpy(copy, p, size)
    done = s.zstd.decompress(s.zstd.context, s.data, most, copy, size)
    return -1 if s.zstd.is_error(done) else <int64_t> done

cdef class Workspace:
    """What a thread keeps from call to call: room to inflate in, and libzstd once it is known where that is."""

    cdef Scratch scratch
    cdef bint busy

    def __cinit__(self):
        empty_scratch(&self.scratch)

    def use_zstd(self, create, release, decompress, is_error):
        """The addresses of libzstd's functions (format.codecs.zstd.find_functions)."""
        cdef Zstd* z = &self.scratch.zstd
        self.take()
        if z.context == NULL:
            z.create = <void* (*)() noexcept nogil> <void*> <size_t> create
            z.release = <size_t (*)(void*) noexcept nogil> <void*> <size_t> release
            z.is_error = <unsigned int (*)(size_t) noexcept nogil> <void*> <size_t> is_error
            z.decompress = <size_t (*)(void*, void*, size_t, const void*, size_t) noexcept nogil> <void*> <size_t> decompress
        self.busy = False

    cdef int take(self) except -1:
        if self.busy:
            raise ValueError("another thread is working in it")
        self.busy = True
        return 0

    def __dealloc__(self):
        free_scratch(&self.scratch)

def inflate(str codec not None, const uint8_t[::1] data not None, int magic, Workspace work=None):
    """What Kafka's own frames hold, or None where the packages have to look (tests call this)."""
    cdef Scratch* s
    cdef int64_t n
    if data.shape[0] == 0:
        return None
    if work is None:
        work = Workspace()
    s = &work.scratch
    if codec == "zstd":
        n = zstd_frame(&data[0], data.shape[0], s)
    elif codec == "lz4":
        n = lz4_frame(&data[0], data.shape[0], magic, s)
    else:
        n = snappy_frame(&data[0], data.shape[0], s)
    return None if n < 0 else s.data[:n]
