/* Bitmap containers, 1,024 little-endian words of bits at any alignment: set bits and runs counted. */
#ifndef PF_BITMAP_COUNT_H
#define PF_BITMAP_COUNT_H

#include "simd.h"

#define PF_WORDS 1024

/* The bits of a word at which runs start: each 1 after a 0; `before` is the word before it. */
PF_BODY uint64_t pf_run_starts(uint64_t word, uint64_t before) { return word & ~((word << 1) | (before >> 63)); }

enum { PF_MANY_RUNS = 2048 }; /* no container of so many is smallest as runs: counts may stop there */

/* Set bits of a bitmap container, or of its run starts but those in the first word (which may stop at many): sixteen
 * words at a time, whose ones are added up byte by byte. */
PF_BODY uint64_t pf_sum_words(const uint8_t *bits, int runs) {
    uint64_t total = 0;
    for (size_t i = (size_t)runs; i < PF_WORDS; i += 16) {
        size_t end = i + 16 < PF_WORDS ? i + 16 : PF_WORDS;
        uint64_t sums = 0;
        for (size_t j = i; j < end; j++) {
            uint64_t word = pf_get64(bits + 8 * j);
            if (runs) word = pf_run_starts(word, pf_get64(bits + 8 * j - 8));
            word -= (word >> 1) & 0x5555555555555555ull;
            word = (word & 0x3333333333333333ull) + ((word >> 2) & 0x3333333333333333ull);
            sums += (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Full;
        }
        sums = (sums & 0x00FF00FF00FF00FFull) + ((sums >> 8) & 0x00FF00FF00FF00FFull);
        total += (sums * 0x0001000100010001ull) >> 48;
        if (runs && total >= PF_MANY_RUNS) break;
    }
    return total;
}

/* Cardinality of a bitmap container. */
static uint32_t pf_bitmap_cardinality_portable(const uint8_t *bits) { return (uint32_t)pf_sum_words(bits, 0); }

/* The number of runs, or any from PF_MANY_RUNS on when there are so many. */
static uint32_t pf_bitmap_runs_portable(const uint8_t *bits) {
    return (uint32_t)(pf_ones(pf_run_starts(pf_get64(bits), 0)) + pf_sum_words(bits, 1));
}

#if PF_X86
static inline PF_AVX2 __m256i pf_load256(const uint8_t *at) { return _mm256_loadu_si256((const __m256i *)at); }

/* Set bits of each byte, looked up by halves. */
static inline PF_AVX2 __m256i pf_ones_by_byte(__m256i bits) {
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i ones = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2,
                                          2, 3, 2, 3, 3, 4);
    return _mm256_add_epi8(_mm256_shuffle_epi8(ones, _mm256_and_si256(bits, low)),
                           _mm256_shuffle_epi8(ones, _mm256_and_si256(_mm256_srli_epi16(bits, 4), low)));
}

static inline PF_AVX2 uint32_t pf_sum_lanes(__m256i lanes) {
    uint64_t four[4];
    _mm256_storeu_si256((__m256i *)four, lanes);
    return (uint32_t)(four[0] + four[1] + four[2] + four[3]);
}

PF_AVX2 static uint32_t pf_bitmap_cardinality_avx2(const uint8_t *bits) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i total = zero;
    for (size_t i = 0; i < 8 * PF_WORDS; i += 256) { /* 8 times 8 ones fit a byte */
        __m256i sums = zero;
        for (size_t j = 0; j < 256; j += 32)
            sums = _mm256_add_epi8(sums, pf_ones_by_byte(pf_load256(bits + i + j)));
        total = _mm256_add_epi64(total, _mm256_sad_epu8(sums, zero));
    }
    return pf_sum_lanes(total);
}

PF_AVX2 static uint32_t pf_bitmap_runs_avx2(const uint8_t *bits) {
    const __m256i zero = _mm256_setzero_si256();
    uint64_t head[4] = {0};
    memcpy(head + 1, bits, 24);
    __m256i before = _mm256_loadu_si256((const __m256i *)head); /* each word's predecessor */
    uint32_t total = 0;
    for (size_t i = 0; i < 8 * PF_WORDS && total < PF_MANY_RUNS; i += 256) {
        __m256i sums = zero;
        for (size_t j = i; j < i + 256; j += 32) {
            __m256i word = _mm256_loadu_si256((const __m256i *)(bits + j));
            if (j > 0) before = _mm256_loadu_si256((const __m256i *)(bits + j - 8));
            __m256i after = _mm256_or_si256(_mm256_slli_epi64(word, 1), _mm256_srli_epi64(before, 63));
            sums = _mm256_add_epi8(sums, pf_ones_by_byte(_mm256_andnot_si256(after, word)));
        }
        total += pf_sum_lanes(_mm256_sad_epu8(sums, zero));
    }
    return total;
}

/* Plain loops, which compilers turn into AVX-512's count of each word. */
PF_AVX512 static uint32_t pf_bitmap_cardinality_avx512(const uint8_t *bits) {
    uint64_t ones = 0;
    for (size_t i = 0; i < PF_WORDS; i++) ones += (uint64_t)__builtin_popcountll(pf_get64(bits + 8 * i));
    return (uint32_t)ones;
}

PF_AVX512 static uint32_t pf_bitmap_runs_avx512(const uint8_t *bits) {
    uint64_t starts = (uint64_t)__builtin_popcountll(pf_run_starts(pf_get64(bits), 0));
    for (size_t i = 1; i < PF_WORDS && starts < PF_MANY_RUNS; i += 64) {
        size_t end = i + 64 < PF_WORDS ? i + 64 : PF_WORDS;
        for (size_t j = i; j < end; j++)
            starts += (uint64_t)__builtin_popcountll(pf_run_starts(pf_get64(bits + 8 * j), pf_get64(bits + 8 * j - 8)));
    }
    return (uint32_t)starts;
}
#endif
PF_DISPATCH(uint32_t, pf_bitmap_cardinality, (const uint8_t *bits), (bits))
PF_DISPATCH(uint32_t, pf_bitmap_runs, (const uint8_t *bits), (bits))

#endif
