/* Array containers: ascending u16 values, little-endian, at any alignment. */
#ifndef PF_ARRAYS_H
#define PF_ARRAYS_H

#include "simd.h"

/* Whether n <= 4,096 values ascend strictly; *adjacent counts steps of exactly 1. */
PF_BODY int pf_array_check_body(const uint8_t *values, size_t n, uint32_t *adjacent) {
    uint16_t disorder = 0, steps = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        uint16_t low = pf_get16(values + 2 * i), high = pf_get16(values + 2 * i + 2);
        disorder |= (uint16_t)(high <= low);
        steps = (uint16_t)(steps + ((uint16_t)(high - low) == 1));
    }
    *adjacent = steps;
    return disorder == 0;
}
PF_LEVELS(int, pf_array_check, (const uint8_t *values, size_t n, uint32_t *adjacent), (values, n, adjacent))

/* The runs of n > 0 ascending values as (start, length - 1) pairs; returns their number. */
static uint32_t pf_runs_of_array(const uint8_t *values, size_t n, uint8_t *out) {
    uint32_t runs = 0;
    uint16_t start = pf_get16(values), last = start;
    for (size_t i = 1; i <= n; i++) {
        uint16_t value = i < n ? pf_get16(values + 2 * i) : start;
        if (i < n && value == (uint16_t)(last + 1)) {
            last = value;
            continue;
        }
        pf_put16(out + 4 * runs, start);
        pf_put16(out + 4 * runs + 2, (uint16_t)(last - start));
        runs++;
        start = last = value;
    }
    return runs;
}

/* a OP b of two arrays into out (room for na + nb values); returns the number of values. OP as in bitmaps.h. */
static size_t pf_array_union(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        pf_put16(out + 2 * n++, x < y ? x : y);
        i += x <= y;
        j += y <= x;
    }
    memcpy(out + 2 * n, a + 2 * i, 2 * (na - i));
    n += na - i;
    memcpy(out + 2 * n, b + 2 * j, 2 * (nb - j));
    return n + nb - j;
}

static size_t pf_array_intersection(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        pf_put16(out + 2 * n, x);
        n += x == y;
        i += x <= y;
        j += y <= x;
    }
    return n;
}

static size_t pf_array_difference(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        pf_put16(out + 2 * n, x);
        n += x < y;
        i += x <= y;
        j += y <= x;
    }
    memcpy(out + 2 * n, a + 2 * i, 2 * (na - i));
    return n + na - i;
}

static size_t pf_array_symmetric(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        pf_put16(out + 2 * n, x < y ? x : y);
        n += x != y;
        i += x <= y;
        j += y <= x;
    }
    memcpy(out + 2 * n, a + 2 * i, 2 * (na - i));
    n += na - i;
    memcpy(out + 2 * n, b + 2 * j, 2 * (nb - j));
    return n + nb - j;
}

/* Bits of n values set in / cleared from / flipped in a bitmap container. */
static void pf_array_set(const uint8_t *values, size_t n, uint8_t *bits) {
    for (size_t i = 0; i < n; i++) {
        uint16_t value = pf_get16(values + 2 * i);
        bits[value >> 3] = (uint8_t)(bits[value >> 3] | (1u << (value & 7)));
    }
}

/* Those of n values whose bit in a bitmap container equals `wanted`; out has room for n + 1. */
static size_t pf_array_filter(const uint8_t *values, size_t n, const uint8_t *bits, unsigned wanted, uint8_t *out) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t value = pf_get16(values + 2 * i);
        pf_put16(out + 2 * kept, value);
        kept += ((unsigned)(bits[value >> 3] >> (value & 7)) & 1u) == wanted;
    }
    return kept;
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
PF_LEVELS(int, pf_array_has, (const uint8_t *values, size_t n, uint16_t value), (values, n, value))

#endif
