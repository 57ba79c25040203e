# Records out of JSON lines, as dump-log prints them, into a batch (broker/appending/records is the reference,
# and format/batch_filling of the batch). What
# is not plain is left to the reference, with nothing of the line taken.

cdef enum:
    MOST_DEPTH = 32
    MOST_DIGITS = 18                # of a number; that many always fit
    TEXT_EXTRA = 16                 # that a text may be written over its end
    MOST_RECORD_OVERHEAD = 21       # DefaultRecord.MAX_RECORD_OVERHEAD

cdef enum:                          # the members of a record, each once in a line
    HAS_TYPE = 1
    HAS_CONTROL = 2
    HAS_KEY = 4
    HAS_VALUE = 8
    HAS_HEADERS = 16
    HAS_TIMESTAMP = 32
    NOT_LOOKED_AT = 64              # from here on those that dump-log prints, and a leader gives anew

cdef struct Text:                   # of a string, without quotes and escapes; size -1: null
    Bytes at
    int64_t size

cdef struct Json:                   # a line; room: where texts go, which together are no longer than the line
    Bytes at
    Bytes end
    uint8_t* room

cdef struct Line:
    int seen
    bint is_batch, is_control
    int64_t timestamp, header_count
    Text key, value

cdef int8_t[256] SIXES              # what a character of base64 stands for, -1: none

cdef void make_sixes():
    cdef int i
    memset(SIXES, 255, 256)
    for i in range(64):
        SIXES[<uint8_t> BASE64[i]] = i

make_sixes()

cdef inline void skip_blanks(Json* j) noexcept nogil:
    while j.at < j.end and (j.at[0] == 32 or j.at[0] == 9 or j.at[0] == 13):
        j.at += 1

cdef inline bint comes(Json* j, uint8_t mark) noexcept nogil:
    """Whether that is next; it is stepped over, with blanks before it."""
    skip_blanks(j)
    if j.at < j.end and j.at[0] == mark:
        j.at += 1
        return True
    return False

cdef inline bint comes_word(Json* j, const char* word) noexcept nogil:
    cdef int64_t size = strlen(word)
    skip_blanks(j)
    if j.end - j.at < size or memcmp(j.at, word, size) != 0:
        return False
    j.at += size
    return True

cdef inline bint is_named(Text* t, const char* name) noexcept nogil:
    cdef int64_t size = strlen(name)
    return t.size == size and memcmp(t.at, name, size) == 0

cdef int hex_of(Json* j) noexcept nogil:
    """Four hexadecimal digits, stepped over; -1 where there are none."""
    cdef int value = 0, i
    cdef uint8_t a
    if j.end - j.at < 4:
        return -1
    for i in range(4):
        a = j.at[i]
        if 48 <= a <= 57:
            a -= 48
        elif 97 <= (a | 32) <= 102:
            a = (a | 32) - 87
        else:
            return -1
        value = value << 4 | a
    j.at += 4
    return value

cdef bint code_point(Json* j) noexcept nogil:
    """What follows a backslash and a u, as UTF-8; False for half a character."""
    cdef int high = hex_of(j), low
    cdef uint8_t* to = j.room
    if high < 0 or 0xDC00 <= high <= 0xDFFF:
        return False
    if 0xD800 <= high <= 0xDBFF:
        if j.end - j.at < 2 or j.at[0] != 92 or j.at[1] != 117:
            return False
        j.at += 2
        low = hex_of(j)
        if not 0xDC00 <= low <= 0xDFFF:
            return False
        high = 0x10000 + ((high - 0xD800) << 10) + low - 0xDC00
        to[0], to[1] = 0xF0 | high >> 18, 0x80 | (high >> 12 & 63)
        to[2], to[3] = 0x80 | (high >> 6 & 63), 0x80 | (high & 63)
        j.room += 4
    elif high < 0x80:
        to[0] = <uint8_t> high
        j.room += 1
    elif high < 0x800:
        to[0], to[1] = 0xC0 | high >> 6, 0x80 | (high & 63)
        j.room += 2
    else:
        to[0], to[1], to[2] = 0xE0 | high >> 12, 0x80 | (high >> 6 & 63), 0x80 | (high & 63)
        j.room += 3
    return True

cdef bint unescape(Json* j) noexcept nogil:
    """What follows a backslash."""
    cdef uint8_t a
    if j.at == j.end:
        return False
    a = j.at[0]
    j.at += 1
    if a == 117:
        return code_point(j)
    if a == 110:
        a = 10
    elif a == 114:
        a = 13
    elif a == 116:
        a = 9
    elif a == 98:
        a = 8
    elif a == 102:
        a = 12
    elif a != 34 and a != 92 and a != 47:
        return False
    j.room[0] = a
    j.room += 1
    return True

cdef bint json_text(Json* j, Text* t) noexcept nogil:
    """A string."""
    cdef bint good = False
    cdef int step
    if not comes(j, 34):
        return False
    t.at = j.room
    while j.at < j.end:
        if j.end - j.at >= TEXT_EXTRA:
            step = json_plain_before(j.at)
            memcpy(j.room, j.at, TEXT_EXTRA)
            j.room += step
            j.at += step
            if step == TEXT_EXTRA:
                continue
        if j.at[0] == 34:
            j.at += 1
            t.size = j.room - t.at
            return True
        if j.at[0] == 92:
            j.at += 1
            if not unescape(j):
                return False
            continue
        if j.at[0] < 0x20:
            return False
        step = utf8_step(j.at, j.end, &good)
        if not good:
            return False
        memcpy(j.room, j.at, step)
        j.room += step
        j.at += step
    return False

cdef bint json_integer(Json* j, int64_t* value) noexcept nogil:
    """A whole number of not too many digits."""
    cdef bint is_negative = comes(j, 45)
    cdef Bytes start = j.at
    value[0] = 0
    while j.at < j.end and 48 <= j.at[0] <= 57:
        if j.at - start == MOST_DIGITS:
            return False
        value[0] = 10 * value[0] + j.at[0] - 48
        j.at += 1
    if is_negative:
        value[0] = -value[0]
    if j.at == start or (start[0] == 48 and j.at - start > 1):
        return False
    return j.at == j.end or (j.at[0] != 46 and j.at[0] | 32 != 101)     # no fraction, no exponent

cdef bint json_skip(Json* j, int depth) noexcept nogil:
    """Any value that nobody asks for."""
    cdef Text t
    cdef int64_t number
    if depth == MOST_DEPTH:
        return False
    skip_blanks(j)
    if j.at == j.end:
        return False
    if j.at[0] == 34:
        return json_text(j, &t)
    if comes(j, 123):
        return comes(j, 125) or json_skip_all(j, depth, 125)
    if comes(j, 91):
        return comes(j, 93) or json_skip_all(j, depth, 93)
    return comes_word(j, b"true") or comes_word(j, b"false") or comes_word(j, b"null") or json_integer(j, &number)

cdef bint json_skip_all(Json* j, int depth, uint8_t end) noexcept nogil:
    """The members of an object, or elements of a list, up to its end."""
    cdef Text t
    while True:
        if end == 125 and not (json_text(j, &t) and comes(j, 58)):
            return False
        if not json_skip(j, depth + 1):
            return False
        if not comes(j, 44):
            return comes(j, end)

cdef bint from_base64(Text* t) noexcept nogil:
    """In its place."""
    cdef Bytes p = t.at, end = t.at + t.size
    cdef uint8_t* to = <uint8_t*> t.at
    cdef int padding = 0, i
    cdef uint32_t v
    if t.size % 4:
        return False
    if t.size:
        padding = (end[-1] == 61) + (end[-1] == 61 and end[-2] == 61)
    while p < end:
        v = 0
        for i in range(4):
            v <<= 6
            if end - p - i > padding:
                if SIXES[p[i]] < 0:
                    return False
                v |= <uint8_t> SIXES[p[i]]
        p += 4
        to[0], to[1], to[2] = v >> 16 & 255, v >> 8 & 255, v & 255
        to += 3
    t.size = to - t.at - padding
    return True

cdef bint json_bytes(Json* j, Text* t) noexcept nogil:
    """The contract's form of bytes (docs/contract.md), a text, or null."""
    cdef Text name
    t.size = -1
    if not comes(j, 123):
        return comes_word(j, b"null") or json_text(j, t)
    if not (json_text(j, &name) and comes(j, 58) and json_text(j, t) and comes(j, 125)):
        return False
    return is_named(&name, b"utf8") or (is_named(&name, b"base64") and from_base64(t))

cdef inline bint comes_truth(Json* j, bint* value) noexcept nogil:
    """true; or false or null."""
    value[0] = comes_word(j, b"true")
    return value[0] or comes_word(j, b"false") or comes_word(j, b"null")

@cython.final
cdef class RecordLines:
    """Lines, and the batch that is made of them. lines: how many were passed; control_records: that were left out.

    batch_bytes, batch_records: when it is full; now_ms: the time of records that tell none.
    """

    cdef public int64_t lines, control_records
    cdef int64_t batch_bytes, batch_records, now_ms, count, size, base_timestamp, max_timestamp
    cdef Growing texts, headers, body

    def __cinit__(self, int64_t batch_bytes, int64_t batch_records, int64_t now_ms):
        self.batch_bytes, self.batch_records, self.now_ms = batch_bytes, batch_records, now_ms

    def __dealloc__(self):
        free(self.texts.data)
        free(self.headers.data)
        free(self.body.data)

    def take(self, const uint8_t[::1] data not None, int64_t at):
        """Whole lines from data[at] on: (where the next one begins, why it was not taken). FULL: the batch has no room
        for it; CUT_OFF: it has no end."""
        cdef int64_t have = data.shape[0]
        cdef int why = _CUT_OFF
        cdef Bytes start, end
        if not 0 <= at <= have:
            raise ValueError("at is to lie in the data")
        if at == have:
            return at, CUT_OFF
        start = &data[at]
        with nogil:
            while True:
                end = <Bytes> memchr(start, 10, have - at)
                why = _CUT_OFF if end == NULL else self.take_line(start, end)
                if why:
                    break
                self.lines += 1
                at += end - start + 1
                start = end + 1
        return at, why

    def add(self, int64_t timestamp, key, value, tuple headers not None):
        """A record that the reference has read, headers as pairs of key and value; False if the batch has no room for it."""
        cdef Line line
        line.timestamp, line.key, line.value = timestamp, text_of(key), text_of(value)
        line.header_count, self.headers.size = len(headers), 0
        for header_key, header_value in headers:
            if header_key is None:
                raise TypeError("the key of a header is not null")
            if not self.put_header(text_of(header_key), text_of(header_value)):
                raise MemoryError
        cdef int why = self.put(&line)
        if why == _REFERENCE:
            raise MemoryError
        return why == _DONE

    def is_empty(self):
        """Whether the batch has no record yet."""
        return self.count == 0

    def records(self):
        """The bytes of the batch's records, not compressed."""
        return PyBytes_FromStringAndSize(<const char*> self.body.data, self.body.size)

    def fetch(self, const uint8_t[::1] body not None, int attributes):
        """The batch as a client sends it, around its records as they are in it; the next one begins."""
        cdef int64_t size = BATCH_SIZE + body.shape[0]
        cdef bytes batch = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t* to = <uint8_t*> <char*> batch
        memset(to, 0, BATCH_SIZE)
        memset(to + BATCH_PRODUCER_ID, 255, BATCH_RECORDS_COUNT - BATCH_PRODUCER_ID)      # no producer
        put_number(to + BATCH_LENGTH, size - LOG_OVERHEAD, 4)
        put_number(to + BATCH_PARTITION_LEADER_EPOCH, -1, 4)
        put_number(to + BATCH_MAGIC, 2, 1)
        put_number(to + BATCH_ATTRIBUTES, attributes, 2)
        put_number(to + BATCH_LAST_OFFSET_DELTA, self.count - 1, 4)
        put_number(to + BATCH_BASE_TIMESTAMP, self.base_timestamp, 8)
        put_number(to + BATCH_MAX_TIMESTAMP, self.max_timestamp, 8)
        put_number(to + BATCH_RECORDS_COUNT, self.count, 4)
        if body.shape[0]:
            memcpy(to + BATCH_SIZE, &body[0], body.shape[0])
        put_number(to + BATCH_CRC, crc32c_of(0, to + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM), 4)
        self.count = self.size = self.body.size = 0
        return batch

    cdef int take_line(self, Bytes start, Bytes end) noexcept nogil:
        cdef Json j
        cdef Line line
        self.texts.size = self.headers.size = 0
        if not takes_more(&self.texts, end - start + TEXT_EXTRA):
            return _REFERENCE
        j.at, j.end, j.room = start, end, self.texts.data
        skip_blanks(&j)
        if j.at == end:
            return _DONE
        line.seen, line.is_batch, line.is_control, line.header_count = 0, False, False, 0
        line.timestamp, line.key.size, line.value.size = self.now_ms, -1, -1
        if not self.read(&j, &line):
            return _REFERENCE
        if line.is_batch:
            return _DONE
        if line.is_control:
            self.control_records += 1
            return _DONE
        return self.put(&line)

    cdef bint read(self, Json* j, Line* line) noexcept nogil:
        """All of a line."""
        if not comes(j, 123):
            return False
        if not comes(j, 125):
            while self.read_member(j, line):
                if not comes(j, 44):
                    break
            else:
                return False
            if not comes(j, 125):
                return False
        skip_blanks(j)
        return j.at == j.end

    cdef bint read_member(self, Json* j, Line* line) noexcept nogil:
        cdef Text name
        cdef int known
        if not (json_text(j, &name) and comes(j, 58)):
            return False
        known = which_member(&name)
        if known == 0 and line.is_batch:
            return json_skip(j, 0)
        if known == 0 or known & line.seen:
            return False
        line.seen |= known
        if known >= NOT_LOOKED_AT:
            return json_skip(j, 0)
        if known == HAS_KEY:
            return json_bytes(j, &line.key)
        if known == HAS_VALUE:
            return json_bytes(j, &line.value)
        if known == HAS_TIMESTAMP:
            line.timestamp = -1
            return comes_word(j, b"null") or json_integer(j, &line.timestamp)
        if known == HAS_HEADERS:
            return comes_word(j, b"null") or self.read_headers(j, line)
        if known == HAS_CONTROL:
            return comes_truth(j, &line.is_control)
        if not json_text(j, &name):
            return False
        line.is_batch = is_named(&name, b"batch")
        return line.is_batch or is_named(&name, b"record")

    cdef bint read_headers(self, Json* j, Line* line) noexcept nogil:
        cdef Text key, value
        if not comes(j, 91):
            return False
        if comes(j, 93):
            return True
        while True:
            if not (comes(j, 91) and json_text(j, &key) and comes(j, 44) and json_bytes(j, &value) and comes(j, 93)):
                return False
            if not self.put_header(key, value):
                return False
            line.header_count += 1
            if not comes(j, 44):
                return comes(j, 93)

    cdef bint put_header(self, Text key, Text value) noexcept nogil:
        if not takes_more(&self.headers, key.size + max(value.size, 0) + 2 * HEADER_EXTRA):
            return False
        put_field(&self.headers, key.at, key.size)
        put_field(&self.headers, value.at, value.size)
        return True

    cdef int put(self, Line* line) noexcept nogil:
        """The record of a line into the batch; FULL if it does not go in, REFERENCE if there is no memory."""
        cdef int64_t fields = max(line.key.size, 0) + max(line.value.size, 0)
        cdef int64_t more = MOST_RECORD_OVERHEAD * (1 + line.header_count) + fields
        cdef int64_t delta, size
        if self.count and (self.size + more > self.batch_bytes or self.count >= self.batch_records):
            return _FULL
        if not takes_more(&self.body, fields + self.headers.size + RECORD_EXTRA):
            return _REFERENCE
        if not self.count:
            self.base_timestamp = self.max_timestamp = line.timestamp
        self.max_timestamp = max(self.max_timestamp, line.timestamp)
        delta = minus(line.timestamp, self.base_timestamp)
        size = 1 + zigzag_size(delta) + zigzag_size(self.count) + zigzag_size(line.key.size) + zigzag_size(line.value.size)
        put_zigzag(&self.body, size + zigzag_size(line.header_count) + fields + self.headers.size)
        self.body.data[self.body.size] = 0
        self.body.size += 1
        put_zigzag(&self.body, delta)
        put_zigzag(&self.body, self.count)
        put_field(&self.body, line.key.at, line.key.size)
        put_field(&self.body, line.value.at, line.value.size)
        put_zigzag(&self.body, line.header_count)
        if line.header_count:
            memcpy(self.body.data + self.body.size, self.headers.data, self.headers.size)
            self.body.size += self.headers.size
        self.count += 1
        self.size += more
        return _DONE

cdef int which_member(Text* name) noexcept nogil:
    """Which member of a record, as a bit; 0: none, or one that only the reference knows."""
    if is_named(name, b"type"):
        return HAS_TYPE
    if is_named(name, b"is_control"):
        return HAS_CONTROL
    if is_named(name, b"key"):
        return HAS_KEY
    if is_named(name, b"value"):
        return HAS_VALUE
    if is_named(name, b"headers"):
        return HAS_HEADERS
    if is_named(name, b"timestamp"):
        return HAS_TIMESTAMP
    return not_looked_at(name)

cdef int not_looked_at(Text* name) noexcept nogil:
    if is_named(name, b"file"):
        return NOT_LOOKED_AT
    if is_named(name, b"batch_position"):
        return NOT_LOOKED_AT << 1
    if is_named(name, b"magic"):
        return NOT_LOOKED_AT << 2
    if is_named(name, b"codec"):
        return NOT_LOOKED_AT << 3
    if is_named(name, b"offset"):
        return NOT_LOOKED_AT << 4
    if is_named(name, b"timestamp_type"):
        return NOT_LOOKED_AT << 5
    if is_named(name, b"producer_id"):
        return NOT_LOOKED_AT << 6
    if is_named(name, b"producer_epoch"):
        return NOT_LOOKED_AT << 7
    if is_named(name, b"sequence"):
        return NOT_LOOKED_AT << 8
    if is_named(name, b"is_transactional"):
        return NOT_LOOKED_AT << 9
    if is_named(name, b"partition_leader_epoch"):
        return NOT_LOOKED_AT << 10
    if is_named(name, b"delete_horizon_ms"):
        return NOT_LOOKED_AT << 11
    if is_named(name, b"crc"):
        return NOT_LOOKED_AT << 12
    if is_named(name, b"crc_valid"):
        return NOT_LOOKED_AT << 13
    return NOT_LOOKED_AT << 14 if is_named(name, b"decoded") else 0

cdef Text text_of(bytes data) except *:
    """Of bytes that stay; or null."""
    cdef Text t
    t.at, t.size = NULL, -1
    if data is not None:
        t.at, t.size = <Bytes> <const char*> data, len(data)
    return t
