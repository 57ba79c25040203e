# Records as Arrow columns (render/arrow_reference is the reference).

cdef enum:
    NO_TIMESTAMP_TYPE = -1
    MOST_COLUMN_BYTES = 2147483647  # an Arrow offset is an int

cdef int64_t MOST_TIMESTAMP_MS = 0x7FFFFFFFFFFFFFFF // 1000        # in microseconds it still is a long

cdef struct Blobs:                  # bytes of any size: those of row n are data[offsets[n]:offsets[n + 1]]
    uint8_t* present                # a bit a row
    int32_t* offsets                # NULL: a column that nobody wants, as for all pointers of a Table
    uint8_t* data
    int64_t room, used, nulls

cdef struct Table:
    int64_t rows, row_room, headers, header_room
    Blobs key, value, header_key, header_value
    uint8_t* headers_present
    int32_t* headers_offsets
    int64_t* offset
    uint8_t* timestamp_present
    int64_t* timestamp
    int32_t* timestamp_type
    int64_t* position
    uint8_t* base_offset_present
    int64_t* base_offset
    int64_t* producer_id
    int16_t* producer_epoch
    int32_t* sequence
    uint8_t* is_control
    uint8_t* is_transactional
    int8_t* codec
    uint8_t* crc_ok
    int32_t* leader_epoch
    int64_t without_headers, without_timestamp, without_base_offset

cdef struct Lineage:                # what all records of an entry have in common
    int64_t position, base_offset, producer_id
    int32_t timestamp_type, leader_epoch
    int16_t producer_epoch
    int8_t codec
    bint has_base_offset, is_control, is_transactional, crc_ok

cdef struct Order:                  # of the offsets that entries claim; no checksum covers a base offset
    int64_t lowest, highest         # those of the segment
    int64_t entries, first_entry    # so far, position of the first
    int64_t first_offset, last_offset                       # of all these; the last one is the highest
    int64_t astray, first_astray    # entries with others than those of the segment, position of the first
    int64_t first_backward          # position of the first entry that is not behind all before it, or -1

cdef struct Fill:
    Job job                         # body, scratch, selection
    Table table
    bint with_control
    int64_t done, done_bytes        # records of the entry, and bytes of its body, that are in already
    int64_t data_needed, headers_needed, header_bytes_needed        # by the record there was no room for
    int64_t first_invalid           # position of the first entry with a wrong checksum
    Order order

cdef inline void put_bits(uint8_t* bits, int64_t first, int64_t end, bint value) noexcept nogil:
    """Bits first to end, which is one too far; those after them in their last byte become 0."""
    cdef int before = first & 7
    cdef int64_t at = first >> 3, stop = (end + 7) >> 3
    cdef uint8_t kept
    if bits == NULL or first >= end:
        return
    kept = bits[at] & ((1 << before) - 1) if before else 0
    memset(bits + at, 255 if value else 0, stop - at)
    if value and end & 7:
        bits[stop - 1] = (1 << (end & 7)) - 1
    bits[at] = bits[at] & ~((1 << before) - 1) | kept

cdef inline void turn_bit(uint8_t* bits, int64_t n) noexcept nogil:
    """Another value for bit n."""
    if bits != NULL:
        bits[n >> 3] ^= <uint8_t> (1 << (n & 7))

cdef inline void fill_longs(int64_t* to, int64_t value, int64_t first, int64_t end) noexcept nogil:
    cdef int64_t n
    if to != NULL:
        for n in range(first, end):
            to[n] = value

cdef inline void fill_ints(int32_t* to, int32_t value, int64_t first, int64_t end) noexcept nogil:
    cdef int64_t n
    if to != NULL:
        for n in range(first, end):
            to[n] = value

cdef inline void fill_shorts(int16_t* to, int16_t value, int64_t first, int64_t end) noexcept nogil:
    cdef int64_t n
    if to != NULL:
        for n in range(first, end):
            to[n] = value

cdef inline bint has_room(Blobs* b, int64_t size) noexcept nogil:
    return b.offsets == NULL or size <= b.room - b.used

cdef inline void put_blob(Blobs* b, int64_t n, Bytes p, int64_t size) noexcept nogil:
    """A negative size is null. Its bit says already that it is there."""
    if b.offsets == NULL:
        return
    if size > 0:
        memcpy(b.data + b.used, p, size)
        b.used += size
    elif size < 0:
        turn_bit(b.present, n)
        b.nulls += 1
    b.offsets[n + 1] = <int32_t> b.used

cdef inline void put_text(Blobs* b, int64_t n, Bytes p, int64_t size) noexcept nogil:
    """As Java's String has it, so that it is UTF-8 whatever was there."""
    cdef Out o
    o.at = b.data + b.used
    java_utf8(&o, p, size)
    b.used = o.at - b.data
    b.offsets[n + 1] = <int32_t> b.used

cdef inline void put_headers(Table* t, Bytes headers, Bytes end, int32_t count) noexcept nogil:
    cdef Cursor c
    cdef int64_t n = 0
    cdef int32_t i
    cdef Bytes p
    if t.headers_offsets == NULL:
        return
    if count == 0:
        t.without_headers += 1
        t.headers_offsets[t.rows + 1] = <int32_t> t.headers
        return
    turn_bit(t.headers_present, t.rows)
    put_bits(t.header_value.present, t.headers, t.headers + count, True)
    c.at, c.end, c.broken = headers, end, False
    for i in range(count):
        p = field(&c, &n)
        put_text(&t.header_key, t.headers, p, n)
        p = field(&c, &n)
        put_blob(&t.header_value, t.headers, p, n)
        t.headers += 1
    t.headers_offsets[t.rows + 1] = <int32_t> t.headers

cdef inline void put_timestamp(Table* t, int64_t timestamp_ms) noexcept nogil:
    if t.timestamp == NULL:
        return
    if -MOST_TIMESTAMP_MS <= timestamp_ms <= MOST_TIMESTAMP_MS:
        t.timestamp[t.rows] = timestamp_ms * 1000
    else:
        t.timestamp[t.rows] = 0
        turn_bit(t.timestamp_present, t.rows)
        t.without_timestamp += 1

cdef void begin_rows(Table* t, int64_t most) noexcept nogil:
    """Says of the next rows what is true of nearly all: all is there, but for headers. A row that differs turns it."""
    cdef int64_t end = t.rows + min(most, t.row_room - t.rows)
    put_bits(t.key.present, t.rows, end, True)
    put_bits(t.value.present, t.rows, end, True)
    put_bits(t.timestamp_present, t.rows, end, True)
    put_bits(t.headers_present, t.rows, end, False)

cdef void put_lineage(Table* t, Lineage* l, int64_t first) noexcept nogil:
    """Of the rows from number `first` on."""
    cdef int64_t end = t.rows
    fill_ints(t.timestamp_type, l.timestamp_type, first, end)
    fill_longs(t.position, l.position, first, end)
    if t.base_offset != NULL:
        put_bits(t.base_offset_present, first, end, l.has_base_offset)
        fill_longs(t.base_offset, l.base_offset, first, end)
        t.without_base_offset += 0 if l.has_base_offset else end - first
    fill_longs(t.producer_id, l.producer_id, first, end)
    fill_shorts(t.producer_epoch, l.producer_epoch, first, end)
    put_bits(t.is_control, first, end, l.is_control)
    put_bits(t.is_transactional, first, end, l.is_transactional)
    if t.codec != NULL and end > first:
        memset(t.codec + first, l.codec, end - first)
    put_bits(t.crc_ok, first, end, l.crc_ok)
    fill_ints(t.leader_epoch, l.leader_epoch, first, end)

cdef inline void put_row(Table* t, Record* r, int64_t offset, int64_t timestamp_ms, int32_t sequence) noexcept nogil:
    """A record for which there is room, but for its lineage."""
    put_blob(&t.key, t.rows, r.key, r.key_size)
    put_blob(&t.value, t.rows, r.value, r.value_size)
    put_headers(t, r.headers, r.end, r.header_count)
    if t.offset != NULL:
        t.offset[t.rows] = offset
    put_timestamp(t, timestamp_ms)
    if t.sequence != NULL:
        t.sequence[t.rows] = sequence
    t.rows += 1

cdef inline int64_t text_room(Record* r) noexcept nogil:
    """What java_utf8 may need for the keys of all headers."""
    return 3 * (r.end - r.headers) + 8

cdef inline bint row_fits(Fill* f, Record* r) noexcept nogil:
    cdef Table* t = &f.table
    return (t.rows < t.row_room and has_room(&t.key, r.key_size) and has_room(&t.value, r.value_size)
            and (r.header_count == 0 or t.headers_offsets == NULL
                 or (r.header_count <= t.header_room - t.headers and has_room(&t.header_value, r.end - r.headers)
                     and has_room(&t.header_key, text_room(r)))))

cdef int no_room(Fill* f, Record* r) noexcept nogil:
    """FULL, and what would be needed; REFERENCE if no column could ever hold it."""
    f.data_needed, f.headers_needed = max(r.key_size, r.value_size), r.header_count
    f.header_bytes_needed = text_room(r) if r.header_count else 0
    return _REFERENCE if f.table.headers_offsets != NULL and f.header_bytes_needed > MOST_COLUMN_BYTES else _FULL

cdef bint sound(Cursor* c, int64_t count) noexcept nogil:
    """Whether so many records are left, and nothing else."""
    cdef Record r
    cdef int64_t i
    for i in range(count):
        if not next_record(c, &r):
            return False
    return c.at == c.end

cdef int record_rows(Fill* f, Batch* h, Lineage* l, Bytes body, int64_t size) noexcept nogil:
    """The wanted records of a batch from number `done` on, as far as there is room."""
    cdef int64_t offset, timestamp, i, first = f.table.rows
    cdef Bytes before
    cdef Cursor c
    cdef Record r
    c.at, c.end, c.broken = body + f.done_bytes, body + size, False
    i = f.done
    begin_rows(&f.table, h.count - i)
    while i < h.count:
        before = c.at
        if not next_record(&c, &r):
            return _REFERENCE
        offset = plus(h.base_offset, r.offset_delta)
        timestamp = h.max_timestamp if h.attributes & TIMESTAMP_TYPE_BIT else plus(h.base_timestamp, r.timestamp_delta)
        if record_wanted(&f.job, offset, timestamp, r.key, r.key_size, r.value, r.value_size):
            if not row_fits(f, &r):
                # What was compressed is given whole or not at all: the reference reads it all before the first record.
                # That was seen to when its first record was taken.
                if h.codec != CODEC_NONE and f.done == 0 and not sound(&c, h.count - i - 1):
                    return _REFERENCE
                f.done, f.done_bytes = i, before - body
                put_lineage(&f.table, l, first)
                return no_room(f, &r)
            put_row(&f.table, &r, offset, timestamp, sequence_of(h, &r))
        i += 1
    put_lineage(&f.table, l, first)
    return _DONE if c.at == c.end else _REFERENCE

cdef inline void note_invalid(Fill* f, int64_t position) noexcept nogil:
    if f.job.invalid == 0:
        f.first_invalid = position
    f.job.invalid += 1

cdef inline void judge_order(Order* o, int64_t position, int64_t first, int64_t last) noexcept nogil:
    if first < o.lowest or last > o.highest:
        if o.astray == 0:
            o.first_astray = position
        o.astray += 1
    if o.entries == 0:
        o.first_entry, o.first_offset, o.last_offset = position, first, last
    elif first <= o.last_offset and o.first_backward < 0:
        o.first_backward = position
    o.entries += 1
    o.last_offset = max(o.last_offset, last)

cdef inline bint may_hold(Fill* f, bint valid, int64_t first, int64_t last, int64_t max_timestamp,
                          int64_t producer_id) noexcept nogil:
    """Whether an entry may hold wanted records. The header of one with a wrong checksum proves nothing of them."""
    if valid:
        return batch_wanted(&f.job, first, last, max_timestamp, producer_id)
    return batch_wanted(&f.job, NO_FIRST_OFFSET, 0x7FFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF, producer_id)

cdef int batch_rows(Fill* f, Bytes b, int64_t size, int64_t position, int64_t* first, int64_t* last) noexcept nogil:
    cdef Batch h
    cdef Lineage l
    cdef int why
    cdef int64_t body_size = 0
    cdef Bytes body = b
    read_batch(b, size, position, &h)
    first[0] = h.base_offset
    last[0] = plus(h.base_offset, h.delta) if h.valid else h.base_offset
    if not h.valid:
        note_invalid(f, position)
    if h.attributes & CONTROL_BIT and not f.with_control:
        return _DONE
    if not may_hold(f, h.valid, h.base_offset, plus(h.base_offset, h.delta), h.max_timestamp, be64(b + BATCH_PRODUCER_ID)):
        return _DONE
    if h.count < 0 or (h.codec != CODEC_NONE and not h.valid):
        return _REFERENCE
    if h.count == 0:
        return _DONE
    why = find_body(&f.job, b + BATCH_SIZE, size - BATCH_SIZE, h.codec, 2, &body, &body_size)
    if why:
        return why
    # done_bytes is of an earlier call: if the file has changed since, it may lie behind the end.
    if h.count > body_size // SMALLEST_RECORD or f.done_bytes > body_size:
        return _REFERENCE
    l.position, l.base_offset, l.has_base_offset = position, h.base_offset, True
    l.producer_id, l.producer_epoch = be64(b + BATCH_PRODUCER_ID), be16(b + BATCH_PRODUCER_EPOCH)
    l.leader_epoch, l.codec, l.crc_ok = be32(b + BATCH_PARTITION_LEADER_EPOCH), <int8_t> h.codec, h.valid
    l.timestamp_type = 1 if h.attributes & TIMESTAMP_TYPE_BIT else 0
    l.is_control, l.is_transactional = h.attributes & CONTROL_BIT, h.attributes & TRANSACTIONAL_BIT
    return record_rows(f, &h, &l, body, body_size)

cdef int message_row(Fill* f, Lineage* l, Inner* m) noexcept nogil:
    """A plain or inner message, if it is wanted and there is room."""
    cdef Record r
    if not record_wanted(&f.job, m.offset, m.timestamp, m.key, m.key_size, m.value, m.value_size):
        return _DONE
    r.key, r.key_size, r.value, r.value_size = m.key, m.key_size, m.value, m.value_size
    r.headers, r.header_count, r.end = m.value, 0, m.value
    if not row_fits(f, &r):
        return no_room(f, &r)
    begin_rows(&f.table, 1)
    put_row(&f.table, &r, m.offset, m.timestamp, -1)
    put_lineage(&f.table, l, f.table.rows - 1)
    return _DONE

cdef int inner_rows(Fill* f, Inner* outer, Lineage* l) noexcept nogil:
    cdef Bytes body = NULL, at
    cdef int64_t body_size = 0, last = 0, base = 0, count
    cdef Inner m
    cdef int why = find_body(&f.job, outer.value, outer.value_size, outer.attributes & CODEC_MASK, outer.magic,
                             &body, &body_size)
    if why:
        return why
    # All are walked before the first row: only the last one tells what the offsets count from (see inner_lines).
    count = walk_inner(body, body + body_size, &m, &last)
    if count < 0 or (outer.magic == 1 and outer.offset != 0 and outer.offset < last) or f.done_bytes > body_size:
        return _REFERENCE
    if outer.magic == 1 and outer.offset != 0:
        base = minus(outer.offset, last)
    at = body + f.done_bytes
    while at < body + body_size:
        if not read_message(at, body + body_size - at, &m):
            return _REFERENCE
        m.offset = plus(base, m.offset)
        if m.magic == 1 and outer.magic == 1 and outer.attributes & TIMESTAMP_TYPE_BIT:
            m.timestamp = outer.timestamp
        l.crc_ok = message_valid(&m)
        if message_row(f, l, &m):
            f.done_bytes = at - body
            return _FULL
        f.done += 1
        at += LOG_OVERHEAD + m.size
    return _DONE

cdef int message_rows(Fill* f, Bytes entry, int64_t size, int64_t position, int64_t* first,
                      int64_t* last) noexcept nogil:
    cdef Inner m
    cdef Lineage l
    cdef bint valid
    cdef int codec
    if not read_message(entry, size, &m):
        return _REFERENCE
    codec = m.attributes & CODEC_MASK
    if codec > CODEC_LZ4:
        return _REFERENCE
    first[0] = last[0] = m.offset
    valid = message_valid(&m)
    if not valid:
        note_invalid(f, position)
    # The offset of a wrapper is that of its last message: it does not say where they begin.
    if not may_hold(f, valid, m.offset if codec == CODEC_NONE else NO_FIRST_OFFSET, m.offset, m.timestamp, -1):
        return _DONE
    l.position, l.base_offset, l.has_base_offset = position, m.offset, codec == CODEC_NONE
    l.producer_id, l.producer_epoch, l.leader_epoch, l.codec, l.crc_ok = -1, -1, -1, <int8_t> codec, valid
    l.timestamp_type = NO_TIMESTAMP_TYPE if m.magic == 0 else (1 if m.attributes & TIMESTAMP_TYPE_BIT else 0)
    l.is_control = l.is_transactional = False
    if codec == CODEC_NONE:
        return message_row(f, &l, &m)
    if m.value_size < 0 or not valid:
        return _REFERENCE
    return inner_rows(f, &m, &l)

cdef int entry_rows(Fill* f, Bytes b, int64_t left, int64_t position, int64_t* size) noexcept nogil:
    """The rows of the entry at b, or those for which there was room, or, if the reference is to look, none."""
    cdef Table before = f.table
    cdef int64_t invalid = f.job.invalid, done = f.done, done_bytes = f.done_bytes, first = 0, last = 0
    cdef int why = _REFERENCE
    cdef int8_t magic
    if left <= HEADER_SIZE_UP_TO_MAGIC:
        return why
    magic, size[0] = <int8_t> b[FRAME_MAGIC], <int64_t> be32(b + FRAME_LENGTH) + LOG_OVERHEAD
    if size[0] < MIN_LENGTH + LOG_OVERHEAD or size[0] > left:
        return why
    if magic == 2 and size[0] >= BATCH_SIZE and b[BATCH_ATTRIBUTES + 1] & CODEC_MASK <= CODEC_ZSTD:
        why = batch_rows(f, b, size[0], position, &first, &last)
    elif magic == 0 or magic == 1:
        why = message_rows(f, b, size[0], position, &first, &last)
    if why == _DONE:
        f.done = f.done_bytes = 0
        judge_order(&f.order, position, first, last)
        return why
    f.job.invalid = invalid
    if why != _FULL:
        f.table, f.done, f.done_bytes = before, done, done_bytes
    return why

cdef uint8_t* place(dict buffers, str name, int64_t count, int64_t width) except? NULL:
    """The address of a buffer for `count` numbers of `width` bytes, or bits for 0; NULL if there is none of that name.

    It lasts as long as the memoryview in `buffers`.
    """
    cdef uint8_t[::1] view
    cdef int64_t least = count * width if width else (count + 7) // 8
    found = buffers.get(name)
    if found is None:
        return NULL
    view = found
    if view.shape[0] < least:
        raise ValueError(f"buffer {name!r} has {view.shape[0]} bytes, needs {least}")
    if view.shape[0] == 0:
        return <uint8_t*> b""
    if width and <uint64_t> &view[0] % <uint64_t> width:
        raise ValueError(f"buffer {name!r} is not aligned to {width} bytes")
    return &view[0]

cdef int place_blobs(Blobs* b, dict buffers, str name, int64_t rows) except -1:
    b.present = place(buffers, name + ".present", rows, 0)
    b.offsets = <int32_t*> place(buffers, name + ".offsets", rows + 1, 4)
    b.data = place(buffers, name + ".data", 0, 1)
    b.room = min(len(buffers.get(name + ".data", b"")), MOST_COLUMN_BYTES)
    if b.offsets != NULL:
        if b.data == NULL:
            raise ValueError(f"column {name!r} lacks its data")
        b.offsets[0] = 0
    return 0

cdef class Columns:
    """Arrow buffers for `rows` records with `headers` headers, to be filled by columns().

    buffers: name -> memoryview of bytes, writable and aligned to 8 bytes, kept as long as this lives. A name is a
    column's, or a column's with `.present`, `.offsets` or `.data`. A column without buffers is left out.
    """

    cdef Table table
    cdef bint busy                  # a thread is filling them
    cdef object keep

    def __cinit__(self, int64_t rows, int64_t headers, dict buffers not None):
        cdef Table* t = &self.table
        if not (0 <= rows < MOST_COLUMN_BYTES and 0 <= headers < MOST_COLUMN_BYTES):
            raise ValueError(f"{rows} rows, {headers} headers: an Arrow offset is an int")
        # Views of our own: a bytearray cannot change its size below one.
        self.keep = buffers = {name: memoryview(buffer) for name, buffer in buffers.items() if buffer is not None}
        t.row_room, t.header_room = rows, headers
        place_blobs(&t.key, buffers, "key", rows)
        place_blobs(&t.value, buffers, "value", rows)
        t.offset = <int64_t*> place(buffers, "offset", rows, 8)
        t.timestamp_present = place(buffers, "timestamp.present", rows, 0)
        t.timestamp = <int64_t*> place(buffers, "timestamp", rows, 8)
        t.timestamp_type = <int32_t*> place(buffers, "timestampType", rows, 4)
        t.headers_present = place(buffers, "headers.present", rows, 0)
        t.headers_offsets = <int32_t*> place(buffers, "headers.offsets", rows + 1, 4)
        place_blobs(&t.header_key, buffers, "headers.key", headers)
        place_blobs(&t.header_value, buffers, "headers.value", headers)
        if t.headers_offsets != NULL:
            if t.header_key.offsets == NULL or t.header_value.offsets == NULL:
                raise ValueError("column 'headers' lacks its keys or values")
            t.headers_offsets[0] = 0
        t.position = <int64_t*> place(buffers, "_position", rows, 8)
        t.base_offset_present = place(buffers, "_batch_base_offset.present", rows, 0)
        t.base_offset = <int64_t*> place(buffers, "_batch_base_offset", rows, 8)
        t.producer_id = <int64_t*> place(buffers, "_producer_id", rows, 8)
        t.producer_epoch = <int16_t*> place(buffers, "_producer_epoch", rows, 2)
        t.sequence = <int32_t*> place(buffers, "_sequence", rows, 4)
        t.is_control = place(buffers, "_is_control", rows, 0)
        t.is_transactional = place(buffers, "_is_transactional", rows, 0)
        t.codec = <int8_t*> place(buffers, "_compression", rows, 1)
        t.crc_ok = place(buffers, "_crc_ok", rows, 0)
        t.leader_epoch = <int32_t*> place(buffers, "_partition_leader_epoch", rows, 4)

    def bytes_used(self):
        """How far the buffers of bytes are filled: of `key`, `value`, `headers.key`, `headers.value`."""
        cdef Table* t = &self.table
        return {"key": t.key.used, "value": t.value.used, "headers.key": t.header_key.used,
                "headers.value": t.header_value.used}

    def nulls(self):
        """How many nulls there are, of each column that may have some."""
        cdef Table* t = &self.table
        return {"key": t.key.nulls, "value": t.value.nulls, "headers": t.without_headers,
                "headers.value": t.header_value.nulls, "timestamp": t.without_timestamp,
                "_batch_base_offset": t.without_base_offset}

    @property
    def rows(self):
        """Records so far."""
        return self.table.rows

    @property
    def headers(self):
        """Headers so far, of all records together."""
        return self.table.headers

@cython.final
cdef class ColumnsState:
    """What goes on from one call of columns() to the next.

    done_records: of the entry at `at` that are done; done_bytes: theirs in its body; invalid: entries with a wrong
    checksum; first_invalid: position of the first. Of the record that there was no room for: data_needed: bytes of its
    key or value; headers_needed: how many; header_bytes_needed: bytes of their keys or values.

    lowest, highest: offsets of the segment; astray: entries with other ones; first_astray: position of the first;
    entries: done so far; first_entry: position of the first; first_offset, last_offset: of them, the last one is the
    highest; first_backward: position of the first entry that does not lie behind all before it, or -1.
    """

    cdef public int64_t done_records, done_bytes, invalid, first_invalid
    cdef public int64_t data_needed, headers_needed, header_bytes_needed
    cdef public int64_t lowest, highest, entries, first_entry, first_offset, last_offset
    cdef public int64_t astray, first_astray, first_backward

    def __cinit__(self):
        self.lowest, self.highest, self.first_backward = -0x7FFFFFFFFFFFFFFF - 1, 0x7FFFFFFFFFFFFFFF, -1

def columns(const uint8_t[::1] log not None, int64_t at, int64_t cut, int64_t base, Columns into not None,
            ColumnsState state not None, const uint8_t[::1] body=None, Selection select=None, bint with_control=True,
            Workspace work=None):
    """The records of the entries from byte `at` on, up to `cut`, as further rows. Returns (at, rows so far, why).

    base: position of log[0] in its file. with_control: control records, too. why: DONE; FULL: no room for the next
    record: go on with other buffers; BODY: call again with the records of this entry inflated; REFERENCE: the entry at `at` is for the reference reader, but for the records
    that are done. work: where to inflate, if there is more to do after this call.
    """
    cdef Fill f
    cdef Bytes b
    cdef int64_t size = 0, have = log.shape[0]
    cdef int why = _DONE
    if state.done_records < 0 or state.done_bytes < 0:
        raise ValueError("less than nothing is done")
    if into.busy:
        raise ValueError("another thread is filling these columns")
    if at < 0 or at >= cut or have < cut:
        return at, into.table.rows, DONE
    f.table, f.with_control = into.table, with_control
    f.done, f.done_bytes = state.done_records, state.done_bytes
    f.job.invalid, f.first_invalid = state.invalid, state.first_invalid
    f.order.lowest, f.order.highest, f.order.entries = state.lowest, state.highest, state.entries
    f.order.first_entry, f.order.first_offset = state.first_entry, state.first_offset
    f.order.last_offset = state.last_offset
    f.order.astray, f.order.first_astray, f.order.first_backward = state.astray, state.first_astray, state.first_backward
    f.data_needed = f.headers_needed = f.header_bytes_needed = 0
    f.job.flags, f.job.body, f.job.body_size = _DEEP, NULL, 0
    if body is not None:
        f.job.body, f.job.body_size = (&body[0] if body.shape[0] else <Bytes> b""), body.shape[0]
    f.job.select.asked = False
    if select is not None:
        f.job.select = select.select
    if work is None:
        work = Workspace()
    work.take()
    f.job.scratch = work.scratch
    b, into.busy = &log[0], True
    with nogil:
        while at < cut:
            why = entry_rows(&f, b + at, have - at, plus(base, at), &size)
            if why:
                break
            at += size
            f.job.body = NULL
    work.scratch, work.busy = f.job.scratch, False
    into.table, into.busy = f.table, False
    state.done_records, state.done_bytes = f.done, f.done_bytes
    state.invalid, state.first_invalid = f.job.invalid, f.first_invalid
    state.entries, state.first_entry = f.order.entries, f.order.first_entry
    state.first_offset, state.last_offset = f.order.first_offset, f.order.last_offset
    state.astray, state.first_astray, state.first_backward = f.order.astray, f.order.first_astray, f.order.first_backward
    state.data_needed, state.headers_needed = f.data_needed, f.headers_needed
    state.header_bytes_needed = f.header_bytes_needed
    return at, f.table.rows, why
