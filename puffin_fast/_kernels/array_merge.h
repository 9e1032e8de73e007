/* Set operations on two arrays of ascending u16 values: union, intersection, difference. */
#ifndef PF_ARRAY_MERGE_H
#define PF_ARRAY_MERGE_H

#include "simd.h"

/* a OP b of two arrays into out, which has space for na + nb values and 32 more; returns the number of values. */
static size_t pf_array_union_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
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

static size_t pf_array_intersection_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
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

static size_t pf_array_difference_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
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

/* A union that may contain repeats (with AVX2), for intermediate steps. a and b may contain repeats too. */
#define pf_array_merge_portable pf_array_union_portable

#if PF_X86
#include "avx2/array_merge.h"
#include "avx512/array_merge.h"
#endif

PF_DISPATCH(size_t, pf_array_union, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))
PF_DISPATCH(size_t, pf_array_merge, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))
PF_DISPATCH(size_t, pf_array_intersection, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))
PF_DISPATCH(size_t, pf_array_difference, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))

#endif
