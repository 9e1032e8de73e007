/* Set bits and runs of bitmap containers counted with AVX2. */
#ifndef PF_AVX2_BITMAP_COUNT_H
#define PF_AVX2_BITMAP_COUNT_H

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

#endif
