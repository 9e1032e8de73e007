/* Array containers checked 32 values at a time with AVX-512. */
#ifndef PF_AVX512_ARRAYS_H
#define PF_AVX512_ARRAYS_H

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
