# What several parts share: why a kernel stopped, and structs.

# Why a kernel stopped in front of an entry, or a line. Python has the names without an underscore; _native.pyi says what
# each of them means.
DONE, FULL, BODY, REFERENCE, CUT_OFF = 0, 1, 2, 3, 4
LARGE, DECIDE, DEFLATE, IRREGULAR, MAP_FULL = 6, 7, 8, 9, 10

cdef enum:
    _DONE, _FULL, _BODY, _REFERENCE, _CUT_OFF       # from 0 on
    _LARGE = 6
    _DECIDE, _DEFLATE, _IRREGULAR, _MAP_FULL

cdef struct Zstd:                   # libzstd, out of the package that carries it; see format/codecs/zstd
    void* context
    void* (*create)() noexcept nogil
    size_t (*release)(void* context) noexcept nogil
    size_t (*decompress)(void* context, void* to, size_t room, const void* data, size_t size) noexcept nogil
    unsigned int (*is_error)(size_t code) noexcept nogil

cdef struct Scratch:
    uint8_t* data
    int64_t room                    # without the slack
    Zstd zstd

cdef struct Out:
    uint8_t* at

cdef struct Select:
    bint asked                      # else everything is wanted
    int64_t first_offset, last_offset, first_timestamp, last_timestamp, producer_id
    bint any_producer, has_key, has_grep
    Bytes key, grep
    int64_t key_size, grep_size

cdef struct Piece:
    uint8_t* start
    int64_t size

cdef struct Job:
    Out out
    uint8_t* out_end
    int64_t* gaps                   # pairs: offset before, offset after
    int64_t gap_room, gap_count
    int64_t last_offset
    int flags
    Bytes body                      # of the first entry, inflated by the caller
    int64_t body_size
    int64_t invalid, first_invalid  # entries whose checksum does not match, position of the first
    Select select
    Bytes file                      # JSON: the file's name, quoted; CSV: topic and partition
    int64_t file_size
    Bytes segment                   # CSV: the file's name
    int64_t segment_size
    Piece head, middle, tail        # JSON, CSV: what all record lines of a batch share
    Scratch scratch
    int64_t needed                  # room for the entry that did not fit

cdef struct Batch:
    Bytes start
    int64_t size, position, base_offset, base_timestamp, max_timestamp
    int32_t delta, base_sequence, count
    int attributes, codec
    bint valid

cdef struct Inner:
    int64_t offset, timestamp, key_size, value_size
    int attributes, magic
    Bytes message, key, value
    int64_t size

cdef struct Growing:                # bytes that become more
    uint8_t* data
    int64_t size, room

cdef struct Marker:
    bint is_abort
    int32_t coordinator_epoch
    int64_t timestamp
