# Walks over entries: where they lie (format/framing is the reference), and checksums (format/checksums is).

RUNS_IN_THREADS = True              # loops over many bytes let go of the interpreter

cdef enum:
    WORTH_LETTING_GO = 65536        # bytes: to let other threads have the interpreter meanwhile takes time, too

def crc32c(const uint8_t[::1] data not None, uint32_t so_far=0):
    """CRC-32C of the bytes, unsigned; so_far: that of the bytes before them."""
    cdef int64_t size = data.shape[0]
    if size == 0:
        return so_far
    if size < WORTH_LETTING_GO:
        return crc32c_of(so_far, &data[0], size)
    with nogil:
        so_far = crc32c_of(so_far, &data[0], size)
    return so_far

def crc32(const uint8_t[::1] data not None, uint32_t so_far=0):
    """CRC-32 of the bytes, unsigned; so_far: that of the bytes before them."""
    return crc32_of(so_far, &data[0], data.shape[0]) if data.shape[0] else so_far

CRC32C_WAYS = ("tables", "the processor's instruction", "the processor's carry-less products")

def crc32c_ways():
    """How CRC-32C can be computed here, names of CRC32C_WAYS, the fastest last: that is how it is."""
    return CRC32C_WAYS[:crc_way + 1]

def crc32c_in_way(str way not None, const uint8_t[::1] data not None, uint32_t so_far=0):
    """CRC-32C in one of `crc32c_ways()`: for tests, who want to see the others, too."""
    cdef int number = crc32c_ways().index(way)
    return crc32c_by(number, so_far, &data[0], data.shape[0]) if data.shape[0] else so_far

def whole_frames(const uint8_t[::1] data not None, int64_t end):
    """format.framing.whole_frames: (end of the last whole entry, bytes needed for the next, 0 if there is none)."""
    cdef int64_t at = 0, have = data.shape[0], length, needed = 0
    cdef Bytes b
    if have == 0:
        return 0, (HEADER_SIZE_UP_TO_MAGIC + 1 if end > HEADER_SIZE_UP_TO_MAGIC else 0)
    b = &data[0]
    with nogil:
        while True:
            if have - at <= HEADER_SIZE_UP_TO_MAGIC < end - at:
                needed = HEADER_SIZE_UP_TO_MAGIC + 1
                break
            if end - at <= HEADER_SIZE_UP_TO_MAGIC:
                break
            length = be32(b + at + FRAME_LENGTH)
            if length < MIN_LENGTH or length > end - at - LOG_OVERHEAD:
                break
            if length + LOG_OVERHEAD > have - at:
                needed = length + LOG_OVERHEAD
                break
            at += length + LOG_OVERHEAD
    return at, needed
