/* Searches for a value in array and run containers. */
#ifndef PF_CONTAINER_SEARCH_H
#define PF_CONTAINER_SEARCH_H

#include "simd.h"

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

/* Whether value is in one of n ascending (start, length - 1) runs: halved down to few, then all of those compared. */
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
