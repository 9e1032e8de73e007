/* u64 positions to and from the u16 values of a container, with AVX-512. */
#ifndef PF_AVX512_POSITIONS_H
#define PF_AVX512_POSITIONS_H

PF_AVX512 static size_t pf_scan_chunk_avx512(const uint64_t *x, size_t n, uint32_t *adjacent,
                                             uint64_t *disorder) {
    const uint64_t last = x[0] | 0xFFFF;
    const __m512i one = _mm512_set1_epi64(1), limit = _mm512_set1_epi64((long long)last);
    const __m512i outside = _mm512_set1_epi64(~(long long)0xFFFF);
    __m512i spread = _mm512_setzero_si512();
    uint32_t steps = 0;
    size_t i = 0;
    while (i + 32 < n && x[i + 32] <= last) {
        uint32_t equal = 0;
        for (size_t j = 0; j < 32; j += 8) {
            __m512i low = _mm512_loadu_si512(x + i + j);
            __m512i high = _mm512_loadu_si512(x + i + j + 1);
            __m512i difference = _mm512_sub_epi64(high, low);
            spread = _mm512_or_si512(spread, _mm512_sub_epi64(difference, one));
            equal |= (uint32_t)_mm512_cmpeq_epi64_mask(difference, one) << j;
        }
        steps += (uint32_t)_mm_popcnt_u32(equal);
        i += 32;
        if (_mm512_test_epi64_mask(spread, outside)) break;
    }
    uint64_t broken = _mm512_test_epi64_mask(spread, outside) ? ~(uint64_t)0 : 0;
    while (!broken && i + 1 < n) {
        size_t left = n - i - 1;
        __mmask8 lanes = left >= 8 ? 0xFF : (__mmask8)((1u << left) - 1);
        __m512i low = _mm512_maskz_loadu_epi64(lanes, x + i);
        __m512i high = _mm512_maskz_loadu_epi64(lanes, x + i + 1);
        __mmask8 inside = _mm512_mask_cmple_epu64_mask(lanes, high, limit);
        __m512i difference = _mm512_sub_epi64(high, low);
        __m512i less_one = _mm512_sub_epi64(difference, one);
        if (_mm512_mask_test_epi64_mask(inside, less_one, outside) || (inside & (inside + 1))) broken = ~(uint64_t)0;
        steps += (uint32_t)_mm_popcnt_u32(_mm512_mask_cmpeq_epi64_mask(inside, difference, one));
        i += (size_t)_mm_popcnt_u32(inside);
        if (inside != 0xFF) break;
    }
    *adjacent = steps;
    *disorder = broken;
    return i + 1;
}

PF_AVX512 static void pf_narrow_avx512(const uint64_t *x, size_t n, uint8_t *out) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + 2 * i), _mm512_cvtepi64_epi16(_mm512_loadu_si512(x + i)));
    if (i < n) {
        __mmask8 lanes = (__mmask8)((1u << (n - i)) - 1);
        _mm512_mask_cvtepi64_storeu_epi16(out + 2 * i, lanes, _mm512_maskz_loadu_epi64(lanes, x + i));
    }
}

PF_AVX512 static void pf_widen_avx512(const uint8_t *values, size_t n, uint64_t base, uint64_t *out) {
    const __m512i origin = _mm512_set1_epi64((long long)base);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i eight = _mm_loadu_si128((const __m128i *)(values + 2 * i));
        _mm512_storeu_si512(out + i, _mm512_add_epi64(origin, _mm512_cvtepu16_epi64(eight)));
    }
    if (i < n) {
        __mmask8 lanes = (__mmask8)((1u << (n - i)) - 1);
        __m128i rest = _mm_maskz_loadu_epi16(lanes, values + 2 * i);
        _mm512_mask_storeu_epi64(out + i, lanes, _mm512_add_epi64(origin, _mm512_cvtepu16_epi64(rest)));
    }
}

#endif
