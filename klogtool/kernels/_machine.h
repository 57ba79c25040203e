/* What Cython cannot say: unaligned big-endian loads and stores, the CRC instruction, a quick start. */
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

/* --- CRC-32C: the instruction where the processor has it, three lanes to hide its latency; else slicing by 8 ------- */

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC_INSTRUCTION 1
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC64(c, v) _mm_crc32_u64((c), (v))
#define CRC8(c, v) _mm_crc32_u8((c), (v))
static int crc_ready(void) { return __builtin_cpu_supports("sse4.2") != 0; }
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#pragma GCC push_options
#pragma GCC target("+crc")
#include <arm_acle.h>
#pragma GCC pop_options
#define CRC_INSTRUCTION 1
#define CRC_TARGET __attribute__((target("+crc")))
#define CRC64(c, v) __crc32cd((uint32_t) (c), (v))
#define CRC8(c, v) __crc32cb((uint32_t) (c), (v))
static int crc_ready(void) { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; }
#else
static int crc_ready(void) { return 0; }
#endif

enum { CRC32C_POLYNOMIAL = 0x82F63B78, CRC32_POLYNOMIAL = 0xEDB88320 };
enum { LONG_LANE = 4096, SHORT_LANE = 256 };
/* The next three long lanes: a processor foresees what is read next within a page, and each lane is one. Without asking,
   a pass over memory takes a third longer. */
enum { LANES_AHEAD = 3 * LONG_LANE };

static uint32_t crc32c_slices[8][256], crc32_slices[8][256];
static uint32_t crc_lanes[2][4][256];   /* what LONG_LANE and SHORT_LANE zero bytes do to each byte of a CRC */
static int crc_hardware;

static void make_slices(uint32_t slices[8][256], uint32_t polynomial) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ polynomial : c >> 1;
        slices[0][n] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int n = 0; n < 256; n++)
            slices[k][n] = slices[k - 1][n] >> 8 ^ slices[0][slices[k - 1][n] & 255];
}

/* A matrix over GF(2), a column a bit, applied to a CRC; squared until it stands for `size` zero bytes. */
static uint32_t apply(const uint32_t *matrix, uint32_t c) {
    uint32_t sum = 0;
    for (; c; c >>= 1, matrix++)
        if (c & 1) sum ^= *matrix;
    return sum;
}

static void make_lane(uint32_t lane[4][256], int size) {
    uint32_t matrix[32], square[32];
    matrix[0] = CRC32C_POLYNOMIAL;                       /* one zero bit */
    for (int n = 1; n < 32; n++) matrix[n] = 1u << (n - 1);
    for (int bits = 1; bits < size * 8; bits *= 2) {
        for (int n = 0; n < 32; n++) square[n] = apply(matrix, matrix[n]);
        memcpy(matrix, square, sizeof matrix);
    }
    for (int k = 0; k < 4; k++)
        for (uint32_t n = 0; n < 256; n++) lane[k][n] = apply(matrix, n << 8 * k);
}

static void make_crc_tables(void) {
    make_slices(crc32c_slices, CRC32C_POLYNOMIAL);
    make_slices(crc32_slices, CRC32_POLYNOMIAL);
    make_lane(crc_lanes[0], LONG_LANE);
    make_lane(crc_lanes[1], SHORT_LANE);
    crc_hardware = crc_ready();
}

static uint32_t crc_sliced(uint32_t s[8][256], uint32_t c, const uint8_t *p, int64_t size) {
    const uint8_t *end = p + size;
    for (; end - p >= 8; p += 8) {
        uint64_t v = le64(p) ^ c;
        c = s[7][v & 255] ^ s[6][v >> 8 & 255] ^ s[5][v >> 16 & 255] ^ s[4][v >> 24 & 255]
          ^ s[3][v >> 32 & 255] ^ s[2][v >> 40 & 255] ^ s[1][v >> 48 & 255] ^ s[0][v >> 56];
    }
    while (p < end) c = c >> 8 ^ s[0][(c ^ *p++) & 255];
    return c;
}

#ifdef CRC_INSTRUCTION
static inline uint32_t crc_shift(int k, uint64_t c) {
    return crc_lanes[k][0][c & 255] ^ crc_lanes[k][1][c >> 8 & 255] ^ crc_lanes[k][2][c >> 16 & 255]
         ^ crc_lanes[k][3][c >> 24 & 255];
}

CRC_TARGET static uint32_t crc32c_instructed(uint32_t start, const uint8_t *p, int64_t size) {
    const uint8_t *end = p + size;
    uint64_t a = start;
    for (int k = 0; k < 2; k++) {
        const int64_t n = k ? SHORT_LANE : LONG_LANE;
        for (; end - p >= 3 * n; p += 3 * n) {
            uint64_t b = 0, c = 0;
            for (const uint8_t *q = p; q < p + n; q += LINE_BYTES) {
                for (int lane = 0; lane < 3; lane++) __builtin_prefetch(q + lane * n + LANES_AHEAD);
                for (int at = 0; at < LINE_BYTES; at += 8)
                    a = CRC64(a, le64(q + at)), b = CRC64(b, le64(q + n + at)), c = CRC64(c, le64(q + 2 * n + at));
            }
            a = crc_shift(k, crc_shift(k, a) ^ b) ^ c;
        }
    }
    for (; end - p >= 8; p += 8) a = CRC64(a, le64(p));
    uint32_t c = (uint32_t) a;
    while (p < end) c = CRC8(c, *p++);
    return c;
}
#endif

/* `so_far` is the CRC of the bytes before these, 0 at first. */
static uint32_t crc32c_of(uint32_t so_far, const uint8_t *p, int64_t size) {
#ifdef CRC_INSTRUCTION
    if (crc_hardware) return ~crc32c_instructed(~so_far, p, size);
#endif
    return ~crc_sliced(crc32c_slices, ~so_far, p, size);
}

static uint32_t crc32_of(uint32_t so_far, const uint8_t *p, int64_t size) {
    return ~crc_sliced(crc32_slices, ~so_far, p, size);
}
