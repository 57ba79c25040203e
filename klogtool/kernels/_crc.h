/* CRC-32C, as fast as the processor can (klogtool/format/checksums.py is the reference). Three ways:

   - by folding: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ" (Intel, 2009), on 64 bytes
     at a time, where a processor multiplies so many without carry (VPCLMULQDQ). One stream through memory, and as fast
     on a batch as on a file;
   - by the CRC instruction, three lanes to hide its latency;
   - by tables, slicing by 8. */

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define CRC_INSTRUCTION 1
/* clang keeps the instruction apart from the rest of SSE 4.2; gcc before 11 does not know that name. */
#if defined(__clang__) && __clang_major__ >= 14
#define CRC_FEATURES "sse4.2,crc32"
#else
#define CRC_FEATURES "sse4.2"
#endif
#define CRC_TARGET __attribute__((target(CRC_FEATURES)))
#define CRC64(c, v) _mm_crc32_u64((c), (v))
#define CRC8(c, v) _mm_crc32_u8((c), (v))
/* By CPUID itself: __builtin_cpu_supports says no to everything where clang comes without its start-up code. */
static int crc_instruction(void) {
    unsigned int a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) != 0;
}
#if defined(__clang__) || __GNUC__ >= 10
#define CRC_FOLDING 1
/* Whether the system saves the registers of AVX-512: XCR0, bits 1, 2 and 5 to 7. */
static int crc_wide_registers(void) {
    unsigned int a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0) return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a & 0xe6) == 0xe6;
}
static int crc_folding(void) {
    unsigned int a, b, c, d;
    const unsigned int wide = 1u << 16 | 1u << 30, products = 1u << 10; /* AVX512F, AVX512BW; VPCLMULQDQ */
    return crc_instruction() && crc_wide_registers() && __get_cpuid_count(7, 0, &a, &b, &c, &d)
        && (b & wide) == wide && (c & products) != 0;
}
#else
static int crc_folding(void) { return 0; }
#endif
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
static int crc_instruction(void) { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; }
static int crc_folding(void) { return 0; }
#else
static int crc_instruction(void) { return 0; }
static int crc_folding(void) { return 0; }
#endif

enum { CRC_BY_TABLES, CRC_BY_INSTRUCTION, CRC_BY_FOLDING };
static int crc_way; /* the fastest that this processor has */

enum { CRC32C_POLYNOMIAL = 0x82F63B78, CRC32_POLYNOMIAL = 0xEDB88320 };
enum { FOLD_STEP = 64, LONG_FOLD = 4 * FOLD_STEP, FOLD_LANE = 16 };
enum { LONG_LANE = 4096, SHORT_LANE = 256 };
/* The next three long lanes: a processor foresees what is read next within a page, and each lane is one. Without asking,
   a pass over memory takes a third longer. */
enum { LANES_AHEAD = 3 * LONG_LANE };

static uint32_t crc32c_slices[8][256], crc32_slices[8][256];
static uint32_t crc_lanes[2][4][256];   /* what LONG_LANE and SHORT_LANE zero bytes do to each byte of a CRC */
/* What zero bytes behind them do to either half of 16 bytes: four steps, a step, the lanes behind each lane of a step. */
static uint64_t crc_long_fold[2], crc_fold[2], crc_lane_folds[4][2];

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

/* x to this power modulo the polynomial, bit 31 the lowest, as all CRCs here. */
static uint32_t power_of_x(int n) {
    uint32_t c = 0x80000000u;
    while (n--) c = c & 1 ? c >> 1 ^ CRC32C_POLYNOMIAL : c >> 1;
    return c;
}

/* A product of numbers of 64 bits, lowest bit last, is one power too high, and a power of 32 bits lies 32 too high in
   64: so 33 less than the distance; for the first half 64 more, by which it lies before the second. */
static void make_fold(uint64_t fold[2], int bytes) {
    fold[0] = power_of_x(8 * bytes + 64 - 33);
    fold[1] = power_of_x(8 * bytes - 33);
}

static void make_folds(void) {
    make_fold(crc_long_fold, LONG_FOLD);
    make_fold(crc_fold, FOLD_STEP);
    for (int lane = 0; lane < 3; lane++) make_fold(crc_lane_folds[lane], FOLD_STEP - FOLD_LANE * (lane + 1));
}

static void make_crc_tables(void) {
    make_slices(crc32c_slices, CRC32C_POLYNOMIAL);
    make_slices(crc32_slices, CRC32_POLYNOMIAL);
    make_lane(crc_lanes[0], LONG_LANE);
    make_lane(crc_lanes[1], SHORT_LANE);
    make_folds();
    crc_way = crc_folding() ? CRC_BY_FOLDING : crc_instruction() ? CRC_BY_INSTRUCTION : CRC_BY_TABLES;
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

#ifdef CRC_FOLDING
#define FOLD_TARGET __attribute__((target("avx512f,avx512bw,vpclmulqdq,pclmul," CRC_FEATURES)))

FOLD_TARGET static inline __m512i fold_of(const uint64_t *fold) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) fold));
}

FOLD_TARGET static inline __m512i folded(__m512i x, __m512i fold, __m512i behind) {
    enum { XOR_OF_THREE = 0x96 };
    const __m512i low = _mm512_clmulepi64_epi128(x, fold, 0x00), high = _mm512_clmulepi64_epi128(x, fold, 0x11);
    return _mm512_ternarylogic_epi64(low, high, behind, XOR_OF_THREE);
}

/* The CRC of a step's bytes: its lanes are put where the last one lies. */
FOLD_TARGET static inline uint64_t crc_of_step(__m512i x) {
    const __m512i last = _mm512_maskz_mov_epi64(0xC0, x), sum = folded(x, _mm512_loadu_si512(crc_lane_folds), last);
    const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
    const __m128i lane = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    return CRC64(CRC64(0, _mm_cvtsi128_si64(lane)), _mm_extract_epi64(lane, 1));
}

/* Of at least FOLD_STEP bytes. Each step is put where the next one lies, and added to it. Zeros in front change nothing:
   so the first step is filled up with them, and no bytes are left behind the last one; but for less than the four to
   which `start` is added. */
FOLD_TARGET static uint32_t crc32c_folded(uint32_t start, const uint8_t *p, int64_t size) {
    const uint8_t *end = p + size;
    const int odd = size % FOLD_STEP, first = odd < 4 ? FOLD_STEP : odd, zeros = FOLD_STEP - first;
    const uint32_t turned = start << 8 * (zeros & 3) | (uint64_t) start >> (32 - 8 * (zeros & 3));
    const __m512i fold = fold_of(crc_fold);
    __m512i a = _mm512_xor_si512(_mm512_maskz_loadu_epi8(~0ULL << zeros, p - zeros),
                                 _mm512_maskz_mov_epi8(0xFULL << zeros, _mm512_set1_epi32((int) turned)));
    p += first;
    if (end - p >= LONG_FOLD) {
        const __m512i long_fold = fold_of(crc_long_fold);
        __m512i b = _mm512_loadu_si512(p), c = _mm512_loadu_si512(p + FOLD_STEP), d = _mm512_loadu_si512(p + 2 * FOLD_STEP);
        for (p += 3 * FOLD_STEP; end - p >= LONG_FOLD; p += LONG_FOLD) {
            a = folded(a, long_fold, _mm512_loadu_si512(p));
            b = folded(b, long_fold, _mm512_loadu_si512(p + FOLD_STEP));
            c = folded(c, long_fold, _mm512_loadu_si512(p + 2 * FOLD_STEP));
            d = folded(d, long_fold, _mm512_loadu_si512(p + 3 * FOLD_STEP));
        }
        a = folded(folded(folded(a, fold, b), fold, c), fold, d);
    }
    for (; end - p >= FOLD_STEP; p += FOLD_STEP) a = folded(a, fold, _mm512_loadu_si512(p));
    uint32_t c = (uint32_t) crc_of_step(a);
    while (p < end) c = CRC8(c, *p++);
    return c;
}
#endif

/* `so_far` is the CRC of the bytes before these, 0 at first. `way`: one that this processor has. */
static uint32_t crc32c_by(int way, uint32_t so_far, const uint8_t *p, int64_t size) {
#ifdef CRC_FOLDING
    if (way == CRC_BY_FOLDING && size >= FOLD_STEP) return ~crc32c_folded(~so_far, p, size);
#endif
#ifdef CRC_INSTRUCTION
    if (way != CRC_BY_TABLES) return ~crc32c_instructed(~so_far, p, size);
#endif
    return ~crc_sliced(crc32c_slices, ~so_far, p, size);
}

static uint32_t crc32c_of(uint32_t so_far, const uint8_t *p, int64_t size) { return crc32c_by(crc_way, so_far, p, size); }

static uint32_t crc32_of(uint32_t so_far, const uint8_t *p, int64_t size) {
    return ~crc_sliced(crc32_slices, ~so_far, p, size);
}
