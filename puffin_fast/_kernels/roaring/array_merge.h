/* Set operations on two arrays of ascending u16 values: union, intersection, difference. */
#ifndef PF_ARRAY_MERGE_H
#define PF_ARRAY_MERGE_H

#include "container_search.h"

/* a OP b of two arrays into out, which has space for na + nb values and 32 more; returns the number of values. Those named
 * `near` are for arrays of like length; the union `near` also drops repeats in a and b, which `pf_array_merge` makes. */

/* The union (`keep`) or symmetric difference. */
PF_BODY size_t pf_array_either(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, int keep) {
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        pf_put16(out + 2 * n, x < y ? x : y);
        n += keep | (x != y);
        i += x <= y;
        j += y <= x;
    }
    memcpy(out + 2 * n, a + 2 * i, 2 * (na - i));
    n += na - i;
    memcpy(out + 2 * n, b + 2 * j, 2 * (nb - j));
    return n + nb - j;
}
static size_t pf_array_union_near_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    return pf_array_either(a, na, b, nb, out, 1);
}
static size_t pf_array_symmetric_near(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    return pf_array_either(a, na, b, nb, out, 0);
}

static size_t pf_array_intersection_near_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
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

static size_t pf_array_difference_near_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
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

/* The same where b has many times as many values as a, which are searched. */
static size_t pf_array_intersection_far(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t j = 0, n = 0;
    for (size_t i = 0; i < na && j < nb; i++) {
        uint16_t value = pf_get16(a + 2 * i);
        j = pf_reach(b, 2, 0, j, nb, value);
        if (j < nb && pf_get16(b + 2 * j) == value) pf_put16(out + 2 * n++, value);
    }
    return n;
}

static size_t pf_array_difference_far(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t j = 0, n = 0;
    for (size_t i = 0; i < na; i++) {
        uint16_t value = pf_get16(a + 2 * i);
        j = pf_reach(b, 2, 0, j, nb, value);
        if (j >= nb || pf_get16(b + 2 * j) != value) pf_put16(out + 2 * n++, value);
    }
    return n;
}

/* a without b where a has many times as many values: the stretches between those of b. */
static size_t pf_array_difference_few(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    size_t i = 0, n = 0;
    for (size_t j = 0; j < nb && i < na; j++) {
        uint16_t value = pf_get16(b + 2 * j);
        size_t next = pf_reach(a, 2, 0, i, na, value);
        memcpy(out + 2 * n, a + 2 * i, 2 * (next - i));
        n += next - i;
        i = next + (next < na && pf_get16(a + 2 * next) == value);
    }
    memcpy(out + 2 * n, a + 2 * i, 2 * (na - i));
    return n + na - i;
}

/* The union (`keep`) or symmetric difference where one array has many times as many values: its stretches between those of
 * the other one. */
static size_t pf_array_insert(const uint8_t *many, size_t n_many, const uint8_t *few, size_t n_few, uint8_t *out, int keep) {
    size_t i = 0, n = 0;
    for (size_t j = 0; j < n_few; j++) {
        uint16_t value = pf_get16(few + 2 * j);
        size_t next = pf_reach(many, 2, 0, i, n_many, value);
        int common = next < n_many && pf_get16(many + 2 * next) == value;
        memcpy(out + 2 * n, many + 2 * i, 2 * (next - i));
        n += next - i;
        if (keep || !common) pf_put16(out + 2 * n++, value);
        i = next + (size_t)common;
    }
    memcpy(out + 2 * n, many + 2 * i, 2 * (n_many - i));
    return n + n_many - i;
}

/* Whether a value is in both. */
static int pf_arrays_meet_near_portable(const uint8_t *a, size_t na, const uint8_t *b, size_t nb) {
    size_t i = 0, j = 0;
    while (i < na && j < nb) {
        uint16_t x = pf_get16(a + 2 * i), y = pf_get16(b + 2 * j);
        if (x == y) return 1;
        i += x < y;
        j += y < x;
    }
    return 0;
}

static int pf_arrays_meet_far(const uint8_t *a, size_t na, const uint8_t *b, size_t nb) {
    size_t j = 0;
    for (size_t i = 0; i < na; i++) {
        uint16_t value = pf_get16(a + 2 * i);
        j = pf_reach(b, 2, 0, j, nb, value);
        if (j >= nb) return 0;
        if (pf_get16(b + 2 * j) == value) return 1;
    }
    return 0;
}

/* A union that may contain repeats (with AVX2), for intermediate steps. a and b may contain repeats too. */
#define pf_array_merge_portable pf_array_union_near_portable

#if PF_X86
#include "avx2/array_merge.h"
#include "avx512/array_merge.h"
#endif

PF_DISPATCH(size_t, pf_array_union_near, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))
PF_DISPATCH(size_t, pf_array_merge, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out),
            (a, na, b, nb, out))
PF_DISPATCH(size_t, pf_array_intersection_near,
            (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out), (a, na, b, nb, out))
PF_DISPATCH(size_t, pf_array_difference_near,
            (const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out), (a, na, b, nb, out))
PF_DISPATCH(int, pf_arrays_meet_near, (const uint8_t *a, size_t na, const uint8_t *b, size_t nb), (a, na, b, nb))

static size_t pf_array_union(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    if (PF_FAR * na < nb) return pf_array_insert(b, nb, a, na, out, 1);
    if (PF_FAR * nb < na) return pf_array_insert(a, na, b, nb, out, 1);
    return pf_array_union_near(a, na, b, nb, out);
}

static size_t pf_array_symmetric(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    if (PF_FAR * na < nb) return pf_array_insert(b, nb, a, na, out, 0);
    if (PF_FAR * nb < na) return pf_array_insert(a, na, b, nb, out, 0);
    return pf_array_symmetric_near(a, na, b, nb, out);
}

static size_t pf_array_intersection(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    if (PF_FAR * na < nb) return pf_array_intersection_far(a, na, b, nb, out);
    if (PF_FAR * nb < na) return pf_array_intersection_far(b, nb, a, na, out);
    return pf_array_intersection_near(a, na, b, nb, out);
}

static size_t pf_array_difference(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out) {
    if (PF_FAR * na < nb) return pf_array_difference_far(a, na, b, nb, out);
    if (PF_FAR * nb < na) return pf_array_difference_few(a, na, b, nb, out);
    return pf_array_difference_near(a, na, b, nb, out);
}

static int pf_arrays_meet(const uint8_t *a, size_t na, const uint8_t *b, size_t nb) {
    if (PF_FAR * na < nb) return pf_arrays_meet_far(a, na, b, nb);
    if (PF_FAR * nb < na) return pf_arrays_meet_far(b, nb, a, na);
    return pf_arrays_meet_near(a, na, b, nb);
}

#endif
