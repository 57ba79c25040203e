# Records as objects, for those who walk them in Python (format/batch is the reference). The classes come from the
# caller, and are called with their fields in order.

cdef enum:
    MOST_HEADERS = 1048576          # format.batch.MOST_HEADERS

cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* start, Py_ssize_t size)

cdef enum:
    PIECE_RECORDS = 1024            # what a caller gets at once, however much an entry holds
    PIECE_BYTES = 1 << 20

cdef inline object bytes_or_none(Bytes start, int64_t size):
    """A negative size is null."""
    return PyBytes_FromStringAndSize(<const char*> start, size) if size >= 0 else None

cdef object new_header(object kind, Cursor* c):
    cdef int64_t key_size = 0, value_size = 0
    cdef Bytes key = field(c, &key_size)
    cdef Bytes value = field(c, &value_size)
    # Header is a tuple with names: its own __new__ is a Python function, and takes three times as long.
    return tuple.__new__(kind, (bytes_or_none(key, key_size), bytes_or_none(value, value_size)))

cdef class RecordReader:
    """The records of the entries in log[at:cut], a piece at a time, as objects of the classes given.

    at: where the first entry lies that was not begun yet.
    """

    cdef readonly int64_t at
    cdef int64_t cut
    cdef bint busy                  # whoever makes an object may run anything, such as another read()
    cdef const uint8_t[::1] log
    cdef const uint8_t[::1] body
    cdef object record_class, header_class
    cdef Job job                    # how to inflate
    cdef Batch batch                # the entry that is open: a batch, or a message,
    cdef Inner outer
    cdef bint is_batch
    cdef Cursor c                   # what is left of it,
    cdef int64_t left               # so many records
    cdef int64_t base_offset        # what inner offsets count from

    def __cinit__(self):
        empty_scratch(&self.job.scratch)
        self.job.body, self.job.body_size, self.left = NULL, 0, 0

    def __init__(self, record_class, header_class, const uint8_t[::1] log not None, int64_t at, int64_t cut):
        if not 0 <= at <= cut <= log.shape[0]:
            raise ValueError("at and cut are to lie in the log")
        self.check_idle()
        if not (isinstance(record_class, type) and isinstance(header_class, type)):
            raise TypeError("record_class and header_class are to be classes")
        self.record_class, self.header_class = record_class, header_class
        self.log, self.at, self.cut, self.left = log, at, cut, 0

    def __dealloc__(self):
        free_scratch(&self.job.scratch)

    def read(self):
        """(records, why): the next ones, as many as go into a piece.

        why: FULL, there may be more; DONE; BODY: the entry at `at` is to be given inflated (`give`), or stepped over;
        REFERENCE: the entry at `at` is for the reference reader, none of its records is among these.
        """
        self.check_idle()
        self.busy = True
        try:
            return self.read_piece()
        finally:
            self.busy = False

    cdef int check_idle(self) except -1:
        if self.busy:
            raise ValueError("it is being read")
        return 0

    cdef tuple read_piece(self):
        cdef list records = []
        cdef int64_t size = 0
        cdef int why
        while True:
            while self.left:
                if len(records) >= PIECE_RECORDS or size >= PIECE_BYTES:
                    return records, FULL
                size += self.batch_record(records) if self.is_batch else self.message_record(records)
                self.left -= 1
            if self.at >= self.cut:
                return records, DONE
            why = self.open_entry()
            if why:
                return records, why

    def give(self, const uint8_t[::1] body not None):
        """The records, or inner messages, of the entry at `at`, inflated."""
        self.check_idle()
        if self.left:
            raise ValueError("an entry is still open")
        self.body = body
        self.job.body, self.job.body_size = (&body[0] if body.shape[0] else <Bytes> b""), body.shape[0]

    def step_to(self, int64_t at):
        """Goes on with the entry at byte `at`."""
        self.check_idle()
        if not self.at <= at <= self.cut:
            raise ValueError("there is no way back, and none past the end")
        self.at, self.job.body = at, NULL

    cdef int open_entry(self):
        """Checks the entry at `at` wholly, so that its records can be made without a look back."""
        cdef Bytes b = &self.log[0] + self.at
        cdef int64_t left = self.cut - self.at, size
        cdef int why = _REFERENCE
        cdef int8_t magic
        if left <= HEADER_SIZE_UP_TO_MAGIC:
            return why
        magic, size = <int8_t> b[FRAME_MAGIC], <int64_t> be32(b + FRAME_LENGTH) + LOG_OVERHEAD
        if size < MIN_LENGTH + LOG_OVERHEAD or size > left:
            return why
        self.is_batch = magic == 2
        if self.is_batch and size >= BATCH_SIZE and b[BATCH_ATTRIBUTES + 1] & CODEC_MASK <= CODEC_ZSTD:
            why = self.open_batch(b, size)
        elif magic == 0 or magic == 1:
            why = self.open_message(b, size)
        if not why:
            self.at += size
            self.job.body = NULL
        return why

    cdef int find_body(self, Bytes data, int64_t size, int codec, bint valid, int magic):
        """Points the cursor at what is inside. Damaged frames are the packages' to judge."""
        cdef int64_t body_size = 0
        cdef Bytes body = data
        cdef int why
        if codec != CODEC_NONE and not valid and self.job.body == NULL:
            return _BODY
        why = find_body(&self.job, data, size, codec, magic, &body, &body_size)
        if why == _DONE:
            self.c.at, self.c.end, self.c.broken = body, body + body_size, False
        return why

    cdef int open_batch(self, Bytes b, int64_t size):
        cdef Batch* h = &self.batch
        cdef Record r
        cdef Cursor start
        cdef int32_t i
        cdef int why
        read_batch(b, size, 0, h)
        if h.count <= 0:
            return _REFERENCE if h.count else _DONE
        why = self.find_body(b + BATCH_SIZE, size - BATCH_SIZE, h.codec, h.valid, 2)
        if why:
            return why
        start = self.c
        if h.count > (start.end - start.at) // SMALLEST_RECORD:
            return _REFERENCE
        for i in range(h.count):
            if not next_record(&self.c, &r) or r.header_count > MOST_HEADERS:
                return _REFERENCE
        if self.c.at != self.c.end:
            return _REFERENCE
        self.c, self.left = start, h.count
        return _DONE

    cdef int open_message(self, Bytes entry, int64_t size):
        cdef Inner* m = &self.outer
        cdef Inner inner
        cdef int64_t last = 0, count
        cdef int codec, why
        if not read_message(entry, size, m):
            return _REFERENCE
        codec, self.base_offset = m.attributes & CODEC_MASK, 0
        if codec == CODEC_NONE:
            self.c.at, self.c.end, self.left = entry, entry + size, 1
            return _DONE
        if codec > CODEC_LZ4 or m.value_size < 0:
            return _REFERENCE
        why = self.find_body(m.value, m.value_size, codec, message_valid(m), m.magic)
        if why:
            return why
        count = walk_inner(self.c.at, self.c.end, &inner, &last)
        if count < 0 or (m.magic == 1 and m.offset != 0 and m.offset < last):
            return _REFERENCE
        if m.magic == 1 and m.offset != 0:
            self.base_offset = <int64_t> (<uint64_t> m.offset - <uint64_t> last)
        self.left = count
        return _DONE

    cdef int64_t batch_record(self, list records) except -1:
        """The next record of the open batch; returns about how many bytes it takes."""
        cdef Batch* h = &self.batch
        cdef int64_t timestamp
        cdef tuple headers = ()
        cdef Record r
        cdef Cursor c
        if not next_record(&self.c, &r):
            raise ValueError("the bytes have changed since they were checked")
        timestamp = h.max_timestamp if h.attributes & TIMESTAMP_TYPE_BIT else plus(h.base_timestamp, r.timestamp_delta)
        if r.header_count:
            c.at, c.end, c.broken = r.headers, r.end, False
            headers = tuple([new_header(self.header_class, &c) for _ in range(r.header_count)])
        records.append(self.record_class(
            plus(h.base_offset, r.offset_delta), timestamp,
            bytes_or_none(r.key, r.key_size), bytes_or_none(r.value, r.value_size), headers, sequence_of(h, &r),
            None, None))
        return r.end - r.key

    cdef int64_t message_record(self, list records) except -1:
        """Append the Record of the next inner message, or of the open message itself."""
        cdef Inner m
        cdef int64_t timestamp
        if not read_message(self.c.at, self.c.end - self.c.at, &m):
            raise ValueError("the bytes have changed since they were checked")
        self.c.at += LOG_OVERHEAD + m.size
        timestamp = m.timestamp
        if m.magic == 1 and self.outer.magic == 1 and self.outer.attributes & TIMESTAMP_TYPE_BIT:
            timestamp = self.outer.timestamp
        records.append(self.record_class(
            plus(self.base_offset, m.offset), timestamp,
            bytes_or_none(m.key, m.key_size), bytes_or_none(m.value, m.value_size), (), -1,
            <uint32_t> be32(m.message + MESSAGE0_CRC), bool(message_valid(&m))))
        return m.size
