/* Array containers: ascending u16 values, little-endian, at any alignment. */
#ifndef PF_ARRAYS_H
#define PF_ARRAYS_H

#include "simd.h"

/* Whether n <= 4,096 values ascend strictly; *adjacent counts steps of exactly 1. */
PF_BODY int pf_array_check_body(const uint8_t *values, size_t n, uint32_t *adjacent) {
    uint16_t disorder = 0, steps = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        uint16_t low = pf_get16(values + 2 * i), high = pf_get16(values + 2 * i + 2);
        disorder |= (uint16_t)(high <= low);
        steps = (uint16_t)(steps + ((uint16_t)(high - low) == 1));
    }
    *adjacent = steps;
    return disorder == 0;
}
static int pf_array_check_portable(const uint8_t *values, size_t n, uint32_t *adjacent) {
    return pf_array_check_body(values, n, adjacent);
}
#if PF_X86
PF_AVX2 static int pf_array_check_avx2(const uint8_t *values, size_t n, uint32_t *adjacent) {
    static const int16_t last[32] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const __m256i one = _mm256_set1_epi16(1);
    __m256i disorder = _mm256_setzero_si256(), steps = _mm256_setzero_si256();
    if (n < 17) return pf_array_check_body(values, n, adjacent);
    for (size_t i = 0; i + 1 < n; i += 16) {
        size_t left = n - 1 - i < 16 ? n - 1 - i : 16; /* the last vector ends with the array: its last lanes are new */
        const uint8_t *at = values + 2 * (i + left - 16);
        __m256i low = _mm256_loadu_si256((const __m256i *)at), high = _mm256_loadu_si256((const __m256i *)(at + 2));
        __m256i fresh = _mm256_loadu_si256((const __m256i *)(last + left));
        disorder = _mm256_or_si256(disorder, _mm256_cmpeq_epi16(_mm256_max_epu16(low, high), low));
        steps = _mm256_sub_epi16(steps, _mm256_and_si256(fresh, _mm256_cmpeq_epi16(_mm256_sub_epi16(high, low), one)));
    }
    uint32_t sums[8];
    _mm256_storeu_si256((__m256i *)sums, _mm256_madd_epi16(steps, one));
    *adjacent = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
    return _mm256_testz_si256(disorder, disorder);
}
PF_AVX512 static int pf_array_check_avx512(const uint8_t *values, size_t n, uint32_t *adjacent) {
    const __m512i one = _mm512_set1_epi16(1);
    uint32_t steps = 0;
    __mmask32 disorder = 0;
    for (size_t i = 0; i + 1 < n; i += 32) {
        size_t left = n - 1 - i;
        __mmask32 lanes = left >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
        __m512i low = _mm512_maskz_loadu_epi16(lanes, values + 2 * i);
        __m512i high = _mm512_maskz_loadu_epi16(lanes, values + 2 * i + 2);
        disorder |= _mm512_mask_cmple_epu16_mask(lanes, high, low);
        steps += (uint32_t)_mm_popcnt_u32(_mm512_mask_cmpeq_epi16_mask(lanes, _mm512_sub_epi16(high, low), one));
    }
    *adjacent = steps;
    return disorder == 0;
}
#endif
PF_DISPATCH(int, pf_array_check, (const uint8_t *values, size_t n, uint32_t *adjacent), (values, n, adjacent))

/* How many values n > 0 runs, (start, length - 1) pairs, hold; 0 when they do not ascend, overlap or pass 65535. */
PF_BODY uint32_t pf_runs_check_body(const uint8_t *pairs, size_t n, int *touching) {
    uint32_t overlaps = 0, touches = 0, lengths = 0, run, next;
    memcpy(&run, pairs + 4 * (n - 1), 4);
    uint32_t end = (run & 0xFFFF) + (run >> 16) + 1; /* a run before it that passes 65535 overlaps the next */
    lengths = run >> 16;
    for (size_t i = 0; i + 1 < n; i++) {
        memcpy(&run, pairs + 4 * i, 4);
        memcpy(&next, pairs + 4 * i + 4, 4);
        uint32_t stop = (run & 0xFFFF) + (run >> 16) + 1, start = next & 0xFFFF;
        overlaps |= start < stop;
        touches |= start == stop;
        lengths += run >> 16;
    }
    *touching = touches != 0;
    return overlaps || end > 65536 ? 0 : lengths + (uint32_t)n;
}
PF_LEVELS(uint32_t, pf_runs_check, (const uint8_t *pairs, size_t n, int *touching), (pairs, n, touching))

/* The runs of n > 0 ascending values as (start, length - 1) pairs; returns their number. */
static uint32_t pf_runs_of_array(const uint8_t *values, size_t n, uint8_t *out) {
    uint32_t runs = 0;
    uint16_t start = pf_get16(values), last = start;
    for (size_t i = 1; i <= n; i++) {
        uint16_t value = i < n ? pf_get16(values + 2 * i) : start;
        if (i < n && value == (uint16_t)(last + 1)) {
            last = value;
            continue;
        }
        pf_put16(out + 4 * runs, start);
        pf_put16(out + 4 * runs + 2, (uint16_t)(last - start));
        runs++;
        start = last = value;
    }
    return runs;
}

/* Whether n arrays of `total` values are better merged two by two than united in a sparse bitmap. */
static inline int pf_merges_fast(size_t n, size_t total) { return pf_level != PF_LEVEL_PORTABLE && total >= 32 * n; }

/* A bitmap container of which few words are in use: behind it, a bit for each word that is not zero. */
enum { PF_SPARSE_BYTES = 8192 + 128 };

/* Sets the bits of n values. */
static void pf_sparse_set(const uint8_t *values, size_t n, uint8_t *sparse) {
    for (size_t i = 0; i < n; i++) {
        unsigned value = pf_get16(values + 2 * i);
        uint8_t *word = sparse + 8 * (value >> 6), *used = sparse + 8192 + 8 * (value >> 12);
        pf_put64(word, pf_get64(word) | (1ull << (value & 63)));
        pf_put64(used, pf_get64(used) | (1ull << ((value >> 6) & 63)));
    }
}

/* Clears all bits; writes them to out as an array and returns their number. */
static size_t pf_sparse_take(uint8_t *sparse, uint8_t *out) {
    size_t n = 0;
    for (unsigned i = 0; i < 16; i++) {
        uint64_t used = pf_get64(sparse + 8192 + 8 * i);
        pf_put64(sparse + 8192 + 8 * i, 0);
        for (; used != 0; used &= used - 1) {
            unsigned first = 64 * (64 * i + (unsigned)__builtin_ctzll(used));
            uint64_t word = pf_get64(sparse + first / 8);
            pf_put64(sparse + first / 8, 0);
            for (; word != 0; word &= word - 1) pf_put16(out + 2 * n++, (uint16_t)(first + (unsigned)__builtin_ctzll(word)));
        }
    }
    return n;
}

static size_t pf_array_symmetric(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        pf_put16(out + 2 * n, x < y ? x : y);
        n += x != y;
        i += x <= y;
        j += y <= x;
    }
    memcpy(out + 2 * n, a + 2 * i, 2 * (na - i));
    n += na - i;
    memcpy(out + 2 * n, b + 2 * j, 2 * (nb - j));
    return n + nb - j;
}

/* Bits of n values set in / cleared from / flipped in a bitmap container. */
static void pf_array_set(const uint8_t *values, size_t n, uint8_t *bits) {
    for (size_t i = 0; i < n; i++) {
        uint16_t value = pf_get16(values + 2 * i);
        bits[value >> 3] = (uint8_t)(bits[value >> 3] | (1u << (value & 7)));
    }
}

/* Those of n values whose bit in a bitmap container equals `wanted`; out has room for n + 1. */
static size_t pf_array_filter(const uint8_t *values, size_t n, const uint8_t *bits, unsigned wanted, uint8_t *out) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t value = pf_get16(values + 2 * i);
        pf_put16(out + 2 * kept, value);
        kept += ((unsigned)(bits[value >> 3] >> (value & 7)) & 1u) == wanted;
    }
    return kept;
}

/* The union of two ascending lists of (start, length - 1) runs, joined where they touch; out has room for as many as
 * both have. Returns the number of runs. */
static uint32_t pf_runs_union(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    uint32_t start = 0, end = 0, n = 0; /* of the last run, which may grow yet */
    size_t i = 0, j = 0;
    while (i < na || j < nb) {
        int from_a = j == nb || (i < na && pf_get16(a + 4 * i) <= pf_get16(b + 4 * j));
        const uint8_t *run = from_a ? a + 4 * i : b + 4 * j;
        uint32_t next = pf_get16(run), next_end = next + pf_get16(run + 2) + 1u;
        uint32_t apart = next > end || n == 0;
        i += (size_t)from_a;
        j += (size_t)!from_a;
        start = apart ? next : start;
        end = next_end > end ? next_end : end;
        n += apart;
        pf_put16(out + 4 * (n - 1), (uint16_t)start);
        pf_put16(out + 4 * (n - 1) + 2, (uint16_t)(end - start - 1));
    }
    if (end > 65536) pf_put16(out + 4 * (n - 1) + 2, (uint16_t)(65535 - start)); /* only if the runs change meanwhile */
    return n;
}

#endif
