/* Searches for a value in array and run containers with AVX-512. */
#ifndef PF_AVX512_CONTAINER_SEARCH_H
#define PF_AVX512_CONTAINER_SEARCH_H

#define pf_many_runs_have_avx512 pf_many_runs_have_avx2

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
