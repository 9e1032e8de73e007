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

/* a OP b of two arrays into out, which has room for na + nb values and 32 more; returns the number of values. */
static size_t pf_array_union_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        pf_put16(out + 2 * n++, x < y ? x : y);
        i += x <= y;
        j += y <= x;
    }
    memcpy(out + 2 * n, a + 2 * i, 2 * (na - i));
    n += na - i;
    memcpy(out + 2 * n, b + 2 * j, 2 * (nb - j));
    return n + nb - j;
}

static size_t pf_array_intersection_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        pf_put16(out + 2 * n, x);
        n += x == y;
        i += x <= y;
        j += y <= x;
    }
    return n;
}

static size_t pf_array_difference_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        pf_put16(out + 2 * n, x);
        n += x < y;
        i += x <= y;
        j += y <= x;
    }
    memcpy(out + 2 * n, a + 2 * i, 2 * (na - i));
    return n + na - i;
}

#if PF_X86
/* AVX-512: 32 values at a time. Loads past an array's end give 0xFFFF, which as a value can only stand last. */

static inline PF_AVX512 __m512i pf_load32(const uint8_t *values, size_t n, size_t i) {
    size_t left = n - i;
    __mmask32 lanes = left >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
    return _mm512_mask_loadu_epi16(_mm512_set1_epi16(-1), lanes, values + 2 * i);
}

/* Of two ascending vectors, the 32 smallest values (*low) and the 32 largest (*high), each ascending. */
static inline PF_AVX512 void pf_merge32(__m512i *low, __m512i *high) {
    const __m512i reversed = _mm512_set_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                                              21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    __m512i x = *low, y = _mm512_permutexvar_epi16(reversed, *high);
    __m512i l = _mm512_min_epu16(x, y), h = _mm512_max_epu16(x, y), s, t;
    s = _mm512_shuffle_i64x2(l, l, 0x4E), t = _mm512_shuffle_i64x2(h, h, 0x4E);
    l = _mm512_mask_blend_epi16(0xFFFF0000u, _mm512_min_epu16(l, s), _mm512_max_epu16(l, s));
    h = _mm512_mask_blend_epi16(0xFFFF0000u, _mm512_min_epu16(h, t), _mm512_max_epu16(h, t));
    s = _mm512_shuffle_i64x2(l, l, 0xB1), t = _mm512_shuffle_i64x2(h, h, 0xB1);
    l = _mm512_mask_blend_epi16(0xFF00FF00u, _mm512_min_epu16(l, s), _mm512_max_epu16(l, s));
    h = _mm512_mask_blend_epi16(0xFF00FF00u, _mm512_min_epu16(h, t), _mm512_max_epu16(h, t));
    s = _mm512_shuffle_epi32(l, _MM_PERM_BADC), t = _mm512_shuffle_epi32(h, _MM_PERM_BADC);
    l = _mm512_mask_blend_epi16(0xF0F0F0F0u, _mm512_min_epu16(l, s), _mm512_max_epu16(l, s));
    h = _mm512_mask_blend_epi16(0xF0F0F0F0u, _mm512_min_epu16(h, t), _mm512_max_epu16(h, t));
    s = _mm512_shuffle_epi32(l, _MM_PERM_CDAB), t = _mm512_shuffle_epi32(h, _MM_PERM_CDAB);
    l = _mm512_mask_blend_epi16(0xCCCCCCCCu, _mm512_min_epu16(l, s), _mm512_max_epu16(l, s));
    h = _mm512_mask_blend_epi16(0xCCCCCCCCu, _mm512_min_epu16(h, t), _mm512_max_epu16(h, t));
    s = _mm512_rol_epi32(l, 16), t = _mm512_rol_epi32(h, 16);
    *low = _mm512_mask_blend_epi16(0xAAAAAAAAu, _mm512_min_epu16(l, s), _mm512_max_epu16(l, s));
    *high = _mm512_mask_blend_epi16(0xAAAAAAAAu, _mm512_min_epu16(h, t), _mm512_max_epu16(h, t));
}

/* Stores the values of an ascending vector that differ from the one before them; *last is the one before the first. */
static inline PF_AVX512 size_t pf_store_distinct(__m512i values, __m512i *last, uint8_t *out, size_t n, int is_first) {
    const __m512i before_index = _mm512_set_epi16(30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,
                                                  13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 63);
    __m512i before = _mm512_permutex2var_epi16(values, before_index, *last);
    __mmask32 fresh = _mm512_cmpneq_epi16_mask(values, before) | (is_first ? 1u : 0u);
    *last = values;
    _mm512_storeu_si512(out + 2 * n, _mm512_maskz_compress_epi16(fresh, values));
    return n + (size_t)_mm_popcnt_u32(fresh);
}

PF_AVX512 static size_t pf_array_union_avx512(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 32, j = 32, n;
    if (na == 0 || nb == 0) return pf_array_union_portable(a, na, b, nb, out);
    int full = pf_get16(a + 2 * (na - 1)) == 0xFFFF || pf_get16(b + 2 * (nb - 1)) == 0xFFFF;
    __m512i low = pf_load32(a, na, 0), high = pf_load32(b, nb, 0), last = _mm512_setzero_si512();
    pf_merge32(&low, &high);
    n = pf_store_distinct(low, &last, out, 0, 1);
    while (i < na || j < nb) {
        if (j >= nb || (i < na && pf_get16(a + 2 * i) <= pf_get16(b + 2 * j))) {
            low = pf_load32(a, na, i);
            i += 32;
        } else {
            low = pf_load32(b, nb, j);
            j += 32;
        }
        pf_merge32(&low, &high);
        n = pf_store_distinct(low, &last, out, n, 0);
    }
    n = pf_store_distinct(high, &last, out, n, 0);
    return n - (!full && pf_get16(out + 2 * (n - 1)) == 0xFFFF); /* what the loads past the ends left */
}

/* Which of 32 values of a stand in b, from the block at *j on; blocks of b below all of them are stepped over. */
static inline PF_AVX512 __mmask32 pf_members32(__m512i values, uint16_t top, const uint8_t *b, size_t nb, size_t *j) {
    __mmask32 found = 0;
    while (*j < nb) {
        size_t count = nb - *j < 32 ? nb - *j : 32;
        for (size_t k = 0; k < count; k++)
            found |= _mm512_cmpeq_epi16_mask(values, _mm512_set1_epi16((short)pf_get16(b + 2 * (*j + k))));
        if (pf_get16(b + 2 * (*j + count - 1)) > top) break; /* may match the next values too */
        *j += count;
    }
    return found;
}

static inline PF_AVX512 size_t pf_array_select(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out,
                                               int wanted) {
    size_t j = 0, n = 0;
    for (size_t i = 0; i < na; i += 32) {
        size_t count = na - i < 32 ? na - i : 32;
        __mmask32 lanes = count == 32 ? ~(__mmask32)0 : ((__mmask32)1 << count) - 1;
        __m512i values = _mm512_maskz_loadu_epi16(lanes, a + 2 * i);
        __mmask32 found = pf_members32(values, pf_get16(a + 2 * (i + count - 1)), b, nb, &j);
        __mmask32 kept = (wanted ? found : ~found) & lanes;
        _mm512_storeu_si512(out + 2 * n, _mm512_maskz_compress_epi16(kept, values));
        n += (size_t)_mm_popcnt_u32(kept);
    }
    return n;
}

PF_AVX512 static size_t pf_array_intersection_avx512(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                                     uint8_t *out) {
    return pf_array_select(a, na, b, nb, out, 1);
}
PF_AVX512 static size_t pf_array_difference_avx512(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                                   uint8_t *out) {
    return pf_array_select(a, na, b, nb, out, 0);
}

/* AVX2: the same with 16 values at a time. */

static inline PF_AVX2 __m256i pf_load16(const uint8_t *values, size_t n, size_t i) {
    static const int16_t ends[32] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (n - i >= 16) return _mm256_loadu_si256((const __m256i *)(values + 2 * i));
    __m256i past = _mm256_loadu_si256((const __m256i *)(ends + 16 - (n - i)));
    __m256i pairs = _mm256_cmpeq_epi32(past, _mm256_setzero_si256()); /* an odd last value comes by itself */
    __m256i last = _mm256_andnot_si256(_mm256_or_si256(past, pairs), _mm256_set1_epi16((short)pf_get16(values + 2 * n - 2)));
    __m256i found = _mm256_maskload_epi32((const int *)(const void *)(values + 2 * i), pairs);
    return _mm256_or_si256(_mm256_or_si256(found, past), last);
}

/* Of two ascending vectors, the 16 smallest values (*low) and the 16 largest (*high), each ascending. A bitonic merge
 * of both at once: each step brings the partners of all comparisons to the same places of two vectors. */
static inline PF_AVX2 void pf_merge16(__m256i *low, __m256i *high) {
    const __m256i reversed = _mm256_setr_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1, 14, 15, 12, 13, 10,
                                              11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
    __m256i x = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(*low, reversed), 0x4E), y = *high;
    __m256i l = _mm256_min_epu16(x, y), h = _mm256_max_epu16(x, y);
    x = _mm256_permute2x128_si256(l, h, 0x20), y = _mm256_permute2x128_si256(l, h, 0x31); /* 8 values apart */
    l = _mm256_min_epu16(x, y), h = _mm256_max_epu16(x, y);
    x = _mm256_unpacklo_epi64(l, h), y = _mm256_unpackhi_epi64(l, h); /* 4 apart */
    l = _mm256_min_epu16(x, y), h = _mm256_max_epu16(x, y);
    x = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(l), _mm256_castsi256_ps(h), 0x88)); /* 2 apart */
    y = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(l), _mm256_castsi256_ps(h), 0xDD));
    l = _mm256_min_epu16(x, y), h = _mm256_max_epu16(x, y);
    x = _mm256_blend_epi16(l, _mm256_slli_epi32(h, 16), 0xAA); /* neighbours */
    y = _mm256_blend_epi16(_mm256_srli_epi32(l, 16), h, 0xAA);
    l = _mm256_min_epu16(x, y), h = _mm256_max_epu16(x, y);
    x = _mm256_unpacklo_epi16(l, h), y = _mm256_unpackhi_epi16(l, h); /* and back, step by step */
    l = _mm256_unpacklo_epi64(x, y), h = _mm256_unpackhi_epi64(x, y);
    *low = _mm256_permute2x128_si256(l, h, 0x20), *high = _mm256_permute2x128_si256(l, h, 0x31);
}

/* The values of a half whose bits are set, moved together. */
static inline PF_AVX2 __m128i pf_compress8(__m128i values, unsigned bits) {
    __m128i index = _mm_loadl_epi64((const __m128i *)pf_bits_of_byte[bits]);
    __m128i twice = _mm_unpacklo_epi8(index, index);
    return _mm_shuffle_epi8(values, _mm_add_epi8(_mm_add_epi8(twice, twice), _mm_set1_epi16(0x0100)));
}

static inline PF_AVX2 size_t pf_store_distinct16(__m256i values, __m256i last, uint8_t *out, size_t n, unsigned first) {
    __m256i before = _mm256_alignr_epi8(values, _mm256_permute2x128_si256(last, values, 0x21), 14);
    __m256i equal = _mm256_cmpeq_epi16(values, before);
    unsigned fresh = ~(unsigned)_mm256_movemask_epi8(_mm256_packs_epi16(equal, equal)) | first;
    unsigned low = fresh & 0xFF, high = (fresh >> 16) & 0xFF;
    _mm_storeu_si128((__m128i *)(out + 2 * n), pf_compress8(_mm256_castsi256_si128(values), low));
    n += (size_t)_mm_popcnt_u32(low);
    _mm_storeu_si128((__m128i *)(out + 2 * n), pf_compress8(_mm256_extracti128_si256(values, 1), high));
    return n + (size_t)_mm_popcnt_u32(high);
}

static inline PF_AVX2 size_t pf_store16(__m256i values, __m256i last, uint8_t *out, size_t n, unsigned first,
                                        int distinct) {
    if (distinct) return pf_store_distinct16(values, last, out, n, first);
    _mm256_storeu_si256((__m256i *)(out + 2 * n), values);
    return n + 16;
}

static inline PF_AVX2 __attribute__((always_inline)) size_t pf_array_merged16(const uint8_t *a, size_t na, const uint8_t *b,
                                                                             size_t nb, uint8_t *out, int distinct) {
    size_t i = 16, j = 16, n;
    if (na == 0 || nb == 0) return pf_array_union_portable(a, na, b, nb, out);
    int full = pf_get16(a + 2 * (na - 1)) == 0xFFFF || pf_get16(b + 2 * (nb - 1)) == 0xFFFF;
    __m256i low = pf_load16(a, na, 0), high = pf_load16(b, nb, 0), last;
    pf_merge16(&low, &high);
    n = pf_store16(low, low, out, 0, 1, distinct);
    last = low;
    while (i + 16 <= na && j + 16 <= nb) { /* whole vectors, chosen without a branch */
        int from_a = pf_get16(a + 2 * i) <= pf_get16(b + 2 * j);
        low = _mm256_loadu_si256((const __m256i *)(from_a ? a + 2 * i : b + 2 * j));
        i += from_a ? 16 : 0;
        j += from_a ? 0 : 16;
        pf_merge16(&low, &high);
        n = pf_store16(low, last, out, n, 0, distinct);
        last = low;
    }
    while (i < na || j < nb) {
        if (j >= nb || (i < na && pf_get16(a + 2 * i) <= pf_get16(b + 2 * j))) {
            low = pf_load16(a, na, i);
            i += 16;
        } else {
            low = pf_load16(b, nb, j);
            j += 16;
        }
        pf_merge16(&low, &high);
        n = pf_store16(low, last, out, n, 0, distinct);
        last = low;
    }
    n = pf_store16(high, last, out, n, 0, distinct);
    if (!distinct) return na + nb;
    return n - (!full && pf_get16(out + 2 * (n - 1)) == 0xFFFF);
}
PF_AVX2 static size_t pf_array_union_avx2(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    return pf_array_merged16(a, na, b, nb, out, 1);
}
PF_AVX2 static size_t pf_array_merge_avx2(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    return pf_array_merged16(a, na, b, nb, out, 0);
}
#define pf_array_merge_avx512 pf_array_union_avx512
#define pf_array_intersection_avx2 pf_array_intersection_portable
#define pf_array_difference_avx2 pf_array_difference_portable
#endif
PF_DISPATCH(size_t, pf_array_union, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))
/* The same where repeats may stay (AVX2 leaves them), for unions that go on: a and b may have some themselves. */
#define pf_array_merge_portable pf_array_union_portable
PF_DISPATCH(size_t, pf_array_merge, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))
PF_DISPATCH(size_t, pf_array_intersection, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))
PF_DISPATCH(size_t, pf_array_difference, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))

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

/* The first of n ascending values that is >= value. */
static size_t pf_array_lower_bound(const uint8_t *values, size_t n, uint16_t value) {
    size_t low = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (pf_get16(values + 2 * (low + half)) < value) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

/* Whether value stands in one of n ascending (start, length - 1) runs: halved down to few, then all of those compared. */
PF_BODY const uint8_t *pf_few_runs(const uint8_t *pairs, size_t *n, uint16_t value) {
    while (*n > 16) {
        size_t half = *n / 2;
        pairs += pf_get16(pairs + 4 * half) <= value ? 4 * half : 0;
        *n -= half; /* as in pf_array_has */
    }
    return pairs;
}
PF_BODY int pf_runs_have_body(const uint8_t *pairs, size_t n, uint16_t value) {
    uint16_t found = 0;
    for (size_t i = 0; i < n; i++)
        found |= (uint16_t)((uint16_t)(value - pf_get16(pairs + 4 * i)) <= pf_get16(pairs + 4 * i + 2));
    return found;
}
static int pf_many_runs_have_portable(const uint8_t *pairs, size_t n, uint16_t value) {
    pairs = pf_few_runs(pairs, &n, value);
    return pf_runs_have_body(pairs, n, value);
}
#if PF_X86
/* Of each of 8 runs, whether the value's distance from its start, unsigned, is within its length: low halves. */
static inline PF_AVX2 __m256i pf_within(const uint8_t *pairs, __m256i wanted) {
    __m256i runs = _mm256_loadu_si256((const __m256i *)pairs);
    __m256i lengths = _mm256_srli_epi32(runs, 16), behind = _mm256_sub_epi16(wanted, runs);
    return _mm256_cmpeq_epi16(_mm256_min_epu16(behind, lengths), behind);
}
PF_AVX2 static int pf_many_runs_have_avx2(const uint8_t *pairs, size_t n, uint16_t value) {
    const __m256i wanted = _mm256_set1_epi16((short)value);
    pairs = pf_few_runs(pairs, &n, value); /* 9 to 16 of them, when there were more than 16 */
    __m256i found = _mm256_or_si256(pf_within(pairs, wanted), pf_within(pairs + 4 * (n - 8), wanted));
    return !_mm256_testz_si256(found, _mm256_set1_epi32(0xFFFF));
}
#define pf_many_runs_have_avx512 pf_many_runs_have_avx2
#endif
PF_DISPATCH(int, pf_many_runs_have, (const uint8_t *pairs, size_t n, uint16_t value), (pairs, n, value))
static inline int pf_runs_have(const uint8_t *pairs, size_t n, uint16_t value) {
    return n < 8 ? pf_runs_have_body(pairs, n, value) : pf_many_runs_have(pairs, n, value);
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

/* Whether value is among n ascending values: halved down to few, then all of those compared at once. */
PF_BODY int pf_array_has_body(const uint8_t *values, size_t n, uint16_t value) {
    while (n > 64) {
        size_t half = n / 2;
        values += pf_get16(values + 2 * half) <= value ? 2 * half : 0;
        n -= half; /* the lower half is half values, the upper n - half; both fit in n - half */
    }
    uint16_t found = 0;
    for (size_t i = 0; i < n; i++) found |= (uint16_t)(pf_get16(values + 2 * i) == value);
    return found;
}
static int pf_array_has_portable(const uint8_t *values, size_t n, uint16_t value) {
    return pf_array_has_body(values, n, value);
}
#if PF_X86
PF_AVX2 static int pf_array_has_avx2(const uint8_t *values, size_t n, uint16_t value) {
    return pf_array_has_body(values, n, value);
}
PF_AVX512 static int pf_array_has_avx512(const uint8_t *values, size_t n, uint16_t value) {
    const __m512i wanted = _mm512_set1_epi16((short)value);
    __mmask32 found = 0;
    while (n > 128) {
        size_t half = n / 2;
        values += pf_get16(values + 2 * half) <= value ? 2 * half : 0;
        n -= half;
    }
    for (size_t i = 0; i < n; i += 32) {
        size_t left = n - i;
        __mmask32 lanes = left >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
        found |= _mm512_mask_cmpeq_epi16_mask(lanes, _mm512_maskz_loadu_epi16(lanes, values + 2 * i), wanted);
    }
    return found != 0;
}
#endif
PF_DISPATCH(int, pf_array_has, (const uint8_t *values, size_t n, uint16_t value), (values, n, value))

#endif
