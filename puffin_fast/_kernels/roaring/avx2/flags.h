/* Bits to and from bytes of 0 and 1, 32 at a time with AVX2. */
#ifndef PF_AVX2_FLAGS_H
#define PF_AVX2_FLAGS_H

PF_AVX2 static void pf_pack_marks_avx2(uint8_t *marks, uint8_t *bits) {
    const __m256i zero = _mm256_setzero_si256();
    for (size_t i = 0; i < 2 * PF_WORDS; i++) {
        __m256i *block = (__m256i *)(marks + 32 * i);
        uint32_t word = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(_mm256_loadu_si256(block), zero));
        memcpy(bits + 4 * i, &word, 4);
        _mm256_storeu_si256(block, zero);
    }
}

PF_AVX2 static void pf_pack_flags_avx2(const uint8_t *flags, size_t n, uint8_t *bits) {
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i block = _mm256_loadu_si256((const __m256i *)(flags + i));
        uint32_t word = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(block, _mm256_setzero_si256()));
        memcpy(bits + (i >> 3), &word, 4);
    }
    pf_pack_flags_body(flags + i, n - i, bits + (i >> 3));
}

PF_AVX2 static void pf_spread_bits_avx2(const uint8_t *bits, size_t n_bits, uint8_t flip, uint8_t *out) {
    const __m256i lane = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2,
                                          3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i pick = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const __m256i one = _mm256_set1_epi8(1), invert = _mm256_set1_epi8((char)flip);
    size_t i = 0;
    for (; i + 32 <= n_bits; i += 32) {
        int32_t word;
        memcpy(&word, bits + (i >> 3), 4);
        __m256i picked = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), lane), pick);
        __m256i bytes = _mm256_and_si256(_mm256_cmpeq_epi8(picked, pick), one);
        _mm256_storeu_si256((__m256i *)(out + i), _mm256_xor_si256(bytes, invert));
    }
    pf_spread_tail(bits, i, n_bits, flip, out);
}

#endif
