# Columns of records into batches of magic 2 (format/batch_encoding is the reference), and the partition of a key
# (format/partitioner is the reference).
#
# A column's numbers say where bytes are. Each is compared with the size of the buffer before it is believed.

cdef enum:
    ENCODE_OUTSIDE = -1             # what is wrong with a row
    ENCODE_DESCENDS = -2
    ENCODE_NEGATIVE_TIME = -3
    ENCODE_NULL_KEY = -4
    ENCODE_TOO_LARGE = -5
    ENCODE_NO_MEMORY = -6
    MOST_BODY = 2147483647 - 49     # so that the length of a batch fits its field

cdef struct Field:                  # a column of bytes
    const int32_t* starts
    Bytes data
    Bytes is_valid                  # NULL: no row is null
    int64_t rows, size              # rows 0 and data NULL: no such column

@cython.final
cdef class _BytesColumn:
    """The buffers of a format.batch_encoding.BytesColumn, held."""

    cdef const int32_t[::1] starts
    cdef const uint8_t[::1] data
    cdef const uint8_t[::1] is_valid
    cdef Field field

    def __cinit__(self, column not None):
        self.starts, self.data = column.starts, column.data
        self.field.rows, self.field.size = self.starts.shape[0] - 1, self.data.shape[0]
        self.field.starts = &self.starts[0] if self.starts.shape[0] else NULL
        self.field.data = &self.data[0] if self.data.shape[0] else <Bytes> &self.field
        self.field.is_valid = NULL
        if column.is_valid is not None:
            self.is_valid = column.is_valid
            self.field.rows = min(self.field.rows, <int64_t> self.is_valid.shape[0])
            self.field.is_valid = &self.is_valid[0] if self.is_valid.shape[0] else NULL

cdef inline int64_t bytes_at(Field* f, int64_t n, Bytes* to) noexcept nogil:
    """The size of bytes number n, -1 for null; below that if they are not in the column."""
    cdef int64_t start, stop
    to[0] = f.data
    if f.data == NULL:
        return -1
    if n >= f.rows:
        return -2
    if f.is_valid != NULL and f.is_valid[n] == 0:
        return -1
    start, stop = f.starts[n], f.starts[n + 1]
    if start < 0 or stop < start or stop > f.size:
        return -2
    to[0] = f.data + start
    return stop - start

@cython.final
cdef class _Encoder:
    """The columns, and the batches so far."""

    cdef const int64_t[::1] offsets
    cdef const int64_t[::1] timestamps
    cdef const int32_t[::1] header_starts
    cdef _BytesColumn keys, values, header_keys, header_values
    cdef Field key_field, value_field, header_key_field, header_value_field
    cdef bint has_headers
    cdef int64_t rows, batch_bytes, batch_records, append_time, least_timestamp, producer_id
    cdef bint has_append_time
    cdef int attributes, producer_epoch
    cdef int32_t leader_epoch, base_sequence
    cdef Growing out
    cdef int64_t start, first, count, max_timestamp, before     # of the batch; before: the last offset of all

    def __cinit__(self, columns not None, form not None):
        memset(&self.out, 0, sizeof(Growing))
        memset(&self.key_field, 0, sizeof(Field))
        memset(&self.value_field, 0, sizeof(Field))
        self.offsets, self.timestamps = columns.offsets, columns.timestamps
        self.rows, self.before = self.offsets.shape[0], -1
        if columns.keys is not None:
            self.keys = _BytesColumn(columns.keys)
            self.key_field = self.keys.field
        if columns.values is not None:
            self.values = _BytesColumn(columns.values)
            self.value_field = self.values.field
        self.has_headers = columns.headers is not None
        if self.has_headers:
            self.header_starts = columns.headers.starts
            self.header_keys, self.header_values = _BytesColumn(columns.headers.keys), _BytesColumn(columns.headers.values)
            self.header_key_field, self.header_value_field = self.header_keys.field, self.header_values.field
        self.take_form(form)

    cdef int take_form(self, form) except -1:
        self.batch_bytes, self.batch_records = form.batch_bytes, form.batch_records
        self.attributes, self.leader_epoch = form.attributes, form.partition_leader_epoch
        self.has_append_time = form.append_time_ms is not None
        self.append_time = form.append_time_ms if self.has_append_time else -1
        self.producer_id, self.producer_epoch = form.producer_id, form.producer_epoch
        self.base_sequence, self.least_timestamp = form.base_sequence, form.least_timestamp
        return 0

    def __dealloc__(self):
        free(self.out.data)

    cdef int64_t fill(self, int64_t at, int64_t stop, int64_t* row) noexcept nogil:
        """A batch of rows from `at` on, without its header; the next row. Or what is wrong, with the row."""
        cdef int64_t why
        self.start, self.first, self.count = self.out.size, at, 0
        self.max_timestamp = self.timestamps[at] if at < stop else -1
        if not takes_more(&self.out, BATCH_SIZE):
            return ENCODE_NO_MEMORY
        self.out.size += BATCH_SIZE
        while at < stop:
            row[0] = at
            why = self.put(at)
            if why < 0:
                return why
            if why == _FULL:
                break
            at += 1
        return at

    cdef int64_t put(self, int64_t row) noexcept nogil:
        """DONE; FULL if the row is for the next batch; or what is wrong."""
        cdef int64_t offset = self.offsets[row], timestamp = self.timestamps[row]
        cdef int64_t key_size, value_size, first_header = 0, last_header = 0, headers = 0, size
        cdef int64_t delta = minus(offset, self.offsets[self.first]), time_delta = minus(timestamp, self.timestamps[self.first])
        cdef Bytes key
        cdef Bytes value
        if offset <= self.before:
            return ENCODE_DESCENDS
        if timestamp < self.least_timestamp:
            return ENCODE_NEGATIVE_TIME
        key_size, value_size = bytes_at(&self.key_field, row, &key), bytes_at(&self.value_field, row, &value)
        if key_size < -1 or value_size < -1:
            return ENCODE_OUTSIDE
        if self.has_headers:
            headers = self.headers_size(row, &first_header, &last_header)
            if headers < 0:
                return headers
        # The first record is taken whatever its size (MemoryRecordsBuilder.hasRoomFor), so no batch stays empty.
        if self.count and (delta > 2147483647 or self.count >= self.batch_records):
            return _FULL
        size = 1 + zigzag_size(time_delta) + zigzag_size(delta) + zigzag_size(key_size) + zigzag_size(value_size)
        size += max(key_size, 0) + max(value_size, 0) + zigzag_size(last_header - first_header) + headers
        if self.count and self.out.size - self.start + zigzag_size(size) + size > self.batch_bytes:
            return _FULL
        if size + zigzag_size(size) > MOST_BODY:
            return ENCODE_TOO_LARGE
        if not takes_more(&self.out, size + RECORD_EXTRA):
            return ENCODE_NO_MEMORY
        put_zigzag(&self.out, size)
        self.out.data[self.out.size] = 0
        self.out.size += 1
        put_zigzag(&self.out, time_delta)
        put_zigzag(&self.out, delta)
        put_field(&self.out, key, key_size)
        put_field(&self.out, value, value_size)
        self.put_headers(first_header, last_header)
        self.count, self.before = self.count + 1, offset
        self.max_timestamp = max(self.max_timestamp, timestamp)
        return _DONE

    cdef int64_t headers_size(self, int64_t row, int64_t* first, int64_t* last) noexcept nogil:
        """What the headers of a row take, and which they are; or what is wrong."""
        cdef int64_t n, key_size, value_size, size = 0
        cdef Bytes data
        if row + 1 >= self.header_starts.shape[0]:
            return ENCODE_OUTSIDE
        first[0], last[0] = self.header_starts[row], self.header_starts[row + 1]
        if first[0] < 0 or last[0] < first[0] or last[0] >= self.header_keys.starts.shape[0]:
            return ENCODE_OUTSIDE
        for n in range(first[0], last[0]):
            key_size = bytes_at(&self.header_key_field, n, &data)
            if key_size < 0:
                return ENCODE_NULL_KEY if key_size == -1 else ENCODE_OUTSIDE
            value_size = bytes_at(&self.header_value_field, n, &data)
            if value_size < -1:
                return ENCODE_OUTSIDE
            size += zigzag_size(key_size) + key_size + zigzag_size(value_size) + max(value_size, 0)
        return size

    cdef void put_headers(self, int64_t first, int64_t last) noexcept nogil:
        """There is room for them."""
        cdef int64_t n, size
        cdef Bytes data = NULL
        put_zigzag(&self.out, last - first)
        for n in range(first, last):
            size = bytes_at(&self.header_key_field, n, &data)
            put_field(&self.out, data, size)
            size = bytes_at(&self.header_value_field, n, &data)
            put_field(&self.out, data, size)

    cdef int compress_body(self, compress) except -1:
        """The records of the batch give way to what becomes of them."""
        cdef int64_t body = self.start + BATCH_SIZE
        cdef const uint8_t[::1] made = compress(PyBytes_FromStringAndSize(<const char*> self.out.data + body, self.out.size - body))
        cdef int64_t size = made.shape[0]
        if size > MOST_BODY:
            raise ValueError("a batch became too large when it was compressed")
        self.out.size = body
        if not takes_more(&self.out, size):
            raise MemoryError
        if size:
            memcpy(self.out.data + body, &made[0], size)
        self.out.size += size
        return 0

    cdef void seal(self) noexcept nogil:
        """The header of the batch, with its checksum."""
        cdef uint8_t* to = self.out.data + self.start
        cdef int64_t size = self.out.size - self.start, last = self.first + self.count - 1
        put_number(to + BATCH_BASE_OFFSET, self.offsets[self.first], 8)
        put_number(to + BATCH_LENGTH, size - LOG_OVERHEAD, 4)
        put_number(to + BATCH_PARTITION_LEADER_EPOCH, self.leader_epoch, 4)
        put_number(to + BATCH_MAGIC, 2, 1)
        put_number(to + BATCH_ATTRIBUTES, self.attributes, 2)
        put_number(to + BATCH_LAST_OFFSET_DELTA, self.offsets[last] - self.offsets[self.first], 4)
        put_number(to + BATCH_BASE_TIMESTAMP, self.timestamps[self.first], 8)
        put_number(to + BATCH_MAX_TIMESTAMP, self.append_time if self.has_append_time else self.max_timestamp, 8)
        put_number(to + BATCH_PRODUCER_ID, self.producer_id, 8)
        put_number(to + BATCH_PRODUCER_EPOCH, self.producer_epoch, 2)
        put_number(to + BATCH_BASE_SEQUENCE, self.base_sequence, 4)
        put_number(to + BATCH_RECORDS_COUNT, self.count, 4)
        # Last, since it covers all that stands behind it.
        put_number(to + BATCH_CRC, crc32c_of(0, to + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM), 4)
        if self.base_sequence != -1:
            self.base_sequence = increment_sequence(self.base_sequence, <int32_t> self.count)

cdef dict ENCODE_ERRORS = {
    ENCODE_OUTSIDE: "its bytes lie outside of the column",
    ENCODE_DESCENDS: "offsets have to ascend, from 0 on",
    ENCODE_NEGATIVE_TIME: "invalid negative timestamp",
    ENCODE_NULL_KEY: "the key of a header is null",
    ENCODE_TOO_LARGE: "the record is too large for a batch",
}

def encode_batches(columns, int64_t at, int64_t stop, form, compress=None):
    """The batches of the rows [at, stop), one behind the other. Raises ValueError as the reference."""
    cdef _Encoder encoder = _Encoder(columns, form)
    cdef int64_t row = at
    if not 0 <= at <= stop <= encoder.rows:
        raise ValueError("the rows have to lie in the columns")
    if encoder.timestamps.shape[0] < encoder.rows:
        raise ValueError("there are not as many timestamps as offsets")
    while at < stop:
        with nogil:
            at = encoder.fill(at, stop, &row)
        if at == ENCODE_NO_MEMORY:
            raise MemoryError
        if at < 0:
            raise ValueError(f"row {row}: {ENCODE_ERRORS[at]}")
        if compress is not None:
            encoder.compress_body(compress)
        with nogil:
            encoder.seal()
    return taken_from(&encoder.out)

# --- the partition of a key (format/partitioner is the reference) -----------------------------------------------------

cdef enum:
    MURMUR2_FACTOR = 0x5BD1E995

cdef inline uint32_t murmur2(Bytes p, int64_t size) noexcept nogil:
    cdef uint32_t hashed = 0x9747B28CU ^ <uint32_t> size, word = 0
    cdef int64_t at = 0, left
    while size - at >= 4:
        word = le32(p + at) * <uint32_t> MURMUR2_FACTOR
        word = (word ^ word >> 24) * <uint32_t> MURMUR2_FACTOR
        hashed = (hashed * <uint32_t> MURMUR2_FACTOR) ^ word
        at += 4
    left = size - at
    if left:
        word = p[at]
        if left > 1:
            word |= <uint32_t> p[at + 1] << 8
        if left > 2:
            word |= <uint32_t> p[at + 2] << 16
        hashed = (hashed ^ word) * <uint32_t> MURMUR2_FACTOR
    hashed = (hashed ^ hashed >> 13) * <uint32_t> MURMUR2_FACTOR
    return hashed ^ hashed >> 15

def partitions_of(keys, int64_t rows, int32_t partitions):
    """The partition of each key, -1 for null. Raises ValueError as the reference."""
    cdef _BytesColumn column = _BytesColumn(keys)
    cdef Growing found
    cdef int64_t row = 0, size = 0
    cdef Bytes key = NULL
    if partitions < 1:
        raise ValueError("there is one partition at least")
    memset(&found, 0, sizeof(Growing))
    if not takes_more(&found, max(rows, 0) * 4):
        raise MemoryError
    try:
        with nogil:
            for row in range(rows):
                size = bytes_at(&column.field, row, &key)
                if size < -1:
                    break
                (<int32_t*> found.data)[row] = -1 if size < 0 else <int32_t> ((murmur2(key, size) & 0x7FFFFFFF) % <uint32_t> partitions)
        if size < -1:
            raise ValueError(f"row {row}: its bytes lie outside of the column")
        found.size = max(rows, 0) * 4
        return taken_from(&found)
    finally:
        free(found.data)
