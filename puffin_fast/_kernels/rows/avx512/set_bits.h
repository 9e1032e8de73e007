/* The set bits of a range of a bitmap as u32 indexes, with AVX-512: a word of bits at a time. */
#ifndef PF_AVX512_ROWS_H
#define PF_AVX512_ROWS_H

PF_AVX512 static size_t pf_rows_avx512(const uint8_t *bits, size_t from, size_t n, uint32_t *out, size_t capacity) {
    uint8_t counting[64];
    for (int i = 0; i < 64; i++) counting[i] = (uint8_t)i;
    const __m512i every = _mm512_loadu_si512(counting);
    size_t done = 0, i = 0;
    for (; i < n && capacity - done >= 64; i += 64) {
        uint64_t word = pf_bits_at(bits, from + i, n - i);
        size_t ones = (size_t)_mm_popcnt_u64(word);
        __m512i origin = _mm512_set1_epi32((int)(uint32_t)i);
        __m512i packed = _mm512_maskz_compress_epi8(word, every);
        uint32_t *at = out + done;
        _mm512_storeu_si512(at, _mm512_add_epi32(origin, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(packed))));
        if (ones > 16)
            _mm512_storeu_si512(
                at + 16, _mm512_add_epi32(origin, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, 1))));
        if (ones > 32) {
            _mm512_storeu_si512(
                at + 32, _mm512_add_epi32(origin, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, 2))));
            _mm512_storeu_si512(
                at + 48, _mm512_add_epi32(origin, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, 3))));
        }
        done += ones;
    }
    return done + pf_rows_from(bits, from, n, i, out + done, capacity - done);
}

#endif
