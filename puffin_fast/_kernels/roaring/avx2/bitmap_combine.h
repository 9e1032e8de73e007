/* Set operations on bitmap containers with AVX2: 256 bytes of each bitmap are combined and counted at a time. */
#ifndef PF_AVX2_BITMAP_COMBINE_H
#define PF_AVX2_BITMAP_COMBINE_H

#include "roaring/bitmap_count.h"

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

#endif
