/* What Cython cannot say: unaligned big-endian loads and stores, sixteen bytes at a time, a quick start. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE   /* memmem */
#endif
#include <sys/mman.h>
#include <stdint.h>
#include <string.h>

/* For an extension that fits any Python, Cython asks the module `inspect` for these numbers when it is loaded. That takes
   longer than a small file takes to dump, and they are the same in every Python. */
#if CYTHON_COMPILING_IN_LIMITED_API
#define __Pyx_init_co_variables() \
    (CO_OPTIMIZED = 1, CO_NEWLOCALS = 2, CO_VARARGS = 4, CO_VARKEYWORDS = 8, CO_GENERATOR = 32, CO_COROUTINE = 128, \
     CO_ASYNC_GENERATOR = 512, 0)
#endif

#define LOAD(name, type, swap) \
    static inline type name(const uint8_t *p) { type v; memcpy(&v, p, sizeof v); return (type) swap(v); }
#define SAME(v) (v)
LOAD(le32, uint32_t, SAME)
LOAD(le64, uint64_t, SAME)
LOAD(be16, int16_t, __builtin_bswap16)
LOAD(be32, int32_t, __builtin_bswap32)
LOAD(be64, int64_t, __builtin_bswap64)

/* Small entries lie on and on, but each is only known by the one before: a processor that waits for its length asks for
   nothing further meanwhile. So the bytes some way behind an entry are asked for. Always inline: GCC takes a function that
   only asks for one without effect, and leaves its calls out. */
enum { AHEAD_BYTES = 2048, SMALL_BYTES = 1024, LINE_BYTES = 64 };

__attribute__((always_inline)) static inline void fetch_ahead(const uint8_t *p, int64_t size) {
    if (size > SMALL_BYTES) return;
    for (int64_t n = 0; n < size; n += LINE_BYTES) __builtin_prefetch(p + AHEAD_BYTES + n);
}

static inline void fetch_line(const uint8_t *p) { __builtin_prefetch(p); }

/* Memory that is zeros, and takes none until it is written to. Not in large pages: where memory is in pieces, the system
   takes longer to find one than they spare. NULL if there is none. */
static inline void *zeroed_pages(size_t size) {
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static inline void free_pages(void *pages, size_t size) { munmap(pages, size); }

/* Text, 16 bytes at a time, by the compiler's own vectors (SSE2, NEON). */
typedef int8_t sixteen __attribute__((vector_size(16)));

static inline int none_set(sixteen v) {
    uint64_t w[2];
    memcpy(w, &v, sizeof w);
    return (w[0] | w[1]) == 0;
}

/* Whether 32 bytes are ASCII. */
static inline int ascii_32(const uint8_t *p) {
    return ((le64(p) | le64(p + 8) | le64(p + 16) | le64(p + 24)) & 0x8080808080808080ULL) == 0;
}

/* Which of 16 bytes are no ASCII that JSON takes as it is: from 0x80 up they are negative. */
static inline sixteen json_special(const uint8_t *p) {
    sixteen v;
    memcpy(&v, p, sizeof v);
    return (v < 0x20) | (v == '"') | (v == '\\');
}

/* How many of 16 bytes come before the first such. */
static inline int json_plain_before(const uint8_t *p) {
    sixteen special = json_special(p);
    uint64_t w[2];
    memcpy(w, &special, sizeof w);
    if (w[0]) return __builtin_ctzll(w[0]) / 8;
    return w[1] ? 8 + __builtin_ctzll(w[1]) / 8 : 16;
}

/* Whether none of 64 bytes is such. */
static inline int json_plain_64(const uint8_t *p) {
    return none_set(json_special(p) | json_special(p + 16) | json_special(p + 32) | json_special(p + 48));
}

/* Where an entry may begin, by single bytes: what a search behind damage goes over at first, 16 positions at a time. */

typedef uint8_t sixteen_bytes __attribute__((vector_size(16)));

static inline sixteen_bytes sixteen_at(const uint8_t *p) {
    sixteen_bytes v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline sixteen_bytes either(sixteen_bytes v, uint8_t one, uint8_t other) {
    return (sixteen_bytes) (v == one) | (sixteen_bytes) (v == other);
}

static inline int first_set_byte(sixteen_bytes v) {
    uint64_t w[2];
    memcpy(w, &v, sizeof w);
    return w[0] ? __builtin_ctzll(w[0]) / 8 : w[1] ? 8 + __builtin_ctzll(w[1]) / 8 : 16;
}

/* What a head must look like, byte by byte: a magic up to 2 at `magic`; at `length` a number from `least` on that begins
   with a byte up to `most`; at 0 the four bytes of `high` or of `high` + 1. */
struct head { int magic, length; uint8_t least, most; uint32_t high; };

/* The first position in [at, stop) of p[0:have] that looks so; nearer to the end than 32 bytes any does. */
static int64_t next_head(const uint8_t *p, int64_t at, int64_t stop, int64_t have, const struct head *h) {
    uint8_t a[4], b[4];
    for (int n = 0; n < 4; n++) {
        a[n] = (uint8_t) (h->high >> (24 - 8 * n));
        b[n] = (uint8_t) ((h->high + 1) >> (24 - 8 * n));
    }
    for (; at < stop && have - at >= 32; at += 16) {
        const uint8_t *q = p + at, *length = q + h->length;
        sixteen_bytes may = (sixteen_bytes) (sixteen_at(q + h->magic) <= 2) & (sixteen_bytes) (sixteen_at(length) <= h->most);
        if (first_set_byte(may) == 16) continue;
        may &= (sixteen_bytes) ((sixteen_at(length + 1) | sixteen_at(length + 2)) != 0)
             | (sixteen_bytes) (sixteen_at(length) != 0) | (sixteen_bytes) (sixteen_at(length + 3) >= h->least);
        for (int n = 0; n < 4; n++) may &= either(sixteen_at(q + n), a[n], b[n]);
        const int first = first_set_byte(may);
        if (first < 16) return at + first < stop ? at + first : stop;
    }
    return at < stop ? at : stop;
}
