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

/* Whether value is in one of n ascending (start, length - 1) runs: the range is halved until few are left, which are all
 * compared. */
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

/* Whether value is among n ascending values: the range is halved until few are left, which are all compared at once. */
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
#include "avx2/container_search.h"
#include "avx512/container_search.h"
#endif

PF_DISPATCH(int, pf_many_runs_have, (const uint8_t *pairs, size_t n, uint16_t value), (pairs, n, value))
static inline int pf_runs_have(const uint8_t *pairs, size_t n, uint16_t value) {
    return n < 8 ? pf_runs_have_body(pairs, n, value) : pf_many_runs_have(pairs, n, value);
}

PF_DISPATCH(int, pf_array_has, (const uint8_t *values, size_t n, uint16_t value), (values, n, value))

#endif
