/* Set operations on bitmap containers, which count the bits that they write. */
#ifndef PF_BITMAP_COMBINE_H
#define PF_BITMAP_COMBINE_H

#include "bitmap_count.h"

/* out = the union of n > 0 bitmaps, four at a time. */
PF_BODY void pf_bitmap_unite_body(const uint8_t *const *bitmaps, size_t n, uint8_t *out) {
    for (size_t k = 0; k < n; k += 4) {
        const uint8_t *a = bitmaps[k], *b = k + 1 < n ? bitmaps[k + 1] : a, *c = k + 2 < n ? bitmaps[k + 2] : a;
        const uint8_t *d = k + 3 < n ? bitmaps[k + 3] : a, *e = k > 0 ? out : a;
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8)
            pf_put64(out + i, pf_get64(a + i) | pf_get64(b + i) | pf_get64(c + i) | pf_get64(d + i) | pf_get64(e + i));
    }
}

enum { PF_OR = 0, PF_AND = 1, PF_ANDNOT = 2, PF_XOR = 3 };

/* out = a OP b; out may be a. */
PF_BODY void pf_bitmap_combine_body(int op, const uint8_t *a, const uint8_t *b, uint8_t *out) {
    if (op == PF_OR)
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8) pf_put64(out + i, pf_get64(a + i) | pf_get64(b + i));
    else if (op == PF_AND)
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8) pf_put64(out + i, pf_get64(a + i) & pf_get64(b + i));
    else if (op == PF_ANDNOT)
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8) pf_put64(out + i, pf_get64(a + i) & ~pf_get64(b + i));
    else
        for (size_t i = 0; i < 8 * PF_WORDS; i += 8) pf_put64(out + i, pf_get64(a + i) ^ pf_get64(b + i));
}

/* The same; both return how many bits of out are set. */
static uint32_t pf_bitmap_unite_portable(const uint8_t *const *bitmaps, size_t n, uint8_t *out) {
    pf_bitmap_unite_body(bitmaps, n, out);
    return pf_bitmap_cardinality_portable(out);
}
static uint32_t pf_bitmap_combine_portable(int op, const uint8_t *a, const uint8_t *b, uint8_t *out) {
    pf_bitmap_combine_body(op, a, b, out);
    return pf_bitmap_cardinality_portable(out);
}

/* Whether a bit of a OP b is set, except for a union. */
PF_BODY int pf_bitmaps_meet_body(int op, const uint8_t *a, const uint8_t *b) {
    for (size_t i = 0; i < 8 * PF_WORDS; i += 256) {
        uint64_t any = 0;
        if (op == PF_AND)
            for (size_t j = i; j < i + 256; j += 8) any |= pf_get64(a + j) & pf_get64(b + j);
        else if (op == PF_ANDNOT)
            for (size_t j = i; j < i + 256; j += 8) any |= pf_get64(a + j) & ~pf_get64(b + j);
        else
            for (size_t j = i; j < i + 256; j += 8) any |= pf_get64(a + j) ^ pf_get64(b + j);
        if (any != 0) return 1;
    }
    return 0;
}
PF_LEVELS(int, pf_bitmaps_meet, (int op, const uint8_t *a, const uint8_t *b), (op, a, b))

/* Bits start … end - 1 of a bitmap of any length set. */
static void pf_set_range(uint8_t *bits, uint64_t start, uint64_t end) {
    if (start >= end) return;
    uint64_t first = start >> 3, last = (end - 1) >> 3;
    uint8_t head = (uint8_t)(0xFF << (start & 7)), tail = (uint8_t)(0xFF >> (7 - ((end - 1) & 7)));
    if (first == last) {
        bits[first] |= head & tail;
        return;
    }
    bits[first] |= head;
    memset(bits + first + 1, 0xFF, last - first - 1);
    bits[last] |= tail;
}

#if PF_X86
#include "avx2/bitmap_combine.h"
#include "avx512/bitmap_combine.h"
#endif

PF_DISPATCH(uint32_t, pf_bitmap_unite, (const uint8_t *const *bitmaps, size_t n, uint8_t *out), (bitmaps, n, out))
PF_DISPATCH(uint32_t, pf_bitmap_combine, (int op, const uint8_t *a, const uint8_t *b, uint8_t *out), (op, a, b, out))

#endif
