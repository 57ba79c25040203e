# cython: language_level=3, cdivision=True
"""The hot loops over log bytes. Each has a reference in Python, named in klogtool/kernels/__init__.py.

A kernel takes buffers and numbers, fills a buffer of its caller, and says how far it came and why it stopped. What it
is not sure of it leaves to the reference: it stops in front of it, with nothing of it written.

One extension, its text in parts, because every module that takes a memoryview carries a megabyte of C for it.
"""

cimport cython
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset, strlen

cdef extern from "_machine.h" nogil:
    uint32_t le32(const uint8_t* p)
    uint64_t le64(const uint8_t* p)
    int16_t be16(const uint8_t* p)
    int32_t be32(const uint8_t* p)
    int64_t be64(const uint8_t* p)
    int ascii_32(const uint8_t* p)
    int json_plain_before(const uint8_t* p)
    int json_plain_64(const uint8_t* p)
    void fetch_ahead(const uint8_t* p, int64_t size)
    void fetch_line(const uint8_t* p)
    void* zeroed_pages(size_t size)
    void free_pages(void* pages, size_t size)
    struct head:
        int magic, length
        uint8_t least, most
        uint32_t high
    int64_t next_head(const uint8_t* p, int64_t at, int64_t stop, int64_t have, const head* h)

cdef extern from "_crc.h" nogil:
    void make_crc_tables()
    int crc_way
    uint32_t crc32c_by(int way, uint32_t so_far, const uint8_t* p, int64_t size)
    uint32_t crc32c_of(uint32_t so_far, const uint8_t* p, int64_t size)
    uint32_t crc32_of(uint32_t so_far, const uint8_t* p, int64_t size)

cdef extern from * nogil:
    void* memmem(const void* haystack, size_t haystack_size, const void* needle, size_t needle_size)

ctypedef const uint8_t* Bytes

include "_layout.pxi"
include "_common.pxi"
include "_varint.pxi"
include "_records.pxi"
include "_codecs.pxi"
include "_walk.pxi"
include "_mapped.pxi"
include "_text.pxi"
include "_dump.pxi"
include "_json.pxi"
include "_csv.pxi"
include "_objects.pxi"
include "_columns.pxi"
include "_resync.pxi"
include "_indexes.pxi"
include "_transactions.pxi"
include "_recover.pxi"
include "_scan.pxi"
include "_producers.pxi"
include "_append.pxi"
include "_clean.pxi"
include "_offsets.pxi"
include "_snappy.pxi"
include "_heads.pxi"
include "_blank.pxi"
include "_restamp.pxi"
include "_digest.pxi"
include "_merge.pxi"
include "_encode.pxi"
include "_avro.pxi"

make_crc_tables()
