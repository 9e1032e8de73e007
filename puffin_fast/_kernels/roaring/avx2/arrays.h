/* Array containers checked 16 values at a time with AVX2. */
#ifndef PF_AVX2_ARRAYS_H
#define PF_AVX2_ARRAYS_H

PF_AVX2 static int pf_array_check_avx2(const uint8_t *values, size_t n, uint32_t *adjacent) {
    static const int16_t last[32] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const __m256i one = _mm256_set1_epi16(1);
    __m256i disorder = _mm256_setzero_si256(), steps = _mm256_setzero_si256();
    if (n < 17) return pf_array_check_body(values, n, adjacent);
    for (size_t i = 0; i + 1 < n; i += 16) {
        size_t left = n - 1 - i < 16 ? n - 1 - i : 16; /* the last vector ends with the array; only its last lanes are new */
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

#endif
