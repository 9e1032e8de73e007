/* Searches for a value in array and run containers with AVX2. */
#ifndef PF_AVX2_CONTAINER_SEARCH_H
#define PF_AVX2_CONTAINER_SEARCH_H

/* For each of 8 runs, in the low half of its lane: whether the value's unsigned distance from its start is within its
 * length. */
static inline PF_AVX2 __m256i pf_within(const uint8_t *pairs, __m256i wanted) {
    __m256i runs = _mm256_loadu_si256((const __m256i *)pairs);
    __m256i lengths = _mm256_srli_epi32(runs, 16), behind = _mm256_sub_epi16(wanted, runs);
    return _mm256_cmpeq_epi16(_mm256_min_epu16(behind, lengths), behind);
}

PF_AVX2 static int pf_many_runs_have_avx2(const uint8_t *pairs, size_t n, uint16_t value) {
    const __m256i wanted = _mm256_set1_epi16((short)value);
    pairs = pf_few_runs(pairs, &n, value); /* 9 to 16 are left if there were more than 16 */
    __m256i found = _mm256_or_si256(pf_within(pairs, wanted), pf_within(pairs + 4 * (n - 8), wanted));
    return !_mm256_testz_si256(found, _mm256_set1_epi32(0xFFFF));
}

PF_AVX2 static int pf_array_has_avx2(const uint8_t *values, size_t n, uint16_t value) {
    return pf_array_has_body(values, n, value);
}

#endif
