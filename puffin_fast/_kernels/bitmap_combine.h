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
#if PF_X86
/* Counted as they are made: 256 bytes of each bitmap at a time. */
PF_AVX2 static uint32_t pf_bitmap_unite_avx2(const uint8_t *const *bitmaps, size_t n, uint8_t *out) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i total = zero;
    for (size_t i = 0; i < 8 * PF_WORDS; i += 256) {
        __m256i sums = zero, united[8];
        for (size_t j = 0; j < 8; j++) united[j] = pf_load256(bitmaps[0] + i + 32 * j);
        for (size_t k = 1; k < n; k++)
            for (size_t j = 0; j < 8; j++)
                united[j] = _mm256_or_si256(united[j], pf_load256(bitmaps[k] + i + 32 * j));
        for (size_t j = 0; j < 8; j++) {
            _mm256_storeu_si256((__m256i *)(out + i + 32 * j), united[j]);
            sums = _mm256_add_epi8(sums, pf_ones_by_byte(united[j]));
        }
        total = _mm256_add_epi64(total, _mm256_sad_epu8(sums, zero));
    }
    return pf_sum_lanes(total);
}
static inline PF_AVX2 __m256i pf_combine256(int op, __m256i a, __m256i b) {
    if (op == PF_OR) return _mm256_or_si256(a, b);
    if (op == PF_AND) return _mm256_and_si256(a, b);
    return op == PF_ANDNOT ? _mm256_andnot_si256(b, a) : _mm256_xor_si256(a, b);
}
PF_AVX2 static uint32_t pf_bitmap_combine_avx2(int op, const uint8_t *a, const uint8_t *b, uint8_t *out) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i total = zero;
    for (size_t i = 0; i < 8 * PF_WORDS; i += 256) {
        __m256i sums = zero;
        for (size_t j = i; j < i + 256; j += 32) {
            __m256i both = pf_combine256(op, pf_load256(a + j), pf_load256(b + j));
            _mm256_storeu_si256((__m256i *)(out + j), both);
            sums = _mm256_add_epi8(sums, pf_ones_by_byte(both));
        }
        total = _mm256_add_epi64(total, _mm256_sad_epu8(sums, zero));
    }
    return pf_sum_lanes(total);
}
PF_AVX512 static uint32_t pf_bitmap_unite_avx512(const uint8_t *const *bitmaps, size_t n, uint8_t *out) {
    pf_bitmap_unite_body(bitmaps, n, out);
    return pf_bitmap_cardinality_avx512(out);
}
PF_AVX512 static uint32_t pf_bitmap_combine_avx512(int op, const uint8_t *a, const uint8_t *b, uint8_t *out) {
    pf_bitmap_combine_body(op, a, b, out);
    return pf_bitmap_cardinality_avx512(out);
}
#endif
PF_DISPATCH(uint32_t, pf_bitmap_unite, (const uint8_t *const *bitmaps, size_t n, uint8_t *out), (bitmaps, n, out))
PF_DISPATCH(uint32_t, pf_bitmap_combine, (int op, const uint8_t *a, const uint8_t *b, uint8_t *out), (op, a, b, out))

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

#endif
