/* The set bits of bitmap containers as positions, values or runs, with AVX2. */
#ifndef PF_AVX2_BITMAP_EXPAND_H
#define PF_AVX2_BITMAP_EXPAND_H

#include "roaring/bitmap_count.h"

PF_AVX2 static size_t pf_expand_avx2(const uint8_t *bits, size_t n_words, uint64_t base, uint64_t *out,
                                     size_t capacity) {
    uint64_t *const start = out, *const end = out + capacity;
    size_t i = 0;
    for (; i < n_words && end - out >= 64; i++, base += 64) {
        uint64_t word = pf_get64(bits + 8 * i);
        uint64_t *next = out + _mm_popcnt_u64(word);
        if (next - out > 10) { /* byte by byte */
            for (uint64_t at = base; at < base + 64; at += 8, word >>= 8) {
                const __m256i origin = _mm256_set1_epi64x((long long)at);
                __m128i set = _mm_loadl_epi64((const __m128i *)pf_bits_of_byte[word & 0xFF]);
                __m256i low = _mm256_cvtepu8_epi64(set), high = _mm256_cvtepu8_epi64(_mm_srli_si128(set, 4));
                _mm256_storeu_si256((__m256i *)out, _mm256_add_epi64(origin, low));
                _mm256_storeu_si256((__m256i *)(out + 4), _mm256_add_epi64(origin, high));
                out += _mm_popcnt_u64(word & 0xFF);
            }
            continue;
        }
        for (int j = 0; j < 10; j++) {
            out[j] = base + _tzcnt_u64(word);
            word = _blsr_u64(word);
        }
        out = next;
    }
    return (size_t)(out - start) + pf_expand_body(bits + 8 * i, n_words - i, base, out, (size_t)(end - out));
}

PF_AVX2 static size_t pf_values_of_bitmap_avx2(const uint8_t *bits, uint8_t *out, size_t capacity) {
    return pf_values_of_bitmap_body(bits, 0, out, capacity);
}

static inline PF_AVX2 uint64_t pf_changed_words_avx2(const uint8_t *words, uint64_t before) {
    uint64_t head[4] = {before};
    memcpy(head + 1, words, 24);
    __m256i last = pf_load256((const uint8_t *)head);
    uint64_t same = 0;
    for (unsigned i = 0; i < 64; i += 4) {
        __m256i word = pf_load256(words + 8 * i);
        if (i > 0) last = pf_load256(words + 8 * i - 8);
        __m256i moved = _mm256_or_si256(_mm256_slli_epi64(word, 1), _mm256_srli_epi64(last, 63));
        same |= (uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(word, moved))) << i;
    }
    return ~same;
}

PF_AVX2 static void pf_runs_of_bitmap_avx2(const uint8_t *bits, uint8_t *out, uint32_t n_runs) {
    pf_runs_of_bitmap_body(bits, out, n_runs, pf_changed_words_avx2);
}

#endif
