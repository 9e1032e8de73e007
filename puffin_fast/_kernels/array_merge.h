/* Set operations on two arrays of ascending u16 values: union, intersection, difference. */
#ifndef PF_ARRAY_MERGE_H
#define PF_ARRAY_MERGE_H

#include "simd.h"

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

#endif
