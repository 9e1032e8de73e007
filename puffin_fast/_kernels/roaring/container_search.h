/* Searches for a value in array and run containers. */
#ifndef PF_CONTAINER_SEARCH_H
#define PF_CONTAINER_SEARCH_H

#include "simd.h"

/* The first of n ascending items, from item i on, that is >= value: looked for at distances that double, then between. An
 * item of `stride` bytes begins with its value, or with `runs` is a (start, length - 1) pair and its value the last one. */
PF_BODY uint32_t pf_item(const uint8_t *items, size_t stride, int runs, size_t i) {
    return pf_get16(items + stride * i) + (runs ? (uint32_t)pf_get16(items + stride * i + 2) : 0u);
}
PF_BODY size_t pf_reach(const uint8_t *items, size_t stride, int runs, size_t i, size_t n, uint32_t value) {
    size_t step = 1;
    if (i >= n || pf_item(items, stride, runs, i) >= value) return i;
    while (i + step < n && pf_item(items, stride, runs, i + step) < value) {
        i += step;
        step *= 2;
    }
    if (i + step > n) step = n - i;
    while (step > 1) { /* item i is below the value, item i + step is not */
        size_t half = step / 2;
        int below = pf_item(items, stride, runs, i + half) < value;
        i += below ? half : 0;
        step = below ? step - half : half;
    }
    return i + 1;
}

enum { PF_FAR = 32 }; /* a list of so many times as many items is searched, not walked */

/* Moves from *i and *j on to the first key that two lists of container descriptors (u16 key, u16 cardinality - 1) share.
 * Returns whether there is one; otherwise one of both lists ends. */
static int pf_keys_meet(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, size_t *i, size_t *j) {
    size_t x = *i, y = *j;
    if (x < na && y < nb && (PF_FAR * (na - x) < nb - y || PF_FAR * (nb - y) < na - x)) {
        while (x < na && (y = pf_reach(b, 4, 0, y, nb, pf_get16(a + 4 * x))) < nb) {
            if (pf_get16(a + 4 * x) == pf_get16(b + 4 * y)) break;
            x = pf_reach(a, 4, 0, x, na, pf_get16(b + 4 * y));
        }
    } else {
        while (x < na && y < nb) {
            uint16_t left = pf_get16(a + 4 * x), right = pf_get16(b + 4 * y);
            if (left == right) break;
            x += left < right;
            y += right < left;
        }
    }
    *i = x;
    *j = y;
    return x < na && y < nb;
}

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
