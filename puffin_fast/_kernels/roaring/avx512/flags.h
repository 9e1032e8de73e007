/* Bits to and from bytes of 0 and 1, 64 at a time with AVX-512. */
#ifndef PF_AVX512_FLAGS_H
#define PF_AVX512_FLAGS_H

PF_AVX512 static void pf_pack_marks_avx512(uint8_t *marks, uint8_t *bits) {
    const __m512i zero = _mm512_setzero_si512();
    for (size_t i = 0; i < PF_WORDS; i++) {
        __m512i block = _mm512_loadu_si512(marks + 64 * i);
        pf_put64(bits + 8 * i, _mm512_test_epi8_mask(block, block));
        _mm512_storeu_si512(marks + 64 * i, zero);
    }
}

PF_AVX512 static void pf_pack_flags_avx512(const uint8_t *flags, size_t n, uint8_t *bits) {
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i block = _mm512_loadu_si512(flags + i);
        pf_put64(bits + (i >> 3), _mm512_test_epi8_mask(block, block));
    }
    pf_pack_flags_body(flags + i, n - i, bits + (i >> 3));
}

PF_AVX512 static void pf_spread_bits_avx512(const uint8_t *bits, size_t n_bits, uint8_t flip, uint8_t *out) {
    const __m512i one = _mm512_set1_epi8(1), invert = _mm512_set1_epi8((char)flip);
    size_t i = 0;
    for (; i + 64 <= n_bits; i += 64)
        _mm512_storeu_si512(out + i, _mm512_xor_si512(_mm512_maskz_mov_epi8(pf_get64(bits + (i >> 3)), one), invert));
    pf_spread_tail(bits, i, n_bits, flip, out);
}

#endif
