# Text into a buffer whose room was asked for beforehand.

cdef inline void text(Out* o, const char* s) noexcept nogil:
    cdef size_t n = strlen(s)
    memcpy(o.at, s, n)
    o.at += n

cdef uint8_t[200] DIGITS

cdef void make_digits():
    cdef int i
    for i in range(100):
        DIGITS[2 * i], DIGITS[2 * i + 1] = 48 + i // 10, 48 + i % 10

make_digits()

cdef inline void number(Out* o, int64_t value) noexcept nogil:
    cdef uint64_t v = <uint64_t> value, w
    cdef int n = 1
    cdef uint8_t* p
    if value < 0:
        o.at[0] = 45
        o.at += 1
        v = 0 - v
    w = v
    while w >= 10:
        if w < 100:
            n += 1
            break
        if w < 1000:
            n += 2
            break
        if w < 10000:
            n += 3
            break
        w //= 10000
        n += 4
    p = o.at + n
    o.at = p
    while v >= 100:
        p -= 2
        memcpy(p, &DIGITS[2 * (v % 100)], 2)
        v //= 100
    if v >= 10:
        memcpy(p - 2, &DIGITS[2 * v], 2)
    else:
        p[-1] = <uint8_t> (48 + v)

cdef inline void named(Out* o, const char* name, int64_t value) noexcept nogil:
    text(o, name)
    number(o, value)

cdef inline void truth(Out* o, const char* name, bint value) noexcept nogil:
    text(o, name)
    if value:
        text(o, b"true")
    else:
        text(o, b"false")

cdef inline int utf8_step(Bytes p, Bytes end, bint* good) noexcept nogil:
    """How many bytes Java's decoder takes at once, and whether they are a character (else one U+FFFD)."""
    cdef uint8_t a = p[0], b = p[1] if end - p > 1 else 0
    cdef int size = 1, bad = 0, i
    if a < 0x80:
        good[0] = True
        return 1
    if 0xC2 <= a <= 0xDF:
        size = 2
    elif 0xE0 <= a <= 0xEF:
        size, bad = 3, a == 0xE0 and b < 0xA0
    elif 0xF0 <= a <= 0xF4:
        size, bad = 4, (a == 0xF0 and b < 0x90) or (a == 0xF4 and b > 0x8F)
    else:
        bad = 1
    if not bad:
        for i in range(1, size):
            if i >= end - p or p[i] & 0xC0 != 0x80:
                bad = i
                break
        if not bad and a == 0xED and b >= 0xA0:
            bad = 3                                 # an encoded surrogate is one U+FFFD
    good[0] = bad == 0
    return bad if bad else size

cdef void java_utf8(Out* o, Bytes p, int64_t n) noexcept nogil:
    """Bytes as Java's String prints them; needs 3 n + 8 bytes of room."""
    cdef Bytes end = p + n
    cdef bint good = False
    cdef int step
    while p < end:
        while end - p >= 32 and ascii_32(p):
            memcpy(o.at, p, 32)
            o.at += 32
            p += 32
        while end - p >= 8 and le64(p) & 0x8080808080808080ULL == 0:
            memcpy(o.at, p, 8)
            o.at += 8
            p += 8
        if p >= end:
            break
        step = utf8_step(p, end, &good)
        if good:
            memcpy(o.at, p, step)
            o.at += step
        else:
            text(o, b"\xEF\xBF\xBD")
        p += step
