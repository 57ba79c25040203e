# Values of Avro as compact JSON (decoding/avro_values is the reference). A schema comes as numbers: each node is its kind
# and what belongs to it, and refers to other nodes by where they begin (decoding/avro_programs makes them).

AVRO_KINDS = (
    "null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "decimal", "date", "moment", "enum",
    "union", "array", "map", "record",
)

cdef enum:
    _A_NULL, _A_BOOLEAN, _A_INT, _A_LONG, _A_FLOAT, _A_DOUBLE, _A_BYTES, _A_STRING, _A_FIXED, _A_DECIMAL, _A_DATE
    _A_MOMENT, _A_ENUM, _A_UNION, _A_ARRAY, _A_MAP, _A_RECORD

cdef enum:
    _A_DEPTH = 45                   # a node is at most two levels of the reference, which ends at 100
    _A_ITEMS = 3                    # and at most three of its items
    _A_KEYS = 64                    # of a map: they are compared with each other
    _A_SLACK = 64                   # all that has no length of its own fits

cdef inline int64_t avro_number(Cursor* c, int64_t limit) noexcept nogil:
    """A zig-zag number: an int below 1 << 32, else a long, for which the limit is 0. Else the cursor is broken."""
    cdef Bytes start = c.at
    cdef uint64_t bits = groups(c, 10)
    if (limit and bits >= <uint64_t> limit) or (c.at - start == 10 and c.at[-1] > 1):
        c.broken = True
    return <int64_t> (bits >> 1) ^ -<int64_t> (bits & 1)

cdef inline void padded(Out* o, int64_t value, int digits) noexcept nogil:
    cdef int i
    for i in range(digits - 1, -1, -1):
        o.at[i] = <uint8_t> (48 + value % 10)
        value //= 10
    o.at += digits

cdef inline bint put_date(Out* o, int64_t days) noexcept nogil:
    """A day since 1970 in the years from 1 to 9999, else False: Python has no others."""
    cdef int64_t era, day, year, part
    if days < -719162 or days > 2932896:
        return False
    # Years that begin in March end with the day that may be missing; 400 of them have always 146,097 days.
    days += 719468
    era = days // 146097
    day = days - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    part = (5 * day + 2) // 153
    padded(o, year + era * 400 + (part >= 10), 4)
    o.at[0] = 45
    o.at += 1
    padded(o, part + 3 if part < 10 else part - 9, 2)
    o.at[0] = 45
    o.at += 1
    padded(o, day - (153 * part + 2) // 5 + 1, 2)
    return True

cdef bint put_moment(Out* o, int64_t value, int64_t per_second, int digits, int shape) noexcept nogil:
    """shape: 0 a time of a day, 1 a timestamp, 2 a local timestamp. False if Python has no such time."""
    cdef int64_t seconds = value // per_second, days
    value %= per_second
    if value < 0:                                   # C rounds to zero
        seconds -= 1
        value += per_second
    days = seconds // 86400 - (seconds % 86400 < 0)
    seconds -= days * 86400
    o.at[0] = 34
    o.at += 1
    if shape == 0:
        if days:
            return False
    elif not put_date(o, days):
        return False
    else:
        o.at[0] = 84
        o.at += 1
    padded(o, seconds // 3600, 2)
    o.at[0] = 58
    o.at += 1
    padded(o, seconds // 60 % 60, 2)
    o.at[0] = 58
    o.at += 1
    padded(o, seconds % 60, 2)
    o.at[0] = 46
    o.at += 1
    padded(o, value, digits)
    text(o, b'Z"' if shape == 1 else b'"')
    return True

cdef bint put_decimal(Out* o, Bytes p, int64_t size, int scale) noexcept nogil:
    """An integer of at most 7 bytes with so many decimals, else False."""
    cdef int64_t value = 0, unit = 1
    cdef int i
    if size > 7:
        return False
    for i in range(size):
        value = value << 8 | p[i]
    o.at[0] = 34
    o.at += 1
    if size and p[0] & 128:
        value = (<int64_t> 1 << 8 * size) - value
        o.at[0] = 45
        o.at += 1
    for i in range(scale):
        unit *= 10
    number(o, value // unit)
    if scale:
        o.at[0] = 46
        o.at += 1
        padded(o, value % unit, scale)
    o.at[0] = 34
    o.at += 1
    return True


cdef class AvroTexts:
    """Values of one schema as JSON. names: the text of fields and symbols; float_of: what 4 bytes are as a float."""
    cdef const int64_t[::1] code
    cdef bytes names
    cdef object float_of
    cdef Cursor c
    cdef Out out
    cdef uint8_t* start
    cdef uint8_t* end
    cdef int64_t items, most

    def __init__(self, const int64_t[::1] code not None, bytes names not None, float_of):
        self.code, self.names, self.float_of = code, names, float_of

    def __dealloc__(self):
        free(self.start)

    def text(self, bytes data not None, int64_t items, int64_t most):
        """A value that becomes at most so many items and characters; None: the reference is to say."""
        self.c.at, self.c.broken = <Bytes> <const char*> data, False
        self.c.end = self.c.at + len(data)
        self.items, self.most, self.out.at = items, most, self.start
        if not self.value(0, 0) or self.c.broken or self.c.at != self.c.end:
            return None
        return (<const char*> self.start)[: self.out.at - self.start].decode()

    cdef bint has_room(self, int64_t size) except -1:
        """Whether so much more text is allowed. Then there is room for it, and for a bit."""
        cdef int64_t used = self.out.at - self.start, room
        cdef uint8_t* grown
        if size > self.most - used:
            return False
        if size + _A_SLACK > self.end - self.out.at:
            room = 2 * used + size + 4 * _A_SLACK
            grown = <uint8_t*> realloc(self.start, room)
            if grown == NULL:
                raise MemoryError
            self.start, self.end, self.out.at = grown, grown + room, grown + used
        return True

    cdef Bytes take(self, int64_t size) noexcept:
        """Step over so many bytes; NULL if there are fewer."""
        cdef Bytes p = self.c.at
        if self.c.broken or size < 0 or size > self.c.end - p:
            return NULL
        self.c.at += size
        return p

    cdef bint value(self, int64_t node, int depth) except -1:
        """Put a value; False: the reference is to do it all."""
        cdef int64_t kind = self.code[node], size, at = 0
        cdef Bytes p
        self.items -= _A_ITEMS
        if self.items < 0 or depth >= _A_DEPTH or not self.has_room(0):
            return False
        if kind == _A_NULL:
            text(&self.out, b"null")
        elif kind == _A_BOOLEAN:
            p = self.take(1)
            if p == NULL or p[0] > 1:
                return False
            truth(&self.out, b"", p[0])
        elif kind == _A_INT or kind == _A_LONG:
            number(&self.out, avro_number(&self.c, self.code[node + 1]))
        elif kind == _A_FLOAT or kind == _A_DOUBLE:
            return self.floating(kind)
        elif kind == _A_BYTES or kind == _A_STRING or kind == _A_FIXED:
            size = self.code[node + 1] if kind == _A_FIXED else avro_number(&self.c, 0)
            p = self.take(size)
            if p == NULL or not self.has_room(6 * size):
                return False
            if kind != _A_STRING:
                bytes_json(&self.out, p, size)
                return True
            text(&self.out, b'"')
            if not utf8_string(&self.out, p, size, False):
                return False
            text(&self.out, b'"')
        elif kind == _A_DECIMAL:
            size = self.code[node + 2]
            if size < 0:
                size = avro_number(&self.c, 0)
            p = self.take(size)
            return p != NULL and put_decimal(&self.out, p, size, <int> self.code[node + 1])
        elif kind == _A_DATE:
            text(&self.out, b'"')
            if not put_date(&self.out, avro_number(&self.c, self.code[node + 1])):
                return False
            text(&self.out, b'"')
        elif kind == _A_MOMENT:
            at = avro_number(&self.c, self.code[node + 1])
            return put_moment(&self.out, at, self.code[node + 2], <int> self.code[node + 3], <int> self.code[node + 4])
        elif kind == _A_ENUM or kind == _A_UNION:
            at = avro_number(&self.c, 1 << 32 if kind == _A_ENUM else 0)
            if self.c.broken or at < 0 or at >= self.code[node + 1]:
                return False
            if kind == _A_UNION:
                return self.value(self.code[node + 2 + at], depth + 1)
            return self.name(node + 2 + 2 * at)
        elif kind == _A_RECORD:
            text(&self.out, b"{}" if not self.code[node + 1] else b"")
            for at in range(node + 2, node + 2 + 3 * self.code[node + 1], 3):
                if not self.name(at) or not self.value(self.code[at + 2], depth + 1):
                    return False
            if not self.has_room(0):
                return False
            text(&self.out, b"}" if self.code[node + 1] else b"")
        else:
            return self.several(node, kind == _A_MAP, depth)
        return not self.c.broken

    cdef bint name(self, int64_t at) except -1:
        """Put a text of the schema."""
        cdef int64_t size = self.code[at + 1]
        if not self.has_room(size):
            return False
        memcpy(self.out.at, <const char*> self.names + self.code[at], size)
        self.out.at += size
        return True

    cdef bint floating(self, int64_t kind) except -1:
        cdef double value
        cdef bytes shown
        cdef Bytes p = self.take(4 if kind == _A_FLOAT else 8)
        if p == NULL:
            return False
        if kind == _A_FLOAT:
            value = self.float_of((<const char*> p)[:4])
        else:
            memcpy(&value, p, 8)
        if value != value or value - value != 0:    # not a number, or infinite: JSON has none of them
            return False
        shown = repr(value).encode()
        memcpy(self.out.at, <const char*> shown, len(shown))
        self.out.at += len(shown)
        return True

    cdef bint several(self, int64_t node, bint is_map, int depth) except -1:
        """Put an array or a map."""
        cdef Piece[_A_KEYS] keys
        cdef int64_t count, size, used = 0
        cdef int i
        cdef Bytes p
        text(&self.out, b"{" if is_map else b"[")
        while True:
            count = avro_number(&self.c, 0)
            if count < 0:
                if count < 0 - self.items:
                    return False
                count = 0 - count
                if avro_number(&self.c, 0) < 0:     # bytes of the block, for those who skip it
                    return False
            if self.c.broken or count < 0 or count > self.items:
                return False
            if not count:
                break
            self.items -= count
            while count:
                count -= 1
                if not self.has_room(0):
                    return False
                if used:
                    text(&self.out, b",")
                if is_map:
                    size = avro_number(&self.c, 0)
                    p = self.take(size)
                    if p == NULL or used == _A_KEYS or not self.has_room(6 * size):
                        return False
                    for i in range(used):
                        if keys[i].size == size and memcmp(keys[i].start, p, size) == 0:
                            return False
                    keys[used].start, keys[used].size = <uint8_t*> p, size
                    text(&self.out, b'"')
                    if not utf8_string(&self.out, p, size, False):
                        return False
                    text(&self.out, b'":')
                used += 1
                if not self.value(self.code[node + 1], depth + 1):
                    return False
        if not self.has_room(0):
            return False
        text(&self.out, b"}" if is_map else b"]")
        return True
