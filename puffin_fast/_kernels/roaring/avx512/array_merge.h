/* Set operations on two arrays, 32 values at a time with AVX-512. */
#ifndef PF_AVX512_ARRAY_MERGE_H
#define PF_AVX512_ARRAY_MERGE_H

/* Lanes past an array's end are 0xFFFF, which as a value can only be the last. */
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

PF_AVX512 static size_t pf_array_union_near_avx512(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                                   uint8_t *out) {
    size_t i = 32, j = 32, n;
    if (na == 0 || nb == 0) return pf_array_union_near_portable(a, na, b, nb, out);
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
    return n - (!full && pf_get16(out + 2 * (n - 1)) == 0xFFFF); /* a lane past an end */
}

/* Which of 32 values of a are in b, from the block at *j on. Blocks of b that are below all of them are skipped. */
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
        __mmask32 selected = (wanted ? found : ~found) & lanes;
        _mm512_storeu_si512(out + 2 * n, _mm512_maskz_compress_epi16(selected, values));
        n += (size_t)_mm_popcnt_u32(selected);
    }
    return n;
}

PF_AVX512 static size_t pf_array_intersection_near_avx512(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                                          uint8_t *out) {
    return pf_array_select(a, na, b, nb, out, 1);
}

PF_AVX512 static size_t pf_array_difference_near_avx512(const uint8_t *a, size_t na, const uint8_t *b, size_t nb,
                                                        uint8_t *out) {
    return pf_array_select(a, na, b, nb, out, 0);
}

#define pf_array_merge_avx512 pf_array_union_near_avx512
#define pf_arrays_meet_near_avx512 pf_arrays_meet_near_avx2

#endif
