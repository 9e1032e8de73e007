/* Set operations on two arrays, 16 or 8 values at a time with AVX2. */
#ifndef PF_AVX2_ARRAY_MERGE_H
#define PF_AVX2_ARRAY_MERGE_H

static inline PF_AVX2 __m256i pf_load16(const uint8_t *values, size_t n, size_t i) {
    static const int16_t ends[32] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (n - i >= 16) return _mm256_loadu_si256((const __m256i *)(values + 2 * i));
    __m256i past = _mm256_loadu_si256((const __m256i *)(ends + 16 - (n - i)));
    __m256i pairs = _mm256_cmpeq_epi32(past, _mm256_setzero_si256()); /* an odd last value is added separately */
    __m256i last = _mm256_andnot_si256(_mm256_or_si256(past, pairs), _mm256_set1_epi16((short)pf_get16(values + 2 * n - 2)));
    __m256i found = _mm256_maskload_epi32((const int *)(const void *)(values + 2 * i), pairs);
    return _mm256_or_si256(_mm256_or_si256(found, past), last);
}

/* Of two ascending vectors, the 16 smallest values (*low) and the 16 largest (*high), each ascending. A bitonic merge
 * of both at once: each step moves the values to compare to the same lanes of two vectors. */
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
    x = _mm256_unpacklo_epi16(l, h), y = _mm256_unpackhi_epi16(l, h); /* and back to the order of the values */
    l = _mm256_unpacklo_epi64(x, y), h = _mm256_unpackhi_epi64(x, y);
    *low = _mm256_permute2x128_si256(l, h, 0x20), *high = _mm256_permute2x128_si256(l, h, 0x31);
}

/* The values of a half whose bits are set, moved to its start. */
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
    if (na == 0 || nb == 0) return pf_array_union_near_portable(a, na, b, nb, out);
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

PF_AVX2 static size_t pf_array_union_near_avx2(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                               uint8_t *out) {
    return pf_array_merged16(a, na, b, nb, out, 1);
}

PF_AVX2 static size_t pf_array_merge_avx2(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    return pf_array_merged16(a, na, b, nb, out, 0);
}

/* Which of 8 values are among 8 others: each of them is compared with all, in both halves of four vectors. */
static inline PF_AVX2 unsigned pf_members8(__m128i values, const uint8_t *others) {
    __m256i each = _mm256_broadcastsi128_si256(values);
    __m256i x = _mm256_permute4x64_epi64(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)others)), 0x14);
    __m256i found = _mm256_or_si256(
        _mm256_or_si256(_mm256_cmpeq_epi16(each, x), _mm256_cmpeq_epi16(each, _mm256_alignr_epi8(x, x, 2))),
        _mm256_or_si256(_mm256_cmpeq_epi16(each, _mm256_alignr_epi8(x, x, 4)),
                        _mm256_cmpeq_epi16(each, _mm256_alignr_epi8(x, x, 6))));
    __m128i any = _mm_or_si128(_mm256_castsi256_si128(found), _mm256_extracti128_si256(found, 1));
    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(any, _mm_setzero_si128()));
}

PF_AVX2 static size_t pf_array_intersection_near_avx2(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                                      uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    while (i + 8 <= na && j + 8 <= nb) {
        __m128i values = _mm_loadu_si128((const __m128i *)(a + 2 * i));
        uint16_t top = pf_get16(a + 2 * i + 14), other_top = pf_get16(b + 2 * j + 14);
        unsigned found = pf_members8(values, b + 2 * j);
        _mm_storeu_si128((__m128i *)(out + 2 * n), pf_compress8(values, found));
        n += (size_t)_mm_popcnt_u32(found);
        i += top <= other_top ? 8 : 0;
        j += other_top <= top ? 8 : 0;
    }
    return n + pf_array_intersection_near_portable(a + 2 * i, na - i, b + 2 * j, nb - j, out + 2 * n);
}

PF_AVX2 static size_t pf_array_difference_near_avx2(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                                    uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    unsigned found = 0; /* of the 8 values at i, in blocks of b before j */
    while (i + 8 <= na && j + 8 <= nb) {
        __m128i values = _mm_loadu_si128((const __m128i *)(a + 2 * i));
        uint16_t top = pf_get16(a + 2 * i + 14), other_top = pf_get16(b + 2 * j + 14);
        int over = top <= other_top;
        found |= pf_members8(values, b + 2 * j);
        _mm_storeu_si128((__m128i *)(out + 2 * n), pf_compress8(values, ~found & 0xFF));
        n += over ? 8 - (size_t)_mm_popcnt_u32(found) : 0;
        found = over ? 0 : found;
        i += over ? 8 : 0;
        j += other_top <= top ? 8 : 0;
    }
    if (found != 0) { /* the rest of b still has to be compared with the rest of these values */
        uint8_t rest[16];
        __m128i values = _mm_loadu_si128((const __m128i *)(a + 2 * i));
        _mm_storeu_si128((__m128i *)rest, pf_compress8(values, ~found & 0xFF));
        n += pf_array_difference_near_portable(rest, 8 - (size_t)_mm_popcnt_u32(found), b + 2 * j, nb - j, out + 2 * n);
        i += 8;
    }
    return n + pf_array_difference_near_portable(a + 2 * i, na - i, b + 2 * j, nb - j, out + 2 * n);
}

PF_AVX2 static int pf_arrays_meet_near_avx2(const uint8_t *a, size_t na, const uint8_t *b, size_t nb) {
    size_t i = 0, j = 0;
    while (i + 8 <= na && j + 8 <= nb) {
        uint16_t top = pf_get16(a + 2 * i + 14), other_top = pf_get16(b + 2 * j + 14);
        if (pf_members8(_mm_loadu_si128((const __m128i *)(a + 2 * i)), b + 2 * j) != 0) return 1;
        i += top <= other_top ? 8 : 0;
        j += other_top <= top ? 8 : 0;
    }
    return pf_arrays_meet_near_portable(a + 2 * i, na - i, b + 2 * j, nb - j);
}

#endif
